"""MNL and Halo-MNL: probabilities, the simple transformer, files."""

from __future__ import annotations

import math

import numpy as np
import pytest
from many_sets import all_sets, catalog_values, random_sets

import setwise as sw
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.preferences.halo_mnl import MNL, HaloMNL

MODELS = 200
LARGER = 10_000
CHECKED = 20  # sets a model that the reference objective evaluates


def random_halo(rng: np.random.Generator, n: int, scale: float = 1.0, **options: bool) -> HaloMNL:
    H = scale * rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7)
    np.fill_diagonal(H, 0.0)
    return HaloMNL(rng.normal(size=n), H, **options)


def weight_by_hand(model: MNL, items: list[int]) -> list[float]:
    return [math.exp(model.utility[i] + sum(model.halo[i, j] for j in items)) for i in items]


# --- probabilities ---


@pytest.mark.parametrize("outside", [True, False])
def test_probabilities_against_the_definition(outside: bool) -> None:
    rng = np.random.default_rng(0)
    model, price = random_halo(rng, 6, outside_option=outside), rng.normal(size=6)
    for row in all_sets(6, 6):
        items = rng.permutation(np.flatnonzero(row)).tolist()
        weight = weight_by_hand(model, items)
        share = [one / (outside + sum(weight)) for one in weight]
        assert model.choice_probabilities(items) == pytest.approx(share)
        assert model.value(items) == pytest.approx(sum(weight))
        assert model.expected_sales(items) == pytest.approx(sum(weight) / (outside + sum(weight)))
        assert model.expected_revenue(items, price) == pytest.approx(price[items] @ share)


def test_mnl_has_no_halo_and_independence_of_irrelevant_alternatives() -> None:
    model = MNL([0.3, -1.0, 2.0])
    assert model.halo.shape == (3, 3)
    assert not model.halo.any()
    two, three = model.choice_probabilities([0, 1]), model.choice_probabilities([0, 1, 2])
    assert two[0] / two[1] == pytest.approx(three[0] / three[1])
    assert isinstance(HaloMNL([0.0], [[0.0]]), MNL)
    assert repr(model) == "MNL(3 items, outside_option=True)"
    assert len(model) == 3


@pytest.mark.parametrize("outside", [True, False])
def test_the_empty_assortment_sells_nothing(outside: bool) -> None:
    model = MNL([1.0, 2.0], outside_option=outside)
    assert model.choice_probabilities([]).shape == (0,)
    assert model.expected_sales([]) == model.value([]) == model.expected_revenue([], [1.0, 1.0]) == 0.0


def test_extreme_utilities_do_not_overflow() -> None:
    model = MNL([1000.0, 999.0, -1000.0])
    assert model.choice_probabilities([0, 1, 2]) == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0.0])
    assert model.value([0]) == math.inf


def test_samples_follow_the_probabilities() -> None:
    model = HaloMNL([0.5, 0.0, -0.5], [[0, 1, 0], [-1, 0, 0], [0, 0, 0]])
    chosen = model.sample([1, 0], 40_000, seed=1)
    share = [(chosen == i).mean() for i in (1, 0, -1)]
    p = model.choice_probabilities([1, 0])
    assert share == pytest.approx([*p, 1 - p.sum()], abs=0.01)
    assert model.sample([], 3, seed=1).tolist() == [-1, -1, -1]
    assert (model.sample([1, 0], 50) == model.sample([1, 0], 50, seed=0)).all()
    assert (HaloMNL(model.utility, model.halo, outside_option=False).sample([1, 0], 1000, seed=1) >= 0).all()


# --- the simple transformer ---


def check_catalog(rng: np.random.Generator, model: HaloMNL, members: np.ndarray, k: int | None) -> None:
    eps = 10.0 ** rng.uniform(-6, -1)
    catalog, user = model.to_catalog(eps, k), model.user()
    utility = model.utility + members @ model.halo.T
    total = np.where(members, np.exp(utility), 0.0).sum(axis=1)
    assert np.abs(catalog_values(catalog, user, members) - total).max() <= eps
    for row in rng.choice(len(members), CHECKED):
        items = np.flatnonzero(members[row])
        assert abs(sw.set_value(catalog, user, items) - model.value(items)) <= eps


def test_catalog_matches_the_model_on_all_small_sets(count) -> None:
    for seed in range(count(MODELS, 4)):
        rng = np.random.default_rng(seed)
        check_catalog(rng, random_halo(rng, 8, rng.choice([0.1, 1.0, 2.0])), all_sets(8, 4), k=4)


@pytest.mark.nightly
def test_catalog_matches_the_model_on_larger_sets(count) -> None:
    for seed in range(count(MODELS, 4)):
        rng = np.random.default_rng(MODELS + seed)
        check_catalog(rng, random_halo(rng, 20, rng.choice([0.1, 0.5])), random_sets(rng, LARGER, 20, 5, 20), k=None)


