"""Assortments: the best set for sales and for revenue, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput
from setwise.preferences.halo_mnl import MNL, HaloMNL


def random_world(seed: int, n: int = 8) -> tuple[HaloMNL, np.ndarray]:
    """Signed H, with and without an outside option, prices of both signs in every third world."""
    rng = np.random.default_rng(seed)
    H = rng.choice([0.3, 1.5]) * rng.normal(size=(n, n))
    np.fill_diagonal(H, 0.0)
    return HaloMNL(rng.normal(size=n), H, outside_option=seed % 2 == 0), rng.exponential(size=n) - (seed % 3 == 0)


def all_feasible(n: int, k: int, include: list[int] = (), exclude: list[int] = (), shelf: np.ndarray | None = None):
    for size in range(1, k + 1):
        for items in itertools.combinations(range(n), size):
            within = shelf is None or np.bincount(shelf[list(items)]).max() <= 1
            if set(include) <= set(items) and not set(exclude) & set(items) and within:
                yield list(items)


def test_revenue_is_optimal_with_exhaustive_search() -> None:
    for seed in range(30):
        model, price = random_world(seed)
        best = max(model.expected_revenue(items, price) for items in all_feasible(8, 4))
        found = model.assortment(4, price, ranker="exhaustive")
        assert found.proven
        assert found.expected_revenue == pytest.approx(best, rel=1e-9)
        assert found.expected_revenue == model.expected_revenue(found.indices, price)
        assert found.guesses[-1] == found.expected_revenue


def test_revenue_is_optimal_under_constraints() -> None:
    for seed in range(12):
        model, price = random_world(seed)
        shelf = np.arange(8) % 4
        options = {"include": [int(np.argmin(price))], "exclude": [int(np.argmax(price))]}
        best = max(model.expected_revenue(items, price) for items in all_feasible(8, 4, **options, shelf=shelf))
        found = model.assortment(
            4, price, ranker="exhaustive", groups={"shelf": shelf}, at_most={"shelf": 1}, **options
        )
        assert found.expected_revenue == pytest.approx(best, rel=1e-9)
        assert set(options["include"]) <= set(found.indices.tolist())


@pytest.mark.parametrize("seed", range(0, 20, 2))
def test_sales_are_optimal_with_exhaustive_search(seed: int) -> None:
    model, _ = random_world(seed)
    best = max(model.expected_sales(items) for items in all_feasible(8, 4))
    found = model.assortment(4, ranker="exhaustive")
    assert found.expected_sales == pytest.approx(best, rel=1e-9)
    assert found.expected_revenue is None
    assert found.guesses == ()
    assert found.proven


def test_a_heuristic_ranker_rises(count) -> None:
    for seed in range(count(20, 4)):
        model, price = random_world(seed, n=30)
        found = model.assortment(5, price)
        guesses = found.guesses[1:]
        assert all(later > earlier for earlier, later in itertools.pairwise(guesses))
        assert found.expected_revenue == guesses[-1]
        assert not found.proven


def test_substitutes_only_leave_one_item() -> None:
    """Everything drives everything else away: the best set is small, but not empty."""
    H = -5.0 * (1 - np.eye(6))
    model = HaloMNL(np.linspace(0, 1, 6), H)
    for price in (None, np.ones(6)):
        for ranker in ("exhaustive", "greedy"):
            assert model.assortment(4, price, ranker=ranker).items == [5]


@pytest.mark.parametrize("outside", [True, False])
def test_when_everything_loses_money_the_least_loss_is_shown(outside: bool) -> None:
    model, price = MNL([0.0, 1.0, 2.0], outside_option=outside), [-2.0, -3.0, -1.0]
    best = max(model.expected_revenue(items, price) for items in all_feasible(3, 2))
    for ranker in ("exhaustive", "greedy"):
        assert model.assortment(2, price, ranker=ranker).expected_revenue == best < 0


def test_a_loss_leader_is_shown_for_its_halo() -> None:
    """Item 0 costs money and makes item 1 irresistible."""
    H = np.zeros((3, 3))
    H[1, 0] = 4.0
    model = HaloMNL([-1.0, -2.0, 0.0], H)
    found = model.assortment(2, [-0.5, 3.0, 0.8], ranker="exhaustive")
    assert sorted(found.indices.tolist()) == [0, 1]
    assert found.expected_revenue > model.expected_revenue([1, 2], [-0.5, 3.0, 0.8])


def test_without_halo_or_outside_option_the_dearest_item_alone_is_best() -> None:
    model = MNL([5.0, 0.0, -5.0], ids=["cheap", "middle", "dear"], outside_option=False)
    found = model.assortment(3, [1.0, 2.0, 3.0], ranker="exhaustive")
    assert found.items == ["dear"]
    assert found.expected_sales == 1.0
    assert found.expected_revenue == pytest.approx(3.0)


@pytest.mark.nightly
def test_rank_takes_a_halo_instance_of_two_thousand_items() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    H = 0.5 * rng.normal(size=(n, n))
    np.fill_diagonal(H, 0.0)
    model = HaloMNL(rng.normal(size=n) - 4, H)
    shelf = np.arange(n) % 100
    instance = model.instance(groups={"shelf": shelf})
    ranking = sw.rank(instance, 10, at_most={"shelf": 1}, include=[3], exclude=[4])
    chosen = ranking.indices
    assert ranking.value == pytest.approx(model.value(chosen), rel=1e-12)
    assert 3 in chosen
    assert 4 not in chosen
    assert np.bincount(shelf[chosen]).max() == 1
    assert ranking.value > 10 * model.value(np.argsort(-model.utility)[:10])


def test_bad_wishes_are_refused() -> None:
    model = MNL([0.0, 1.0], outside_option=False)
    with pytest.raises(
        InvalidInput, match="price must be given when there is no outside option, as something is always"
    ):
        model.assortment(1)
    with pytest.raises(InvalidInput, match="price must be an array of shape"):
        model.assortment(1, [1.0])
    with pytest.raises(Infeasible):
        model.assortment(1, [1.0, 1.0], include=[0, 1])
    with pytest.raises(InvalidInput, match="ranker must be one of"):
        model.assortment(1, [1.0, 1.0], ranker="oracle")


# --- what doubles can and cannot prove ---


def test_utilities_beyond_the_doubles() -> None:
    for level in (720.0, 5000.0, -2000.0):
        model, price = MNL(level + np.arange(3.0), outside_option=False), [5.0, 3.0, -2.0]
        found = model.assortment(2, price, ranker="exhaustive", include=[2])
        assert sorted(found.indices.tolist()) == [1, 2]
        assert found.proven
    assert MNL([800.0, 801.0]).assortment(1, ranker="exhaustive").items == [1]


def test_a_shift_divides_the_value() -> None:
    model = HaloMNL([3.0, 1.0], [[0, 1.0], [-2.0, 0]])
    assert model.instance(shift=2.5).value([0, 1]) == pytest.approx(model.value([0, 1]) * np.exp(-2.5))
    assert np.isfinite(MNL([800.0, 801.0]).instance([1.0, -1.0], shift=500.0).value([0, 1]))


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("strength", [40.0, 100.0, 300.0])
def test_rounding_of_a_large_value_does_not_hide_a_small_better_one(outside: bool, strength: float) -> None:
    """Two items that sell each other at a poor mean price, or the dear one alone."""
    model = HaloMNL([1.1, 0.3], [[0, strength], [1.01 * strength, 0]], outside_option=outside)
    for price in ([1.1, 0.1], [1.1, 0.3], [1.3, 0.7]):
        best = max(model.expected_revenue(items, price) for items in ([0], [1], [0, 1]))
        found = model.assortment(2, price, ranker="exhaustive")
        assert found.expected_revenue == pytest.approx(best, rel=1e-9)
        assert found.proven


def test_nothing_wrong_is_ever_proven(count) -> None:
    """Exponents of any size, prices of any unit: a proven assortment is the best one."""
    proven = 0
    for seed in range(count(400, 4)):
        rng = np.random.default_rng(seed)
        H = rng.choice([1, 30, 300, 800]) * rng.normal(size=(5, 5)) * (rng.random((5, 5)) < 0.5)
        H[rng.random((5, 5)) < 0.1] = -1e18 * (seed % 2)
        np.fill_diagonal(H, 0.0)
        utility = rng.choice([1, 50, 700, 2000]) * rng.normal(size=5) + rng.choice([0, 0, -1500, 900])
        model = HaloMNL(utility, H, outside_option=seed % 3 > 0)
        price = (rng.normal(size=5) + seed % 2) * rng.choice([1e-30, 1.0, 1e20])
        include = [seed % 5] if seed % 4 else []
        found = model.assortment(3, price, ranker="exhaustive", include=include)
        best = max(model.expected_revenue(items, price) for items in all_feasible(5, 3, include))
        proven += found.proven
        assert not found.proven or found.expected_revenue >= best - 1e-9 * np.abs(price).max()
        if model.outside_option:
            selling = model.assortment(3, ranker="exhaustive", include=include)
            most = max(model.expected_sales(items) for items in all_feasible(5, 3, include))
            assert not selling.proven or selling.expected_sales >= most - 1e-9
    assert proven > count(400, 4) // 4


def test_never_together() -> None:
    H = np.array([[0, -1e18, 1.0], [-1e18, 0, 0], [0, 0, 0]])
    found = HaloMNL([0.0, 0.5, 0.0], H).assortment(3, ranker="exhaustive")
    assert sorted(found.indices.tolist()) == [0, 2]
    assert found.proven
    alone = HaloMNL([0.0, 0.0], [[0, -1e18], [-1e18, 0]], outside_option=False)
    assert not alone.assortment(2, [5.0, 4.0], ranker="exhaustive", include=[1]).proven, "weights of e^(-1e18)"


@pytest.mark.parametrize("size", [1e-310, 1e-30, 1e18, 1e80])
def test_effects_of_any_size(size: float) -> None:
    """A tiny effect is none, a hugely negative one is "never together", a hugely positive one says nothing."""
    sour = HaloMNL([0, 0], [[0, -size], [0, 0]]).assortment(2, ranker="exhaustive")
    assert len(sour.items) == (2 if size < 1 else 1)
    assert sour.proven
    sweet = HaloMNL([0, 0], [[0, size], [0, 0]])
    if size < 1:
        assert sweet.assortment(2, ranker="exhaustive").items == [0, 1]
    else:
        with pytest.raises(
            InvalidInput, match="positive effects and utilities must be such that doubles keep their sums"
        ):
            sweet.assortment(2)


def test_effects_beyond_any_sum_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"halo must be at most 2\.2e\+84 in sum on an item, got effects that add up"
    ):
        HaloMNL([0, 0], [[0, 1e90], [0, 0]]).instance()
    with pytest.raises(InvalidInput):
        HaloMNL([0, 0], [[0, 1e300], [0, 0]]).assortment(2)
