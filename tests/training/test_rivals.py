"""Optimised slates beside simple rules: the better one is advised, and what is expected holds the truth."""

import numpy as np
import pytest
from effect_worlds import SIZE, World, nothing, same_category

from setwise.training.effects.features import Features
from setwise.training.rivals import OPTIMISED, TOP, Rival, advice, expected, rivals


def compared(world: World, count: int, effects: list[str]) -> list[Rival]:
    slates = world.log(count).slates()
    return rivals(slates, Features.of(slates.attributes, {}, world.items), effects, SIZE)


def test_rules_that_ignore_the_effect_are_worse():
    world = World(same_category, -1.4, seed=3, items=100)
    rows = compared(world, 3000, ["same category"])
    hits = {row.rule: row.hits for row in rows}
    assert rows[0].rule == OPTIMISED
    assert hits[OPTIMISED] == pytest.approx(max(hits.values()), rel=0.02)
    assert hits[TOP] < hits["the items of highest score, one per category"]
    assert advice(rows, ["same category"]).startswith("Deploy the optimised slates")
    best = float(world.worth(world.best()[None])[0])
    assert 0.8 * best < rows[0].hits < rows[0].promised < 1.15 * best
    assert f"{rows[0].hits:.2f} to {rows[0].promised:.2f}" in expected(rows)


def test_without_effects_the_best_items_are_advised():
    rows = compared(World(nothing, 0.0, seed=4, items=60), 1000, [])
    assert rows[0].hits == next(row.hits for row in rows if row.rule == TOP)
    assert advice(rows, []).startswith(f"Deploy {TOP}:")


@pytest.mark.parametrize(("halves", "first"), [((3.0, 3.2), "Deploy the optimised"), ((3.0, 2.8), "Deploy a rule")])
def test_an_optimiser_must_be_better_by_both_halves(halves, first):
    rows = [Rival(OPTIMISED, float(np.mean(halves)), halves, 3.3), Rival("a rule", 2.85, (2.8, 2.9))]
    assert advice(rows, ["same category"]).startswith(first)


def test_a_small_log_has_no_rivals():
    assert compared(World(nothing, 0.0, seed=5, items=60), 150, []) == []
