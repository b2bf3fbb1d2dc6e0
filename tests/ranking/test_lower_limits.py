"""``at_least``: lower limits on the values of an attribute, for every ranker that honours them."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput
from setwise.model.constraints import Constraints
from setwise.ranking import RANKERS
from worlds import REWARDS, random_catalog

GENRE = [("jazz", "rock", "folk")[i % 3] for i in range(9)]
YEAR = [2000 + i % 2 for i in range(9)]
ABLE = [name for name, ranker in sorted(RANKERS.items()) if ranker.lower_limits]


def world(seed: int) -> tuple[sw.Catalog, sw.User]:
    rewards = REWARDS if seed % 2 else REWARDS[:1]
    return random_catalog(seed, n=9, sharpness=2.0, rewards=rewards, attributes={"genre": GENRE, "year": YEAR})


def instance_of(seed: int) -> sw.Instance:
    return sw.Instance.from_catalog(*world(seed), np.arange(9))


def number_of(values: list, chosen: np.ndarray, value: object) -> int:
    return sum(values[i] == value for i in chosen.tolist())


def brute_force(instance: sw.Instance, k: int, minimum: int, pinned: int | None = None) -> float:
    """The largest value of a set with at least ``minimum`` items of jazz."""
    sets = (list(rows) for size in range(1, k + 1) for rows in itertools.combinations(range(9), size))
    feasible = (rows for rows in sets if sum(GENRE[i] == "jazz" for i in rows) >= minimum)
    return max(instance.value(rows) for rows in feasible if pinned is None or pinned in rows)


@pytest.mark.parametrize("ranker", ABLE)
@pytest.mark.parametrize("seed", range(6))
def test_the_set_has_at_least_so_many(ranker: str, seed: int) -> None:
    instance = instance_of(seed)
    for minimum in (1, 2, 3):
        found = sw.rank(instance, 4, ranker, at_least={"genre": {"jazz": minimum}}, include=[1])
        assert number_of(GENRE, found.indices, "jazz") >= minimum
        assert found.value <= brute_force(instance, 4, minimum, pinned=1) + 1e-9


@pytest.mark.parametrize("ranker", ["exhaustive", "swap"])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_set_under_a_lower_limit(ranker: str, seed: int) -> None:
    instance = instance_of(seed)
    for minimum in (1, 2, 3):
        found = sw.rank(instance, 3, ranker, at_least={"genre": {"jazz": minimum}})
        assert found.value == pytest.approx(brute_force(instance, 3, minimum), rel=1e-9)


@pytest.mark.parametrize("ranker", ABLE)
def test_several_values_attributes_and_upper_limits_together(ranker: str) -> None:
    for seed in range(6):
        at_least = {"genre": {"jazz": 1, "folk": 1}, "year": {2001: 2}}
        found = sw.rank(instance_of(seed), 5, ranker, at_least=at_least, at_most={"genre": 2})
        assert number_of(GENRE, found.indices, "jazz") >= 1
        assert number_of(GENRE, found.indices, "folk") >= 1
        assert number_of(YEAR, found.indices, 2001) >= 2
        assert max(number_of(GENRE, found.indices, genre) for genre in GENRE) <= 2


@pytest.mark.parametrize("ranker", ABLE)
def test_the_order_of_candidates_does_not_matter(ranker: str) -> None:
    shuffled = np.random.default_rng(0).permutation(9)
    one, other = instance_of(3), sw.Instance.from_catalog(*world(3), shuffled)
    first, second = (sw.rank(each, 4, ranker, at_least={"genre": {"rock": 3}}) for each in (one, other))
    np.testing.assert_array_equal(one.candidates[first.indices], other.candidates[second.indices])


def test_groups_of_an_instance_without_a_catalogue() -> None:
    instance = sw.Instance(np.zeros((4, 4)), [4.0, 3.0, 2.0, 1.0], groups={"genre": ["a", "a", "b", None]})
    found = sw.rank(instance, 2, at_least={"genre": {"b": 1}})
    assert sorted(found.indices.tolist()) == [0, 2]


@pytest.mark.parametrize("ranker", sorted(set(RANKERS) - set(ABLE)))
def test_rankers_without_the_capability_refuse(ranker: str) -> None:
    with pytest.raises(InvalidInput, match="ranker must be one that honours at_least"):
        sw.rank(instance_of(0), 3, ranker, at_least={"genre": {"jazz": 1}})


@pytest.mark.parametrize(
    ("at_least", "error", "sentence"),
    [
        (2, InvalidInput, "at_least must be a mapping"),
        ({"genre": 2}, InvalidInput, "at_least must be a mapping"),
        ({"mood": {"calm": 1}}, InvalidInput, r"at_least must be about attributes the items have \(genre, year\)"),
        ({"genre": {"jazz": 0}}, InvalidInput, r"at_least\['genre'\]\['jazz'\] must be a whole number of at least 1"),
        ({"genre": {"polka": 1}}, Infeasible, "about values that candidates have, got 'polka'"),
        ({"genre": {"jazz": 4}}, Infeasible, "about values that enough candidates have, got 3"),
        ({"genre": {"jazz": 2, "rock": 2}}, Infeasible, "at most the 3 items beside the pinned ones, got 4"),
    ],
)
def test_limits_that_are_refused(at_least: object, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        sw.rank(instance_of(0), 3, at_least=at_least)


@pytest.mark.parametrize("ranker", ABLE)
def test_lower_and_upper_limits_that_no_set_keeps(ranker: str) -> None:
    with pytest.raises(Infeasible, match="at_least must be possible together with the other limits"):
        sw.rank(instance_of(0), 4, ranker, at_least={"genre": {"jazz": 3}}, at_most={"genre": 2})


def test_the_deficit_decides_what_may_be_added() -> None:
    constraints = Constraints.of(instance_of(0), 3, at_least={"genre": {"jazz": 2}})
    jazz = np.array([genre == "jazz" for genre in GENRE])
    assert constraints.joinable([]).all()
    np.testing.assert_array_equal(constraints.joinable([1]), jazz)
    assert not constraints.admits([1, 2])
    assert constraints.admits([0, 1, 3])


def test_a_limit_of_all_candidates_takes_all_of_them() -> None:
    """The worst item would be left out if the limit were one less."""
    instance = sw.Instance(
        np.zeros((3, 3)), np.zeros(3), sw.Linear(), base=[1.0, 2.0, -5.0], groups={"genre": ["a"] * 3}
    )
    assert len(sw.rank(instance, 3, "exhaustive").indices) == 2
    assert len(sw.rank(instance, 3, "exhaustive", at_least={"genre": {"a": 3}}).indices) == 3
    with pytest.raises(Infeasible):
        sw.rank(instance, 3, "exhaustive", at_least={"genre": {"a": 4}})


@pytest.mark.parametrize("ranker", ABLE)
def test_limits_that_the_best_items_rule_out(ranker: str) -> None:
    """The items of highest score leave no second item of the artist; rankers that add items one by one ended there."""
    groups = {"site": ["east", "north", "north", "east"], "artist": ["other", "Ada", "Ada", "Ada"]}
    logit = np.random.default_rng(0).normal(size=(4, 4)) / 10
    instance = sw.Instance(logit, [0.0] * 4, base=[9.0, 5.0, 4.0, 0.0], groups=groups)
    found = sw.rank(instance, 3, ranker, at_most={"site": 1}, at_least={"artist": {"Ada": 2}})
    assert sorted(found.indices.tolist()) in ([1, 3], [2, 3])


def tight_limits(rng: np.random.Generator) -> tuple[sw.Instance, int, dict[str, dict]]:
    """Nine candidates with three attributes, and limits of all kinds on them."""
    n, names = 9, ("site", "artist", "year")
    groups = {name: rng.integers(rng.integers(2, 5), size=n).tolist() for name in names}
    instance = sw.Instance(rng.normal(size=(n, n)), rng.normal(size=n), groups=groups)
    limits: dict[str, dict] = {"at_most": {"site": int(rng.integers(1, 3))}, "at_least": {}}
    for name in ("artist", "year"):
        limits["at_least"][name] = {int(rng.choice(groups[name])): int(rng.integers(1, 4))}
    if rng.random() < 0.3:
        limits["exactly"] = {"site": 1}
    return instance, int(rng.integers(2, 6)), limits


def is_feasible(instance: sw.Instance, k: int, limits: dict[str, dict]) -> bool:
    """Whether some set keeps the limits, by trying all."""
    try:
        constraints = Constraints.of(instance, k, **limits)
    except Infeasible:
        return False
    sets = (rows for size in range(1, k + 1) for rows in itertools.combinations(range(instance.m), size))
    return any(constraints.admits(rows) for rows in sets)


@pytest.mark.parametrize("ranker", ABLE)
def test_limits_of_which_no_candidate_serves_all(ranker: str) -> None:
    """Each can be kept alone, and every item of a set would have to serve both."""
    instance = sw.Instance(np.zeros((4, 4)), np.ones(4), groups={"genre": [0, 0, 1, 1], "year": [0, 0, 1, 1]})
    with pytest.raises(Infeasible, match="got no candidate that serves all of them"):
        sw.rank(instance, 2, ranker, at_least={"genre": {0: 2}, "year": {1: 2}})


@pytest.mark.parametrize("ranker", ABLE)
def test_only_limits_that_no_set_keeps_are_refused(ranker: str, count) -> None:
    """However tight limits on three attributes are together."""
    seen = Counter[bool]()
    for seed in range(count(2000, 80)):
        instance, k, limits = tight_limits(np.random.default_rng(seed))
        feasible = is_feasible(instance, k, limits)
        seen[feasible] += 1
        if feasible:
            found = sw.rank(instance, k, ranker, **limits)
            assert Constraints.of(instance, k, **limits).admits(found.indices)
            assert found.value == pytest.approx(instance.value(found.indices))
        else:
            with pytest.raises(Infeasible):
                sw.rank(instance, k, ranker, **limits)
    assert min(seen.values()) > 2
