"""Upper bounds on candidates: at least F of every feasible set, and close to the optimum on known kinds of instances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.bounds.candidates.branch_and_bound import BranchAndBound
from setwise.bounds.candidates.upper_bound import upper_bound
from setwise.errors import Infeasible, InvalidInput
from setwise.model.constraints import Constraints
from small_instances import small_instance
from worlds import REWARDS, random_catalog, random_instance

pytestmark = pytest.mark.promise("bounds")


def checked(instance: sw.Instance, k: int, constraints: dict) -> Constraints:
    return Constraints.of(instance, k, **constraints)


@pytest.mark.parametrize("part", range(10))
def test_no_set_of_small_instances_exceeds_the_bound(part: int, count) -> None:
    """All reward families, one to four heads, signed scores, ties, sinks, missing and huge logits, constraints.

    ``upper_bound`` finishes such instances, so the search is also stopped after 0 to 4 nodes, without an incumbent and
    so without pruning.
    """
    rng = np.random.default_rng([1, part])
    for number in range(count(10_000, 100)):
        instance, k, constraints = small_instance(rng)
        best = sw.rank(instance, k, "exhaustive", **constraints)
        search = BranchAndBound(instance, checked(instance, k, constraints), 1000)
        search.run(number % 5)
        assert search.bound >= best.value, (number, instance, k, constraints)
        if number % 4 == 0:
            assert upper_bound(instance, k, **constraints) >= best.value, (number, instance, k, constraints)


def test_every_intermediate_bound_covers_the_optimum(count) -> None:
    """After every node, with a poor incumbent, none and the best: the largest open bound covers the optimum."""
    rng = np.random.default_rng(2)
    for number in range(count(3_000)):
        instance, k, constraints = small_instance(rng)
        best = sw.rank(instance, k, "exhaustive", **constraints)
        search = BranchAndBound(instance, checked(instance, k, constraints), 1000)
        if number % 3:
            search.offer(best.indices if number % 3 == 1 else sw.rank(instance, k, "knn", **constraints).indices)
        bounds = [search.bound]
        while not search.finished:
            search.run(search.nodes + 1)
            bounds.append(search.bound)
        assert (np.diff(bounds) <= 1e-8 * np.abs(bounds).max()).all() or number % 3 == 0, (
            "bounds fall, up to the tolerance"
        )
        assert min(bounds) >= best.value
        assert instance.value(search.best) == pytest.approx(best.value, rel=1e-9, abs=1e-12)


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    heads=st.integers(1, 4),
    k=st.integers(1, 12),
    sharpness=st.sampled_from([0.3, 1.0, 5.0]),
)
def test_no_random_set_of_larger_instances_exceeds_the_bound(seed: int, heads: int, k: int, sharpness: float) -> None:
    instance = random_instance(
        seed, n=60, heads=heads, sharpness=sharpness, rewards=REWARDS, base=True, sink=seed % 2 == 0
    )
    bound = upper_bound(instance, k, include=[3], exclude=[5])
    rng = np.random.default_rng(seed)
    free = np.setdiff1d(np.arange(60), [3, 5])
    for _ in range(50):
        others = rng.permutation(free)[: rng.integers(0, k)]
        assert instance.value([3, *others]) <= bound
    assert sw.rank(instance, k, "swap", include=[3], exclude=[5]).value <= bound


def test_the_bound_is_close_for_gaussian_catalogues() -> None:
    """One head: ten times closer to the optimum than k·f(max s)."""
    for seed in range(10):
        instance = random_instance(seed, n=100, d=8)
        best = sw.rank(instance, 5, "swap").value
        trivial = 5 * instance.rewards[0].value(instance.score.max())
        assert 0 <= upper_bound(instance, 5) - best <= 0.1 * (trivial - best) + 1e-8


def test_constraints_lower_the_bound() -> None:
    instance = random_instance(3, n=30, attributes={"artist": [i % 3 for i in range(30)]})
    free = upper_bound(instance, 4)
    best = sw.rank(instance, 4, "swap").indices
    assert upper_bound(instance, 4, exclude=best) < free
    assert upper_bound(instance, 4, include=[int(np.argmin(instance.total_score))]) < free
    assert upper_bound(instance, 4, at_most={"artist": 1}) < free
    assert upper_bound(instance, 1) < upper_bound(instance, 2) < free


def test_ordered_slates() -> None:
    catalog, user = random_catalog(4, n=4, positions=3)
    instance = sw.Instance.from_catalog(catalog, user, np.arange(4))
    assert upper_bound(instance, 3) >= sw.rank(instance, 3, "exhaustive").value


@pytest.mark.parametrize("spread", [300.0, 599.0, 601.0, 2000.0, 1e90])
def test_logits_of_any_spread(spread: float) -> None:
    """Spreads up to 600 use sums of weights; above, the largest score bounds the row. Both find the optimum."""
    rng = np.random.default_rng(5)
    logit = rng.normal(size=(9, 9))
    logit[:, ::3] += spread
    instance = sw.Instance(logit, rng.normal(size=9))
    best = sw.rank(instance, 4, "exhaustive")
    assert upper_bound(instance, 4) == pytest.approx(best.value, rel=1e-8)
    assert upper_bound(instance, 4) >= best.value


def test_nothing_attended_to() -> None:
    """An item that attends to nothing has average 0, which may be above every score."""
    instance = sw.Instance(np.full((4, 4), -np.inf), [-3.0, -2.0, -1.0, -5.0], sw.Linear(1.0, 1.0))
    assert upper_bound(instance, 3) == pytest.approx(3.0)
    assert upper_bound(instance, 3) >= 3.0


def test_values_beyond_the_largest_double() -> None:
    assert upper_bound(sw.Instance(np.zeros((3, 3)), [900.0, 950.0, 990.0], sw.Exp()), 2) == math.inf
    sunk = sw.Instance(np.zeros((3, 3)), [-800.0, -900.0, -1.0], sw.Exp(-1.0))
    assert upper_bound(sunk, 2) >= sw.rank(sunk, 2, "exhaustive").value
    beyond = (
        ([900.0, 950.0, 990.0], sw.Exp()),
        ([-800.0, -900.0, -1000.0], sw.Exp(-1.0)),
        ([-1.0, -2.0, -3.0], sw.Linear(1e300)),
    )
    for score, reward in beyond:
        instance = sw.Instance(np.zeros((3, 3)), score, reward)
        for k in (1, 2):
            search = BranchAndBound(instance, Constraints.of(instance, k), 100)
            search.run()
            assert search.finished
            assert not search.proven
    assert BranchAndBound(sunk, Constraints.of(sunk, 2), 100).bound >= sw.rank(sunk, 2, "exhaustive").value
    large = sw.Instance(np.zeros((3, 3)), [-1.0, -2.0, -3.0], sw.Linear(1e279))
    search = BranchAndBound(large, Constraints.of(large, 2), 100)
    search.run()
    assert search.proven


def test_huge_scores_of_tiny_weight() -> None:
    """Scores of 10^12 and weights of 10^-12, as in the paper's constructions: rounding does not dominate the bound."""
    rng = np.random.default_rng(6)
    logit = rng.normal(size=(8, 8)) - 27.6 * (1 - np.eye(8))
    instance = sw.Instance(logit, 1e12 * rng.random(8), sw.Exp(1e-12))
    huge = sw.Instance(logit, rng.random(8) * np.where(np.arange(8) < 4, 1.0, 1e12), sw.Exp(0.3), base=-np.arange(8.0))
    for each in (instance, huge):
        best = sw.rank(each, 4, "exhaustive")
        assert best.value <= upper_bound(each, 4) <= best.value * (1 + 1e-8)


