"""Where feasible sets are few, all of them are evaluated, and the slate is proven optimal."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import setwise as sw
from setwise.model.constraints import Constraints
from setwise.recommend.few_sets import MOST, enumeration_ms, most_sets
from worlds import random_catalog

N, K = 9, 3


def instance_of(seed: int) -> tuple[sw.Catalog, sw.User, sw.Instance]:
    catalog, user = random_catalog(seed, n=N, heads=2, base=True, attributes={"place": [str(i % 3) for i in range(N)]})
    return catalog, user, sw.Instance.from_catalog(catalog, user, np.arange(N))


@pytest.mark.parametrize(
    "limits", [{}, {"at_most": {"place": 1}}, {"exactly": {"place": 1}}, {"at_most": {"place": 2}}]
)
@pytest.mark.parametrize("pinned", [[], [4]])
def test_the_count_is_at_least_the_number_of_feasible_sets(limits: dict, pinned: list[int]) -> None:
    _, _, instance = instance_of(0)
    constraints = Constraints.of(instance, K, include=pinned, **limits)
    sets = itertools.chain.from_iterable(itertools.combinations(range(N), size) for size in range(K + 1))
    feasible = sum(constraints.admits(np.array(one, int)) for one in sets if set(pinned) <= set(one))
    assert feasible <= most_sets(instance, constraints) <= sum(math.comb(N, size) for size in range(K + 1))
    if limits == {"exactly": {"place": 1}} and not pinned:
        assert feasible == 27
        assert most_sets(instance, constraints) == 64


def test_many_sets_are_too_many() -> None:
    catalog, user = random_catalog(0, n=200, heads=1)
    instance = sw.Instance.from_catalog(catalog, user, np.arange(200))
    constraints = Constraints.of(instance, 20)
    assert most_sets(instance, constraints) == MOST
    assert enumeration_ms(instance, constraints) > 1e5


def test_a_large_budget_does_not_ask_for_more_sets_than_exhaustive_search_takes() -> None:
    """2·10^8 sets, which would be evaluated within this budget: branch and bound takes their place."""
    catalog, user = random_catalog(12, n=120, d=2)
    slate = sw.Recommender(sw.Index.build(catalog, cells=6), candidates=120).recommend(user, k=5, budget_ms=1e6)
    assert slate.proven
    assert slate.value == pytest.approx(sw.set_value(catalog, user, slate.indices), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_slates_of_small_catalogues_are_proven(seed: int) -> None:
    catalog, user, _ = instance_of(seed)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=2))
    places = catalog.attributes["place"]
    for exactly in (None, {"place": 1}):
        slate = recommender.recommend(user, k=K, exactly=exactly, ranker="greedy")
        best = max(
            sw.set_value(catalog, user, list(one))
            for size in range(1, K + 1)
            for one in itertools.combinations(range(N), size)
            if exactly is None or sorted(places[row] for row in one) == ["0", "1", "2"]
        )
        assert slate.proven
        assert slate.value == pytest.approx(best)
