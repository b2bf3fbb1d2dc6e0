"""``exactly``: the same number of items of every value of an attribute."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput
from setwise.model.constraints import Constraints
from setwise.ranking import RANKERS
from worlds import random_catalog

SITE = [("first", "second", "third")[i % 3] for i in range(12)]
ABLE = [name for name, ranker in sorted(RANKERS.items()) if ranker.lower_limits]


def instance_of(seed: int) -> sw.Instance:
    catalog, user = random_catalog(seed, n=12, sharpness=2.0, attributes={"site": SITE})
    return sw.Instance.from_catalog(catalog, user, np.arange(12))


def brute_force(instance: sw.Instance) -> float:
    """The largest value of a set with one item of every site."""
    places = [[i for i in range(12) if SITE[i] == site] for site in ("first", "second", "third")]
    return max(instance.value(list(rows)) for rows in itertools.product(*places))


@pytest.mark.parametrize("ranker", ABLE)
@pytest.mark.parametrize("seed", range(5))
def test_one_item_of_every_site(ranker: str, seed: int) -> None:
    instance = instance_of(seed)
    found = sw.rank(instance, 3, ranker, exactly={"site": 1})
    assert sorted(SITE[i] for i in found.indices.tolist()) == ["first", "second", "third"]
    best = brute_force(instance)
    assert found.value <= best + 1e-9
    if ranker in ("exhaustive", "swap"):
        assert found.value == pytest.approx(best, rel=1e-9)


def test_two_of_every_site_with_a_pinned_and_an_excluded_item() -> None:
    found = sw.rank(instance_of(0), 6, exactly={"site": 2}, include=[4], exclude=[1])
    chosen = found.indices.tolist()
    assert 4 in chosen
    assert 1 not in chosen
    assert [sum(SITE[i] == site for i in chosen) for site in ("first", "second", "third")] == [2, 2, 2]


def test_what_is_feasible() -> None:
    constraints = Constraints.of(instance_of(0), 3, exactly={"site": 1})
    assert constraints.admits([0, 1, 2])
    assert not constraints.admits([0, 1])
    assert not constraints.admits([0, 3, 1])
    np.testing.assert_array_equal(constraints.joinable([0]), [site != "first" for site in SITE])


def test_items_without_a_value_are_not_limited() -> None:
    instance = sw.Instance(np.zeros((4, 4)), [4.0, 3.0, 2.0, 1.0], groups={"site": ["a", "a", "b", None]})
    found = sw.rank(instance, 3, "exhaustive", exactly={"site": 1})
    assert sorted(found.indices.tolist()) == [0, 2, 3]


@pytest.mark.parametrize(
    ("k", "exactly", "error", "sentence"),
    [
        (3, 1, InvalidInput, "exactly must be a mapping"),
        (3, {"mood": 1}, InvalidInput, r"exactly must be about attributes the items have \(site\)"),
        (3, {"site": 0}, InvalidInput, r"exactly\['site'\] must be a whole number of at least 1"),
        (2, {"site": 1}, Infeasible, "at most the 2 items beside the pinned ones, got 3"),
        (12, {"site": 5}, Infeasible, "about values that enough candidates have, got 4"),
    ],
)
def test_limits_that_are_refused(k: int, exactly: object, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        sw.rank(instance_of(0), k, exactly=exactly)


@pytest.mark.parametrize("ranker", sorted(set(RANKERS) - set(ABLE)))
def test_rankers_without_the_capability_refuse(ranker: str) -> None:
    with pytest.raises(InvalidInput, match="ranker must be one that honours exactly"):
        sw.rank(instance_of(0), 3, ranker, exactly={"site": 1})
