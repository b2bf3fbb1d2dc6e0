"""Every family of effects: its heads compute its columns, in the reference objective and for items never shown."""

import numpy as np
import pytest

from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic
from setwise.training.effects.columns import Shown
from setwise.training.effects.contrast import ExtremeContrast, MeanContrast
from setwise.training.effects.effect_model import as_model
from setwise.training.effects.features import Features
from setwise.training.effects.fitting import families_of
from setwise.training.effects.place import Size
from setwise.training.effects.same_value import ONE_HOT, AnyOther, Each, step
from setwise.training.effects.taste import Tastes
from setwise.training.effects.threshold import MOST, MOST_GAIN, SINKS, SIZES, Crowd, rise

ITEMS, TOLERANCE = 30, 0.02  # log-odds: sums by attention are truncated, and a step of any other item is not sharp


def features() -> Features:
    rng = np.random.default_rng(0)
    kinds = [None if row == 3 else f"v{row % 4}" for row in range(ITEMS)]
    attributes = {"kind": kinds, "price": np.exp(rng.normal(size=ITEMS)), "year": [None, *range(1, ITEMS)]}
    return Features.of(attributes, {"embedding": rng.normal(size=(ITEMS, 5))}, ITEMS)


def slates(count: int = 40) -> Ragged:
    rng = np.random.default_rng(1)
    return Ragged.of([rng.permutation(ITEMS)[: rng.integers(1, 7)] for _ in range(count)])


SUMS = [family for family in families_of(features(), Shown.of(slates())) if not isinstance(family, Crowd)]


@pytest.mark.parametrize("family", SUMS, ids=lambda family: family.name)
def test_heads_compute_the_columns(family):
    rng, shown = np.random.default_rng(0), slates()
    columns = family.block(Shown.of(shown)).columns
    theta = rng.normal(size=columns.shape[1])
    model = as_model(np.zeros(ITEMS), NO_TASTE, family.heads(theta), Logistic(), list(range(ITEMS)), {}, {})
    none = Ragged.cut([], np.zeros(len(shown), int))
    np.testing.assert_allclose(
        model.arguments(none, shown), columns @ theta, atol=TOLERANCE * max(1, np.abs(theta).sum())
    )


NO_TASTE = (np.zeros((0, 0)), np.zeros((0, 0)))


def test_columns_are_what_they_say():
    known = features()
    kind, price = known.labels[0], known.numbers[0]
    shown = Shown.of(Ragged.of([[0, 4, 8, 1], [3, 7], [5]]))  # kinds v0 v0 v0 v1, missing v3, v1
    np.testing.assert_array_equal(Each(kind, 4).block(shown).columns.ravel(), [2, 2, 2, 0, 0, 0, 0])
    np.testing.assert_allclose(AnyOther(kind).block(shown).columns.ravel(), [1, 1, 1, 0, 0, 0, 0], atol=0.03)
    np.testing.assert_array_equal(Size(ITEMS, 4).block(shown).columns.ravel(), [3, 3, 3, 3, 1, 1, 0])
    x = price.x
    wanted = [*(x[[0, 4, 8, 1]] - x[[0, 4, 8, 1]].mean()), *(x[[3, 7]] - x[[3, 7]].mean()), 0]
    np.testing.assert_allclose(MeanContrast(price, 3).block(shown).columns.ravel(), wanted)


def test_the_step_is_near_one():
    np.testing.assert_allclose(step(np.arange(1.0, 13)), [0, *[1] * 11], atol=0.03)


@pytest.mark.parametrize("size", SIZES)
def test_heads_of_a_threshold_rise_at_it(size):
    for highest in (MOST, MOST_GAIN):
        together = np.arange(1.0, 11)
        factors = rise(size, 10, highest)
        curve = np.column_stack([together / (together + sink) - 1 / (1 + sink) for sink in SINKS]) @ factors
        error = {3: 0.02, 4: 0.25, 5: 0.3}[size]
        assert np.abs(curve[: size - 1]).max() < error
        assert abs(curve[size - 1] - 1) < error
        assert (curve[size:] > 1 - error).all()
        assert (curve[size:] < highest + 1e-6).all()
    family = Crowd(features().labels[0], size, 6)
    shown = Ragged.of([[0, 4, 8, 12, 16, 1][: max(size, 2) + 1], [1, 2]])
    model = as_model(np.zeros(ITEMS), NO_TASTE, family.heads(np.ones(1)), Logistic(), list(range(ITEMS)), {}, {})
    columns = family.block(Shown.of(shown)).columns.ravel()
    computed = model.arguments(Ragged.cut([], [0, 0]), shown)
    assert (computed[columns == 1] > 0.4).all()
    assert np.abs(computed[columns == 0]).max() < 0.02
    whole = Crowd(features().labels[0], size, 4, whole=4.0).block(Shown.of(shown)).columns.ravel()
    np.testing.assert_array_equal(whole, [1.0] * (len(whole) - 2) + [0.0, 0.0])
    assert family.limit == ("kind", size - 1)


