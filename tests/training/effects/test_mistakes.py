"""Logs that cannot be learned from, or that give the answer away: a sentence each."""

from dataclasses import replace

import numpy as np
import pytest

from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged
from setwise.training.effects.features import Features
from setwise.training.effects.fitting import fit_effects

KINDS = [f"k{row % 3}" for row in range(12)]


def log(rows, outcome, place=None) -> Slates:
    history = Ragged.cut([], np.zeros(len(rows), int))
    ids = [f"item {row}" for row in range(12)]
    return Slates(history, Ragged.of(rows), np.ravel(outcome).astype(np.float32), ids, {"kind": KINDS}, place=place)


def random_log(count: int = 200) -> Slates:
    rng = np.random.default_rng(0)
    rows = np.argsort(rng.random((count, 12)), axis=1)[:, :4]
    return log(rows, rng.random((count, 4)) < 0.4, np.tile(np.arange(4), count))


def fitted(slates: Slates):
    return fit_effects(slates, Features.of(slates.attributes, {}, 12))


@pytest.mark.parametrize("sign", [1, -1])
def test_places_that_were_computed_from_the_outcomes(sign):
    slates = random_log()
    outcome = slates.outcome.reshape(-1, 4)
    ranked = np.argsort(np.argsort(-sign * outcome, axis=1, kind="stable"), axis=1, kind="stable")
    with pytest.raises(InvalidInput, match="position must be known before the outcomes, got places that sort"):
        fitted(replace(slates, place=ranked.ravel()))
    assert fitted(slates).notes == ()


def test_one_slate_many_times():
    effects = fitted(log(np.tile(np.arange(4), (5000, 1)), np.random.default_rng(0).random((5000, 4)) < 0.5))
    assert effects.words() == []
    assert any("All slates are the same" in note for note in effects.notes)


def test_slates_of_one_item():
    effects = fitted(log(np.arange(300)[:, None] % 12, np.arange(300) % 2))
    assert any("Every slate has one item" in note for note in effects.notes)
    assert np.isfinite(effects.alone).all()


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_outcomes_that_never_differ(outcome):
    slates = random_log()
    effects = fitted(replace(slates, outcome=np.full_like(slates.outcome, outcome)))
    assert any(f"Every outcome is {outcome:g}" in note for note in effects.notes)
    assert np.isfinite(effects.alone).all()
    assert effects.words() == []
    assert effects.selected.tried == ()


def test_a_very_short_log():
    effects = fitted(random_log(3))
    assert np.isfinite(effects.alone).all()
    assert effects.words() == []


def with_number(values) -> tuple[Slates, Features]:
    rng, items = np.random.default_rng(0), len(values)
    rows = np.argsort(rng.random((300, items)), axis=1)[:, :4]
    chance = 1 / (1 + np.exp(-rng.normal(-0.5, 0.7, items)))
    outcome = (rng.random(rows.shape) < chance[rows]).astype(np.float32)
    history = Ragged.cut([], np.zeros(len(rows), int))
    slates = Slates(history, Ragged.of(rows), outcome.ravel(), list(range(items)), {"number": values})
    rate = np.bincount(rows.ravel(), outcome.ravel()) / np.bincount(rows.ravel())
    return slates, Features.of({"number": values, "rate": rate, "quality": chance}, {}, items)


def test_numbers_that_are_the_mean_outcome():
    slates, features = with_number([float(row) for row in range(40)])
    notes = fit_effects(slates, features).notes
    assert [note[:6] for note in notes] == ["'rate'"]  # and not the true chance
    assert "mean outcome of every item" in notes[0]


@pytest.mark.parametrize(
    ("value", "noted"), [("1e308", False), ("inf", True), ("n/a", True), ("1.5e-05", False), ("-7", False)]
)
def test_strange_numbers_among_prices(value, noted):
    values = [value, *(f"{row + 0.5}" for row in range(39))]
    features = Features.of({"price": values}, {}, 40)
    (price,) = features.numbers
    assert price.missing.sum() == noted
    assert np.isfinite(price.x).all()
    assert any("no numbers, such as" in note for note in features.notes) == noted


def test_texts_that_differ_for_every_item_are_shown():
    features = Features.of({"price": [f"${row}.50" for row in range(40)]}, {}, 40)
    assert not features.known
    assert "such as '$0.50'), like an id: left out" in features.notes[0]


def test_one_place_for_all():
    slates = random_log()
    effects = fitted(replace(slates, place=np.ones_like(slates.place)))
    assert effects.words() == []
    assert "same position" in effects.notes[0]


def test_items_without_a_vector():
    features = Features.of({}, {"vector": np.eye(4) * [[0], [1], [1], [1]]}, 4)
    assert features.notes == ("1 of 4 items have no vector: they are like no other item.",)


def test_numbers_keep_their_unit():
    x = np.arange(40.0) - 20
    (number,) = Features.of({"temperature": x}, {}, 40).numbers
    assert number.scale == pytest.approx(x.std())
    np.testing.assert_allclose(number.x * number.scale, x - x.mean())


def test_outcomes_that_are_choices():
    slates = random_log()
    clicked = np.zeros((200, 4), np.float32)
    clicked[np.arange(200), np.arange(200) % 4] = 1
    assert any("when nothing is chosen" in note for note in fitted(replace(slates, outcome=clicked.ravel())).notes)
    clicked[::4] = 0
    assert any("chance of a choice" in note for note in fitted(replace(slates, outcome=clicked.ravel())).notes)
    few = np.zeros((200, 4), np.float32)
    few[::20, 0] = 1
    assert fitted(replace(slates, outcome=few.ravel())).notes == ()