def test_the_queue_grows_until_it_is_full() -> None:
    """Slots double up to ``open_nodes``; then the search stops with a valid bound."""
    instance = random_instance(1, n=60, heads=4, sharpness=3.0)
    constraints = Constraints.of(instance, 8)
    searches = [BranchAndBound(instance, constraints, slots) for slots in (1, 20_000)]
    for search in searches:
        search.run(2_000)
    small, large = searches
    best = sw.rank(instance, 8, "swap").value
    assert small.full
    assert not large.full
    assert small.nodes < large.nodes
    assert small.bound >= large.bound >= best


def test_incumbents_are_the_best_partners_of_the_highest_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pinned items and the highest scores; then each of the highest scores with those best beside it."""
    offered = []
    offer = BranchAndBound.offer
    monkeypatch.setattr(BranchAndBound, "offer", lambda self, rows: (offered.append(rows.tolist()), offer(self, rows)))
    for seed in range(6):
        parts = {"heads": 1 + seed % 3, "base": seed % 2 == 0, "rewards": REWARDS, "sharpness": 2.0}
        instance = random_instance(seed, n=12, attributes={"artist": [i % 5 for i in range(12)]}, **parts)
        offered.clear()
        upper_bound(instance, 5, exclude=[1, 2], include=[3], at_most={"artist": 2})
        first, *anchored = offered
        assert first == highest(instance.total_score)
        falling = [i for i in np.argsort(-instance.total_score) if i not in (1, 2)]
        for anchor, found in zip(falling, anchored, strict=False):
            beside = [np.inf if i == anchor else instance.rewards_of([i, anchor])[0] for i in range(12)]
            assert found == highest(np.array(beside))
        assert anchored


def highest(measure: np.ndarray) -> list[int]:
    """Item 3 and then the highest, without items 1 and 2 and with at most two of an artist: i mod 5."""
    chosen = [3]
    for i in np.argsort(-measure, kind="stable").tolist():
        if len(chosen) < 5 and i not in (1, 2, 3) and sum(i % 5 == j % 5 for j in chosen) < 2:
            chosen.append(i)
    return chosen


def test_incumbents_where_nothing_is_attended_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any weight a reward beside the anchor is that of the item's own score: a number, in order."""
    offered = []
    monkeypatch.setattr(BranchAndBound, "offer", lambda self, rows: offered.append(rows.tolist()))
    upper_bound(sw.Instance(np.full((4, 4), -np.inf), [3.0, 2.0, 1.0, 5.0]), 3)
    assert offered == [[3, 0, 1], [3, 0, 1], [0, 3, 1], [1, 3, 0]]


def test_a_set_size_that_limits_exclude_has_no_incumbent_of_it() -> None:
    """Two candidates of one artist, at most one: sets of one item, though k is 3."""
    instance = sw.Instance(np.zeros((2, 2)), [1.0, 2.0], sw.Linear())
    instance.groups = {"artist": np.array([0, 0])}
    assert upper_bound(instance, 3, at_most={"artist": 1}) == pytest.approx(2.0)


def test_errors() -> None:
    instance = random_instance(0)
    with pytest.raises(InvalidInput, match=r"instance must be a setwise\.Instance, got NoneType"):
        upper_bound(None, 3)
    with pytest.raises(InvalidInput, match="k must be a whole number of at least 1, got 0"):
        upper_bound(instance, 0)
    with pytest.raises(Infeasible, match="include must be free of excluded candidates"):
        upper_bound(instance, 3, exclude=[1], include=[1])