def test_catalog_keeps_ids_and_takes_attributes() -> None:
    model = HaloMNL([0.0, 1.0], np.zeros((2, 2)), ids=["tea", "cake"])
    catalog = model.to_catalog(1e-3, attributes={"shelf": ["a", "b"]})
    assert catalog.ids.rows_of(["cake"]).tolist() == [1]
    assert sw.set_value(catalog, model.user(), [0, 1]) == pytest.approx(1 + math.e, abs=1e-3)
    assert list(catalog.attributes) == ["shelf"]


def test_an_eps_out_of_reach_is_refused_and_the_named_one_works() -> None:
    model = random_halo(np.random.default_rng(2), 8)
    with pytest.raises(InvalidInput, match=r"eps must be at least .* double precision can keep") as caught:
        model.to_catalog(1e-300)
    least = float(str(caught.value).split("at least ")[1].split(",")[0])
    members = all_sets(8, 8)
    total = np.where(members, np.exp(model.utility + members @ model.halo.T), 0.0).sum(axis=1)
    assert np.abs(catalog_values(model.to_catalog(least), model.user(), members) - total).max() <= least
    assert least < 1e-6
    with pytest.raises(InvalidInput, match=r"the value of k items must be below e\^700, got up to e\^800"):
        MNL([800.0]).to_catalog(1.0)


def test_hopeless_items_need_no_precision() -> None:
    model = HaloMNL([-2000.0, -2000.0], [[0, 1], [-1, 0]])
    assert sw.set_value(model.to_catalog(1e-9), model.user(), [0, 1]) <= 1e-9


@pytest.mark.parametrize("never", [-100.0, -1e18, -1e100])
def test_never_together_in_a_catalog(never: float) -> None:
    """Effects and utilities that leave nothing of an item are no harder to express than milder ones."""
    model = HaloMNL([0.5, 0.0, never], [[0, never, 1], [never, 0, never], [2, 0, 0]])
    for eps in (1e-3, 1e-8):
        catalog = model.to_catalog(eps)
        for row in all_sets(3, 3):
            items = np.flatnonzero(row)
            assert abs(sw.set_value(catalog, model.user(), items) - model.value(items)) <= eps
    assert model.instance().value([0, 1, 2]) == pytest.approx(model.value([0, 1, 2]), rel=1e-11, abs=1e-300)
    assert model.instance().value([0, 2]) == pytest.approx(model.value([0, 2]))


def test_effects_that_no_eps_can_hold_are_refused() -> None:
    with pytest.raises(InvalidInput, match="eps must be within reach of double precision"):
        HaloMNL([-1e18, 0.0], [[0, 1e18], [0, 0]]).to_catalog(1e-3)


def test_instance_is_the_total_weight() -> None:
    rng = np.random.default_rng(3)
    model = random_halo(rng, 9, 2.0)
    instance, margin = model.instance(), rng.normal(size=9) * (rng.random(9) < 0.8)
    signed = model.instance(margin)
    for row in all_sets(9, 9)[::7]:
        items = np.flatnonzero(row)
        weight = np.exp(model.item_utilities(items))
        assert instance.value(items) == pytest.approx(weight.sum(), rel=1e-12)
        assert signed.rewards_of(items) == pytest.approx(margin[items] * weight, rel=1e-11)


def test_instance_without_halo() -> None:
    assert MNL([0.0, 1.0]).instance().value([0, 1]) == pytest.approx(1 + math.e)


# --- files and errors ---


@pytest.mark.parametrize("model", [HaloMNL([0.1, 0.2], [[0, 1], [2, 0]], ids=["a", "b"]), MNL([1.0], [7], False)])
def test_saved_models_come_back(model: MNL, tmp_path) -> None:
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    assert type(again) is type(model)
    assert (again.utility == model.utility).all()
    assert (again.halo == model.halo).all()
    assert again.ids[:].tolist() == model.ids[:].tolist()
    assert again.outside_option == model.outside_option
    other = MNL if isinstance(model, HaloMNL) else HaloMNL
    with pytest.raises(DamagedArtifact):
        other.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: MNL([[1.0]]), r"utility must be an array of shape \(n,\), got shape \(1, 1\)"),
        (lambda: HaloMNL([1.0], [[1.0]]), "halo must be zero on its diagonal, because no item affects itself"),
        (lambda: HaloMNL([1.0], [[0.0, 1.0]]), r"halo must be an array of shape \(1, 1\)"),
        (lambda: MNL([1.0], ids=["a", "b"]), "ids must be 1 ids, one per item, got 2"),
        (lambda: MNL([1.0]).expected_revenue([0], [1.0, 2.0]), r"price must be an array of shape \(1,\)"),
        (lambda: MNL([1.0]).instance([np.inf]), "margin must be finite everywhere"),
        (lambda: MNL([1.0], outside_option=False).sample([], 1, 0), "items must be a set of at least one item"),
        (lambda: MNL([1.0]).sample([0], 1, seed=-1), "seed must be a whole number of at least 0"),
        (lambda: MNL([1.0]).choice_probabilities([0, 0]), "items must be a set of distinct row numbers"),
    ],
)
def test_bad_input_is_refused(build, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        build()
