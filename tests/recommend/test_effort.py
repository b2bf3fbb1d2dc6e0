"""Small budgets: fewer candidates, simpler retrieval, cheaper bounds, and still feasible slates with valid bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import setwise as sw
from reward_families import random_reward
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.norm_bound import norm_bound
from setwise.model.rewards import FAMILIES
from setwise.recommend import effort
from setwise.recommend.effort import Effort
from setwise.recommend.query import Query
from setwise.recommend.retrieve import retrieve
from worlds import random_catalog


def world(n: int = 600, heads: int = 2) -> tuple[sw.Recommender, sw.User, dict[str, np.ndarray]]:
    """A recommender whose items have a kind."""
    catalog, user = random_catalog(5, n=n, heads=heads, base=True)
    kinds = {"kind": np.arange(n) % 50}
    catalog = sw.Catalog(
        catalog.query, catalog.key, catalog.value, (catalog.rewards, catalog.reward_class), base=catalog.base,
        attributes=kinds,
    )  # fmt: skip
    return sw.Recommender(sw.Index.build(catalog, cells=8, progress=False)), user, kinds


def test_a_smaller_budget_affords_no_more() -> None:
    rec, user, _ = world()
    for k in (1, 5, 100, 400):
        efforts = [
            Effort.of(Query.parse(rec.index, user, k=k, budget_ms=ms), 400, 8) for ms in (0.1, 5.0, 50.0, 1e4, None)
        ]
        for less, more in itertools.pairwise(efforts):
            assert less.candidates <= more.candidates
            assert less.per_cell <= more.per_cell
            assert less.with_partners <= more.with_partners
            assert less.in_turns <= more.in_turns
        assert efforts[-1] == efforts[-2] == Effort(400, k, True, True)


@pytest.mark.parametrize("k", [1, 7, 200])
@pytest.mark.parametrize("options", [{}, {"at_most": {"kind": 1}}, {"include": [3]}, {"where": {"kind": [1, 2]}}])
def test_slates_of_tiny_budgets_are_feasible(k: int, options) -> None:
    rec, user, kinds = world()
    eligible = 24 if "where" in options else 600
    slate = rec.recommend(user, k=k, budget_ms=0.01, **options)
    assert len(set(slate.indices)) == len(slate.indices) <= min(k, eligible)
    assert set(options.get("include", [])) <= set(slate.indices)
    kind = kinds["kind"][slate.indices]
    if "at_most" in options:
        assert len(set(kind)) == len(kind)
    if "where" in options:
        assert set(kind) <= {1, 2}
    assert math.isfinite(slate.upper_bound)
    assert slate.upper_bound >= rec.recommend(user, k=k, certify=False, budget_ms=50, **options).value - 1e-9


def test_the_eligible_items_of_one_cell_fill_the_slate() -> None:
    rec, user, _ = world()
    outside = np.flatnonzero(rec.index.cell_of != np.bincount(rec.index.cell_of).argmax())
    inside = 600 - len(outside)
    slate = rec.recommend(user, k=inside, exclude=outside, budget_ms=0.01, certify=False)
    assert len(slate.indices) <= inside
    candidates = retrieve(slate.query, rec._current(True))
    assert len(candidates.rows) >= min(inside, effort.SMALLEST)


@pytest.mark.parametrize("family", FAMILIES)
def test_norm_bounds_hold(family: str, count) -> None:
    for seed in range(count(400)):
        rng = np.random.default_rng([seed, 9])
        n, k = int(rng.integers(1, 8)), int(rng.integers(1, 5))
        catalog, user = random_catalog(
            seed, n=n, heads=int(rng.integers(1, 4)), base=seed % 2 == 0, sink=seed % 3 == 0,
            rewards=[random_reward(family, rng)],
        )  # fmt: skip
        if seed % 4 == 0:
            user = user.with_scores(3 * rng.normal(size=n))
        best = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(n)), k, "exhaustive").value
        assert norm_bound(CellBounds.build(catalog, cells=1), user, k) >= best, seed
