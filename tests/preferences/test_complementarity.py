"""Model 2 and its simple transformer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from many_sets import all_sets, catalog_values, random_sets

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.attention_sum import AttentionSum, largest_sums, require_reachable
from setwise.preferences.complementarity import Complementarity

MODELS = 200
LARGER = 10_000
CHECKED = 20  # sets a model that the reference objective evaluates


def random_interaction(rng: np.random.Generator, n: int, scale: float) -> np.ndarray:
    H = scale * rng.normal(size=(n, n)) * rng.choice([0.0, 1e-6, 1.0], size=(n, n), p=[0.3, 0.1, 0.6])
    np.fill_diagonal(H, 0.0)
    return H


def random_model(rng: np.random.Generator, n: int) -> Complementarity:
    return Complementarity(rng.normal(size=(n, 3)), random_interaction(rng, n, rng.choice([0.01, 1.0, 30.0])))


def model_values(model: Complementarity, user: np.ndarray, members: np.ndarray) -> np.ndarray:
    utility = model.item_value @ user + members @ model.interaction.T
    return np.where(members, utility, 0.0).sum(axis=1)


def check_model(rng: np.random.Generator, model: Complementarity, members: np.ndarray, k: int | None) -> None:
    eps, user = 10.0 ** rng.uniform(-8, -1), rng.normal(size=3)
    catalog = model.to_catalog(eps, k)
    assert np.abs(catalog_values(catalog, model.user(user), members) - model_values(model, user, members)).max() <= eps
    for row in rng.choice(len(members), CHECKED):
        items = np.flatnonzero(members[row])
        assert abs(sw.set_value(catalog, model.user(user), items) - model.value(user, items)) <= eps


def test_catalog_matches_the_model_on_all_small_sets(count) -> None:
    for seed in range(count(MODELS, 4)):
        rng = np.random.default_rng(seed)
        check_model(rng, random_model(rng, 8), all_sets(8, 4), k=4)


def test_catalog_matches_the_model_on_larger_sets(count) -> None:
    for seed in range(count(MODELS, 4)):
        rng = np.random.default_rng(MODELS + seed)
        check_model(rng, random_model(rng, 20), random_sets(rng, LARGER, 20, 5, 20), k=None)


def test_each_item_is_right_within_its_share() -> None:
    rng = np.random.default_rng(1)
    model, user = random_model(rng, 8), rng.normal(size=3)
    catalog = model.to_catalog(1e-6, k=4)
    for items in itertools.combinations(range(8), 4):
        got = sw.item_rewards(catalog, model.user(user), items)
        assert np.abs(got - model.item_utilities(user, items)).max() <= 1e-6 / 4


def test_utilities_by_hand() -> None:
    H = [[0, 2, -1], [0.5, 0, 0], [0, -3, 0]]
    model = Complementarity([[1, 0], [0, 1], [1, 1]], H)
    assert model.item_utilities([2, 5], [0, 1]).tolist() == [4.0, 5.5]
    assert model.item_utilities([2, 5], [2, 1, 0]).tolist() == [4.0, 5.5, 3.0]
    assert model.value([2, 5], [0, 1]) == 9.5
    assert model.value([2, 5], []) == 0.0
    assert repr(model) == "Complementarity(3 items, d=2)"


def test_ids_and_attributes_go_to_the_catalog() -> None:
    model = Complementarity(np.ones((2, 1)), np.zeros((2, 2)))
    catalog = model.to_catalog(1e-3, ids=["tea", "cake"], attributes={"shelf": ["a", "b"]})
    assert catalog.ids.rows_of(["cake"]).tolist() == [1]
    assert list(catalog.attributes) == ["shelf"]


def test_choices_follow_the_softmax() -> None:
    model = Complementarity([[1.0], [0.0], [0.0]], [[0, -1, 0], [1, 0, 0], [0, 0, 0]])
    chosen = model.sample([1.0], [2, 0, 1], 40_000, seed=3)
    share = np.bincount(chosen, minlength=3) / len(chosen)
    weight = np.exp([0.0, 1.0, 0.0])
    assert np.abs(share - weight / weight.sum()).max() < 0.01
    assert (model.sample([1.0], [2, 0, 1], 50, seed=3) == chosen[:50]).all()


def test_largest_sums_by_brute_force() -> None:
    H = random_interaction(np.random.default_rng(4), 6, 1.0)
    for k in (1, 2, 4, 6, 9):
        sets = [list(chosen) for size in range(min(k, 6) + 1) for chosen in itertools.combinations(range(6), size)]
        plus, minus = largest_sums(H, k)
        for i in range(6):
            inside = [chosen for chosen in sets if i in chosen]
            assert plus[i] == pytest.approx(max(np.maximum(H[i, chosen], 0).sum() for chosen in inside))
            assert minus[i] == pytest.approx(max(np.maximum(-H[i, chosen], 0).sum() for chosen in inside))


def test_the_least_reachable_eps_is_named_and_works() -> None:
    rng = np.random.default_rng(5)
    model, user = random_model(rng, 8), rng.normal(size=3)
    with pytest.raises(InvalidInput, match=r"eps must be at least .* double precision can keep .* raise it") as caught:
        model.to_catalog(1e-17)
    least = float(str(caught.value).split("at least ")[1].split(",")[0])
    catalog, members = model.to_catalog(least), all_sets(8, 8)
    wrong = np.abs(catalog_values(catalog, model.user(user), members) - model_values(model, user, members))
    assert wrong.max() <= least
    assert least < 1e-9


@pytest.mark.parametrize(
    ("size", "eps"), [(0.0, 1e-6), (1e-300, 1e-6), (1e-30, 1e-36), (1e30, 1e21), (1e50, 1e41), (1e100, 1e102)]
)
def test_interactions_of_any_size(size: float, eps: float) -> None:
    """Never an overflow: a tiny H vanishes in eps, a huge one asks for a large eps."""
    H = np.array([[0, size, -size], [size / 2, 0, 0], [-size, size, 0]])
    model = Complementarity(np.zeros((3, 1)), H)
    with np.errstate(all="raise", under="ignore"):
        catalog = model.to_catalog(eps)
        for items in ([0], [0, 1], [2, 0], [0, 1, 2]):
            assert abs(sw.set_value(catalog, model.user([1.0]), items) - model.value([1.0], items)) <= eps


def test_only_an_eps_known_to_be_enough_is_reachable() -> None:
    require_reachable(1e-6, 1e-6)
    for least in (math.nan, math.inf):
        with pytest.raises(InvalidInput, match="eps must be within reach of double precision, got 1 for a model of"):
            require_reachable(1.0, least)


def test_a_smaller_eps_makes_a_heavier_sink() -> None:
    H = random_interaction(np.random.default_rng(6), 5, 1.0)
    coarse, fine = AttentionSum.within(H, 5, 1e-2), AttentionSum.within(H, 5, 1e-8)
    assert fine.sink - coarse.sink == pytest.approx(np.log(1e6))
    assert fine.floor - coarse.floor == pytest.approx(np.log(1e6))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Complementarity([1.0], [[0.0]]), r"value must be an array of shape \(n, d\), got shape \(1,\)"),
        (lambda: Complementarity([[1.0]], [[0.0, 1.0]]), r"interaction must be an array of shape \(1, 1\)"),
        (lambda: Complementarity(np.zeros((0, 1)), np.zeros((0, 0))), r"items must be at least one, got none"),
        (lambda: Complementarity([[1.0]], [[2.0]]), r"interaction must be zero on its diagonal.*got 2 for item 0"),
        (lambda: Complementarity([[1.0]], [[np.nan]]), r"interaction must be finite everywhere, got nan at \(0, 0\)"),
        (lambda: Complementarity([[1.0]], [[0.0]]).to_catalog(0.0), r"eps must be above 0, got 0\.0"),
        (lambda: Complementarity([[1.0]], [[0.0]]).to_catalog(1e-3, k=0), r"k must be a whole number of at least 1"),
        (lambda: Complementarity([[1.0]], [[0.0]]).value([1.0, 2.0], [0]), r"user must be an array of shape \(1,\)"),
        (lambda: Complementarity([[1.0]], [[0.0]]).value([1.0], [1]), r"items must be row numbers of the model"),
        (lambda: Complementarity([[1.0]], [[0.0]]).sample([1.0], [], 1, 0), r"items must be a set of at least one"),
        (
            lambda: Complementarity([[1.0]], [[0.0]]).sample([1.0], [0], 1, -1),
            r"seed must be a whole number of at least",
        ),
        (lambda: Complementarity(np.ones((2, 1)), 1 - np.eye(2)).to_catalog(5e-324), r"eps must be at least .*e-1"),
    ],
)
def test_bad_input_is_refused(build, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        build()
