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


def test_a_very_short_log():
    effects = fitted(random_log(3))
    assert np.isfinite(effects.alone).all()
    assert effects.words() == []
