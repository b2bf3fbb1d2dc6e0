"""A model of set outcomes: its gradients, its catalogue, and what it learns where the truth is known."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.training.outcome_links import (
    LOSSES,
    linked,
    losses,
    losses_and_slopes,
    set_weights,
    slopes,
    suggested_link,
    unlinked,
)
from setwise.training.set_kernels import add_gradients, set_values, values_by_table
from setwise.training.set_outcomes import PARTS, OutcomeModel
from setwise.training.set_pairs import fit_pairs, pair_heads, pair_values

SITES, CHOICES = 3, 5
N = SITES * CHOICES


def landscape(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """All 125 sets with one of five items at each of three sites, and an outcome that only pairs explain."""
    sets = np.array(list(itertools.product(*(range(CHOICES * p, CHOICES * (p + 1)) for p in range(SITES)))))
    pair = np.random.default_rng(seed).normal(size=(N, N))
    return sets, sum(pair[sets[:, a], sets[:, b]] for a, b in ((0, 1), (0, 2), (1, 2)))


def test_gradients_are_those_of_the_values() -> None:
    rng = np.random.default_rng(0)
    shapes = {"q": (6, 2, 3), "k": (6, 2, 3), "v": (6, 2), "z": (6, 2), "b": (6,)}
    parts = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    sets, outer = np.array([[0, 2, 5], [1, 3, -1], [4, -1, -1]]), rng.normal(size=3)

    def total() -> float:
        out = np.empty(3)
        set_values(*(parts[name] for name in PARTS), sets, out)
        return float(outer @ out)

    gradient = {name: np.zeros(shape) for name, shape in shapes.items()}
    add_gradients(*(parts[name] for name in PARTS), sets, outer, *(gradient[name] for name in PARTS))
    for name, part in parts.items():
        for place in np.ndindex(part.shape):
            kept, h = part[place], 1e-5
            part[place] = kept + h
            above = total()
            part[place] = kept - h
            below = total()
            part[place] = kept
            assert gradient[name][place] == pytest.approx((above - below) / (2 * h), abs=1e-7), (name, place)


def test_a_table_of_weights_gives_the_same_values() -> None:
    rng = np.random.default_rng(1)
    q, k, v, z, b = (rng.normal(size=shape) for shape in ((6, 2, 3), (6, 2, 3), (6, 2), (6, 2), (6,)))
    sets, one, other = np.array([[0, 2, 5], [1, 3, -1], [4, -1, -1], [5, 0, 2]]), np.empty(4), np.empty(4)
    set_values(q, k, v, z, b, sets, one)
    values_by_table(np.exp(np.einsum("ihc,jhc->ijh", q, k)), v, np.exp(z), b, sets, other)
    np.testing.assert_allclose(other, one, rtol=1e-12)
    assert one[0] == pytest.approx(one[3])


def test_a_pairwise_member_that_was_fitted_before() -> None:
    sets, outcome = landscape(3)
    fitted = {"heads": 1, "dim": 2, "epochs": 2, "seed": 4}
    member = fit_pairs(sets, outcome, N, "identity", "squared", 4)
    given, own = (
        OutcomeModel.fit(sets, outcome, N, pairs=member, **fitted),
        OutcomeModel.fit(sets, outcome, N, **fitted),
    )
    np.testing.assert_allclose(given.values(sets), own.values(sets), rtol=1e-9)
    with pytest.raises(InvalidInput, match="a member of 16 items"):
        OutcomeModel.fit(sets, outcome, N + 1, pairs=member, **fitted)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("members", [1, 3])
def test_the_catalogue_has_the_values_of_the_model(members: int, pairs: bool) -> None:
    sets, outcome = landscape(0)
    model = OutcomeModel.fit(sets, outcome, N, heads=2, dim=3, epochs=3, members=members, pairs=pairs)
    catalog = model.catalog(attributes={"site": np.arange(N) // CHOICES})
    assert catalog.heads == 2 * members + 2 * pairs + 1
    values = [sw.set_value(catalog, model.user(), rows) for rows in sets[::10]]
    np.testing.assert_allclose(values, model.values(sets[::10]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("constant", [-50.0, 0.0, pytest.param(50.0, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("alike", [True, False])
def test_the_best_set_of_any_size_is_found(constant: float, alike: bool) -> None:
    """The constant counts once for a set of any size, also where all sets of the training have one size."""
    rng = np.random.default_rng(3)
    every = [list(rows) + [-1] * (3 - k) for k in (1, 2, 3) for rows in itertools.combinations(range(9), k)]
    sets = np.array([rows for rows in every if not alike or -1 not in rows])
    effect, pair = rng.normal(size=9), rng.normal(size=(9, 9))
    outcome = [
        constant + sum(effect[i] for i in s) + sum(pair[i, j] for i in s for j in s if i < j) for s in sets_of(sets)
    ]
    model = OutcomeModel.fit(sets, np.array(outcome), 9, heads=2, dim=2, epochs=3, batch=16)
    catalog, user, values = model.catalog(), model.user(), model.values(np.array(every))
    reference = [sw.set_value(catalog, user, rows) for rows in sets_of(every)]
    np.testing.assert_allclose(reference, values, rtol=1e-7, atol=1e-7)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=2))
    for k in (1, 2, 3):
        slate = recommender.recommend(user, k=k, budget_ms=2000)
        best = max(value for value, rows in zip(values, sets_of(every), strict=True) if len(rows) <= k)
        assert slate.value == pytest.approx(best, rel=1e-7, abs=1e-7)
        assert slate.proven


@pytest.mark.parametrize("link", ["identity", "softplus"])
@pytest.mark.parametrize("unit", [1e-9, *(pytest.param(unit, marks=pytest.mark.nightly) for unit in (1e-3, 1e6))])
def test_the_unit_of_the_outcomes_does_not_matter(link: str, unit: float) -> None:
    sets, outcome = landscape(2)
    one = OutcomeModel.fit(sets, outcome - outcome.min(), N, link=link, heads=2, dim=2, epochs=20, batch=16)
    other = OutcomeModel.fit(sets, unit * (outcome - outcome.min()), N, link=link, heads=2, dim=2, epochs=20, batch=16)
    np.testing.assert_allclose(other.predict(sets), unit * one.predict(sets), rtol=1e-3, atol=1e-3 * unit)
    member = fit_pairs(sets, unit * outcome, N, "identity", "squared", 4)
    np.testing.assert_allclose(
        member.values(sets),
        unit * fit_pairs(sets, outcome, N, "identity", "squared", 4).values(sets),
        rtol=1e-3,
        atol=1e-3 * unit,
    )
    if link == "identity":
        given = OutcomeModel.fit(sets, unit * outcome, N, heads=1, dim=2, epochs=2, pairs=member)
        fitted = OutcomeModel.fit(sets, unit * outcome, N, heads=1, dim=2, epochs=2)
        np.testing.assert_allclose(given.values(sets), fitted.values(sets), rtol=0.1, atol=0.1 * unit)
        catalog = given.catalog()
        np.testing.assert_allclose(sw.set_value(catalog, given.user(), sets[3]), given.values(sets[3:4])[0], rtol=1e-7)


def sets_of(rows: Iterable[Iterable[int]]) -> list[list[int]]:
    return [[int(i) for i in row if i >= 0] for row in rows]


@pytest.mark.parametrize("size", [1e7, 1e9, 1e12])
def test_large_outcomes_can_be_indexed(size: float) -> None:
    sets, outcome = landscape(0)
    model = OutcomeModel.fit(sets, size * outcome, N, heads=1, dim=2, epochs=2)
    catalog = model.catalog(attributes={"site": np.arange(N) // CHOICES})
    recommender = sw.Recommender(sw.Index.build(catalog))
    slate = recommender.recommend(model.user(), k=SITES, exactly={"site": 1}, budget_ms=5000)
    assert slate.proven
    assert slate.value == pytest.approx(model.values(sets).max(), rel=1e-9)
    assert np.array_equal(model.slate_model().user([]).heads, model.user().heads)


def test_pairs_are_learned_and_the_best_set_is_found() -> None:
    sets, outcome = landscape(1)
    model = OutcomeModel.fit(sets, outcome, N, epochs=400, batch=32, weight_decay=0.01)
    residual = outcome - model.predict(sets)
    one_hot = (sets[:, :, None] == np.arange(N)).any(axis=1).astype(float)
    additive = outcome - one_hot @ np.linalg.lstsq(one_hot, outcome, rcond=None)[0]
    assert residual.var() < 0.1 * additive.var()
    catalog = model.catalog(attributes={"site": np.arange(N) // CHOICES})
    instance = sw.Instance.from_catalog(catalog, model.user(), np.arange(N))
    found = sw.rank(instance, SITES, exactly={"site": 1})
    assert found.value == pytest.approx(model.values(sets).max(), rel=1e-9)


def test_two_heads_express_any_numbers_of_pairs() -> None:
    rng = np.random.default_rng(0)
    pair = rng.normal(scale=30.0, size=(7, 7))
    pair = np.triu(pair, 1) + np.triu(pair, 1).T
    heads = pair_heads(pair)
    sets = np.array([[0, 3, 5, 6], [1, 2, 4, -1], [5, -1, -1, -1]])
    out = np.empty(3)
    set_values(*(np.ascontiguousarray(part) for part in heads), np.zeros(7), sets, out)
    np.testing.assert_allclose(out, pair_values(pair, sets), rtol=1e-8, atol=1e-8)


def test_the_pairwise_member_learns_pairs_from_few_sets() -> None:
    sets, outcome = landscape(4)
    rows = np.random.default_rng(0).permutation(len(sets))
    member = fit_pairs(sets[rows[:90]], outcome[rows[:90]], N, "identity", "squared", 0)
    held = sets[rows[90:]]
    predicted = member.base[held].sum(axis=1) + pair_values(member.pair, held) + member.constant
    assert ((predicted - outcome[rows[90:]]) ** 2).mean() < 0.3 * outcome.var()
    assert member.pair[0, 1] == 0.0, "items of one site never meet"
    model = OutcomeModel.fit(sets[rows[:30]], outcome[rows[:30]], N, epochs=5)
    assert model.pair is not None
    assert np.abs(model.pair).max() > 0


@pytest.mark.parametrize(
    ("link", "loss"), [(link, loss) for link in LOSSES for loss in LOSSES[link] if loss != "ranking"]
)
def test_slopes_are_those_of_losses(link: str, loss: str) -> None:
    f, target, h = np.linspace(-3, 3, 7), np.linspace(0, 1, 7), 1e-6
    difference = (losses(link, loss, f + h, target) - losses(link, loss, f - h, target)) / (2 * h)
    np.testing.assert_allclose(slopes(link, loss, f, target), difference, atol=1e-8)
    for knee in (np.inf, 1.5) if link == "softplus" else (np.inf,):
        both = losses_and_slopes(link, loss, f, target, knee)
        np.testing.assert_allclose(both[0], losses(link, loss, f, target, knee), rtol=1e-12)
        np.testing.assert_allclose(both[1], slopes(link, loss, f, target, knee), rtol=1e-12)


def test_a_knee_bends_softplus_above_it() -> None:
    f, target, h = np.linspace(-3, 9, 13), np.linspace(0, 4, 13), 1e-6
    difference = (
        losses("softplus", "squared", f + h, target, 2.0) - losses("softplus", "squared", f - h, target, 2.0)
    ) / (2 * h)
    np.testing.assert_allclose(slopes("softplus", "squared", f, target, 2.0), difference, atol=1e-7)
    np.testing.assert_allclose(linked("softplus", f, 40.0), linked("softplus", f), atol=1e-9)
    outcome = linked("softplus", np.array([8.0, 20.0]), 8.0)
    np.testing.assert_allclose(outcome[1], 8 + np.log(12), atol=0.01)
    assert outcome[0] < 8


def test_emphasis_weights_the_best_sets_alike_on_every_scale() -> None:
    outcome = np.array([0.0, 5.0, 1.0, 1.0, 3.0])
    weight = set_weights(outcome, 0.2)
    np.testing.assert_array_equal(weight, set_weights(np.log1p(outcome), 0.2))
    by_rank = 1 / np.arange(2.0, 7.0)
    expected = np.array([by_rank[4], by_rank[0], by_rank[2:4].mean(), by_rank[2:4].mean(), by_rank[1]])
    np.testing.assert_allclose(weight, expected / by_rank.mean())
    np.testing.assert_array_equal(set_weights(outcome, None), np.ones(5))


def test_emphasis_predicts_the_best_sets_better() -> None:
    sets, outcome = landscape(5)
    target = np.exp(outcome) * (1 + 0.5 * np.sin(sets @ np.arange(1.0, 4.0)))  # pairs alone cannot express it
    plain, emphasised = (
        OutcomeModel.fit(sets, np.log1p(target), N, link="softplus", knee=2.0, epochs=100, batch=32, emphasis=one)
        for one in (None, 0.01)
    )
    best = np.argsort(-target)[:6]
    wrong = [((model.predict(sets) - np.log1p(target))[best] ** 2).mean() for model in (plain, emphasised)]
    assert wrong[1] < wrong[0]
    assert emphasised.slate_model().summary["knee"] == 2.0


def test_the_link_follows_from_the_outcomes() -> None:
    assert suggested_link(np.array([0.0, 1.0, 1.0])) == "logistic"
    assert suggested_link(np.array([0.0, 0.01, 0.02, 5.0])) == "softplus"
    assert suggested_link(np.array([1.0, 2.0, 3.0])) == "identity"
    assert suggested_link(np.array([-1.0, 0.0, 9.0])) == "identity"


@pytest.mark.parametrize("mean", [0.001, 0.5, 30.0, 700.0, 5e6])
def test_the_start_of_softplus_is_the_mean_on_any_scale(mean: float) -> None:
    assert linked("softplus", np.array([unlinked("softplus", mean)]))[0] == pytest.approx(mean)


@pytest.mark.parametrize(("link", "loss"), [(link, loss) for link, losses in LOSSES.items() for loss in losses])
def test_every_link_and_loss_orders_the_sets(link: str, loss: str) -> None:
    sets, outcome = landscape(2)
    target = {"identity": outcome, "softplus": np.exp(outcome / 2), "logistic": (outcome > 0).astype(float)}[link]
    model = OutcomeModel.fit(sets, target, N, link=link, loss=loss, epochs=150, batch=32, weight_decay=0.02)
    assert np.corrcoef(model.values(sets), outcome)[0, 1] > 0.8
    if link == "logistic":
        assert ((model.predict(sets) >= 0) & (model.predict(sets) <= 1)).all()


def test_the_same_seed_gives_the_same_model_and_small_sets_are_padded() -> None:
    sets, outcome = landscape(3)
    sets[::2, 2] = -1
    one, two = (OutcomeModel.fit(sets, outcome, N, epochs=2, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.values(sets), two.values(sets))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sets": [0, 1]}, "sets must be whole numbers of shape"),
        ({"sets": [[0, 99]]}, "sets must be item numbers from 0 to 14"),
        ({"sets": [[0, 0]]}, "a repeated item"),
        ({"link": "probit"}, "link must be one of identity, softplus, logistic"),
        ({"loss": "logistic"}, "loss must be one of squared, ranking"),
        ({"link": "softplus", "outcome": [-1.0]}, "outcome must be between 0 and inf"),
        ({"outcome": [1.0, 2.0]}, "outcome must be"),
        ({"loss": "ranking", "pairs": True}, "pairs must be False for the ranking loss"),
        ({"n_items": 600, "pairs": True}, "for more than 512 items"),
        ({"emphasis": 0.0}, "emphasis must be a number above 0"),
        ({"emphasis": 0.1, "loss": "ranking"}, "emphasis must be None for the ranking loss"),
        ({"knee": 1.0}, "knee must be above 0 and at most 50, with the link softplus"),
        ({"knee": -1.0, "link": "softplus"}, "knee must be above 0"),
    ],
)
def test_arguments_that_are_refused(change: dict, sentence: str) -> None:
    arguments = {"sets": [[0, 1]], "outcome": [1.0], "n_items": N} | change
    with pytest.raises(InvalidInput, match=sentence):
        OutcomeModel.fit(**arguments)
