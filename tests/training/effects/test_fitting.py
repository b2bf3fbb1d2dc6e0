"""What is learned from logs whose truth is known: the right effects, no others, and promises that hold."""

from dataclasses import replace

import numpy as np
import pytest
from effect_worlds import FORMS, World, four_of_category, nothing, same_category

from setwise import Recommender
from setwise.training.effects import fitting
from setwise.training.effects.features import Features
from setwise.training.effects.fitting import fit_effects

SIZE = 6
FOUND = {
    "none": [],
    "same category": ["same category"],
    "any of the category": ["any of the same category"],
    "category pairs": ["category pairs"],
    "dearer": ["price against the others"],
    "same brand and place": ["same brand"],
    "near copies": ["similar vector"],
}


def learned(world: World, log, **columns: bool):
    slates = log.slates(**columns)
    return slates, fit_effects(slates, Features.of(slates.attributes, {"vector": world.vector}, world.items))


def promised_and_true(world: World, model) -> tuple[float, float]:
    slate = Recommender.from_model(model).recommend(history=[], k=SIZE)
    rows = np.array([[int(name[1:]) for name in slate.items]])
    return slate.value, float(world.worth(rows)[0])


LONG = {"any of the category", "same brand and place"}  # their search is the longest


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=pytest.mark.nightly) if form in LONG else form for form in FORMS]
)
def test_the_planted_effect_is_found_and_pays(form):
    effect, strength, place = FORMS[form]
    world = World(effect, strength, seed=100, place=place, items=100)
    slates, effects = learned(world, world.log(3000), places=place != 0)
    assert [family.name for family in effects.selected.families] == FOUND[form]
    promised, true = promised_and_true(world, effects.model(slates))
    assert abs(promised / true - 1) < 0.12
    assert true > 0.88 * world.worth(world.best()[None])[0]


@pytest.mark.parametrize(
    "form",
    ["none", "same category", *(pytest.param(form, marks=pytest.mark.nightly) for form in ("dearer", "near copies"))],
)
def test_what_one_item_takes_from_the_others_is_no_effect(form):
    effect, strength, _ = FORMS[form]
    world = World(effect, strength, seed=101, choices=True, items=100)
    slates, effects = learned(world, world.log(3000))
    assert effects.choices
    assert [family.name for family in effects.selected.families] == FOUND[form]
    model = effects.model(slates)
    promised, true = promised_and_true(world, model)
    assert abs(promised / true - 1) < 0.12
    assert true > 0.9 * world.worth(world.best()[None])[0]
    assert model.predict(slates).sum() == pytest.approx(slates.outcome.sum(), rel=0.05)
    assert model.calibrated(slates).predict(slates).sum() == pytest.approx(slates.outcome.sum(), rel=0.05)


def test_words_state_the_effect_and_its_error():
    world = World(same_category, -1.4, seed=101, items=100)
    _, effects = learned(world, world.log(2000))
    (line,) = effects.words()
    assert line.startswith(
        "each further item of the same category: −1." if "−" in line else "each further item of the same category: -1."
    )
    assert "odds ÷" in line


@pytest.mark.nightly
def test_explored_slates_tell_effect_from_taste():
    world = World(nothing, 0.0, seed=102, taste=1.0, items=100)
    log = world.log(6000, explored=0.35)
    _, with_column = learned(world, log, explored=True)
    assert with_column.words() == []
    assert not with_column.masked
    slates, without = learned(world, log)
    assert without.masked
    assert without.words() == []
    assert any("tastes for category" in note for note in without.notes)
    promised, true = promised_and_true(world, without.model(slates))
    assert abs(promised / true - 1) < 0.2


def test_a_loss_is_believed_beside_taste():
    world = World(same_category, -1.0, seed=103, taste=1.0, items=100)
    _, effects = learned(world, world.log(3000, explored=0.35))
    assert [family.name for family in effects.selected.families] == ["same category"]
    assert effects.selected.fit.of("same category")[0][0] < -0.4


@pytest.mark.nightly
@pytest.mark.parametrize("threshold", [True, False])
def test_a_threshold_is_a_jump_beside_taste(threshold):
    world = World(four_of_category, -1.1 * threshold, seed=110, taste=1.0, items=100, categories=5)
    slates, effects = learned(world, world.log(8000, explored=0.35))
    assert effects.masked
    found = [family.name for family in effects.selected.families]
    assert found == ["4 or more of the same category"] * threshold
    promised, true = promised_and_true(world, effects.model(slates))
    assert abs(promised / true - 1) < 0.12


def test_few_explored_slates_are_not_enough():
    world = World(nothing, 0.0, seed=104, items=60)
    log = world.log(300)
    log.explored[:] = False
    log.explored[:5] = True
    _, effects = learned(world, log, explored=True)
    assert effects.explored is None
    assert any("5 slates are explored" in note for note in effects.notes)


def test_slates_weigh_by_their_propensities():
    """Where slates with clicks are kept ten times as often, weights give the worth of items back."""
    world = World(nothing, 0.0, seed=105, items=60)
    slates = world.log(6000).slates()
    chance = np.where(slates.outcome.reshape(len(slates), -1).sum(axis=1) > 2, 1.0, 0.1)
    kept = np.flatnonzero(np.random.default_rng(0).random(len(slates)) < chance)
    plain = slates.taken(kept)
    weighted = replace(plain, propensity=chance[kept])
    true = float((1 / (1 + np.exp(-world.quality))).mean())
    means = []
    for data in (weighted, plain):
        effects = fit_effects(data, Features.of({}, {}, 60))
        means.append(float((1 / (1 + np.exp(-effects.alone))).mean()))
    assert abs(means[0] / true - 1) < 0.1 < means[1] / true - 1


@pytest.mark.nightly
def test_a_threshold_is_found_and_avoided():
    world = World(four_of_category, -2.0, seed=106, items=100, categories=4)
    slates, effects = learned(world, world.log(3000))
    assert [family.name for family in effects.selected.families][:1] == ["4 or more of the same category"]
    promised, true = promised_and_true(world, effects.model(slates))
    assert abs(promised / true - 1) < 0.12
    assert true > 0.9 * world.worth(world.best()[None])[0]


def test_effects_are_looked_for_in_a_sample_and_fitted_to_all(monkeypatch):
    world = World(same_category, -1.4, seed=107, items=60)
    log = world.log(2400)
    _, every = learned(world, log)
    monkeypatch.setattr(fitting, "MOST_SELECTED", 800)
    _, sampled = learned(world, log)
    (effect, covariance), (wanted, error) = (part.selected.fit.of("same category") for part in (sampled, every))
    assert sampled.slates == 800
    assert abs(effect[0] - wanted[0]) < 0.02
    assert covariance[0, 0] == pytest.approx(error[0, 0], rel=0.05)