def test_many_values_have_codes_that_differ():
    kinds = [f"v{row // 2}" for row in range(4 * ONE_HOT)]
    label = Features.of({"kind": kinds}, {}, len(kinds)).labels[0]
    rng = np.random.default_rng(2)
    shown = Ragged.of([rng.permutation(len(kinds))[:6] for _ in range(50)] + [[0, 1, 2, 3]])
    family = Each(label, 6)
    model = as_model(
        np.zeros(len(kinds)), NO_TASTE, family.heads(np.array([-1.0])), Logistic(), list(range(len(kinds))), {}, {}
    )
    none = Ragged.cut([], np.zeros(len(shown), int))
    np.testing.assert_allclose(
        model.arguments(none, shown), -family.block(Shown.of(shown)).columns.ravel(), atol=TOLERANCE
    )


def test_taste_is_that_of_the_encoder():
    known, rng = features(), np.random.default_rng(3)
    shown = slates()
    history = Ragged.of([rng.permutation(ITEMS)[: rng.integers(0, 5)] for _ in range(len(shown))])
    tastes = Tastes.of(known, history)
    weights = rng.normal(size=len(tastes.vectors))
    columns = np.column_stack([block.columns for block in tastes.blocks(history, Shown.of(shown))])
    x = np.concatenate(list(tastes.vectors.values()), axis=1)
    met = np.concatenate([w * part for w, part in zip(weights, tastes.vectors.values(), strict=True)], axis=1)
    model = as_model(np.zeros(ITEMS), (x, met), [], Logistic(), list(range(ITEMS)), {}, {})
    np.testing.assert_allclose(model.arguments(history, shown), columns @ weights, atol=1e-5)


def test_features_are_typed_and_explained():
    n = 40
    known = Features.of(
        {
            "constant": ["a"] * n,
            "id": [f"x{row}" for row in range(n)],
            "kind": [f"k{row % 3}" for row in range(n)],
            "price": [*np.exp(np.arange(n - 1.0) / 4), np.nan],
            "flag": [row % 2 == 0 for row in range(n)],
            "huge": [1e300 if row == 0 else float(row) for row in range(n)],
        },
        {},
        n,
    )
    assert [label.name for label in known.labels] == ["kind", "flag"]
    assert [number.name for number in known.numbers] == ["price", "huge"]
    assert all(np.isfinite(number.x).all() and abs(number.x).max() < 10 for number in known.numbers)
    assert known.numbers[0].logged
    assert known.numbers[0].missing.sum() == 1
    assert len(known.notes) == 2
    assert "'constant'" in known.notes[0]
    assert "'id'" in known.notes[1]


def test_extremes_are_those_of_the_slate():
    price = features().numbers[0]
    rows = [[0, 5, 9], [7]]
    for highest, extreme in ((False, np.min), (True, np.max)):
        columns = ExtremeContrast(price, highest).block(Shown.of(Ragged.of(rows))).columns.ravel()
        wanted = [*(price.x[rows[0]] - extreme(price.x[rows[0]])), 0.0]
        np.testing.assert_allclose(columns, wanted, atol=0.1)  # a mean that is nearly an extreme


def test_a_crowd_bears_what_its_slate_loses():
    family = Crowd(features().labels[0], 2, 6, whole=6.0)
    shown = Ragged.of([[0, 4, 1, 2, 5 + 1, 7]])  # kinds v0 v0 v1 v2 v2, missing
    model = as_model(np.zeros(ITEMS), NO_TASTE, family.heads(np.array([-0.5])), Logistic(), list(range(ITEMS)), {}, {})
    lost = model.arguments(Ragged.cut([], np.zeros(1, int)), shown)
    np.testing.assert_allclose(lost, [-1.5, -1.5, 0, -1.5, -1.5, 0], atol=0.2)
