"""What training finds in logs whose truth is known, and what the slate of the model is worth.

    python experiments/effect_recovery.py --slates 5000 --seeds 10

For every form of effect_worlds.py, over the seeds: the true value of the model's slate of six over the best that swaps
find, the same of the six items that the model values most alone, the promised over the true value, and the share of
worlds in which exactly the planted effect was named. With ``--taste`` a policy that knows the taste of its users shows
all slates but 35 %: with the column that says which (explored), and without. With ``--choices`` one item of a slate is
chosen, or none.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from effect_worlds import FORMS, SIZE, Log, World, four_of_category, nothing, same_category
from rich.console import Console
from rich.table import Table

import setwise as sw
from setwise.training.effects.features import Features
from setwise.training.effects.fitting import fit_effects

EXPLORED = 0.35  # of the slates of a policy that knows the taste
NAMES = {
    "none": (),
    "same category": ("same category",),
    "any of the category": ("any of the same category",),
    "category pairs": ("category pairs",),
    "dearer": ("price against the others",),
    "same brand and place": ("same brand",),
    "near copies": ("similar vector",),
}
TASTES = {"none": (nothing, 0.0), "same category": (same_category, -1.0), "four": (four_of_category, -1.1)}


@dataclass(frozen=True)
class Result:
    """One world: values over the best, the promise over the truth, and the effects that were named."""

    optimised: float
    alone: float
    promise: float
    named: tuple[str, ...]


def result_of(world: World, log: Log, places: bool, explored: bool) -> Result:
    """Train on the log and look up what the slate of the model is worth."""
    slates = log.slates(places=places, explored=explored)
    effects = fit_effects(slates, Features.of(slates.attributes, {"vector": world.vector}, world.items))
    model = effects.model(slates)
    slate = sw.Recommender.from_model(model).recommend(history=[], k=SIZE, certify=False)
    top = np.argsort(-effects.alone, kind="stable")[:SIZE]
    chosen = np.array([int(name[1:]) for name in slate.items])
    optimised, alone, best = (float(world.worth(rows[None])[0]) for rows in (chosen, top, world.best()))
    return Result(
        optimised / best,
        alone / best,
        slate.value / optimised,
        tuple(family.name for family in effects.selected.families),
    )


def main() -> None:
    """Print one row for each form."""
    parser = argparse.ArgumentParser(description="What training finds in logs whose truth is known.")
    parser.add_argument("--slates", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--forms", nargs="+", choices=[*FORMS, *TASTES])
    parser.add_argument("--taste", action="store_true", help="logs of a policy that knows the taste of its users")
    parser.add_argument("--choices", action="store_true", help="one item of a slate is chosen, or none")
    options = parser.parse_args()
    table = Table(title=f"{options.slates:,} slates, {options.seeds} seeds")
    for heading in ("effect", "log", "of the best", "least", "top-k", "promised / true", "named rightly"):
        table.add_column(heading)
    for form in options.forms or (TASTES if options.taste else FORMS):
        for explored in (True, False) if options.taste else (False,):
            results, right = [], 0
            for seed in range(options.seeds):
                effect, strength, place = (*TASTES[form], 0.0) if options.taste else FORMS[form]
                world = World(effect, strength, seed, float(options.taste), place, options.choices)
                log = world.log(options.slates, explored=EXPLORED if options.taste else 1.0)
                results.append(result_of(world, log, place != 0, explored))
                right += results[-1].named == NAMES.get(form, ())
            means = [
                f"{np.mean([getattr(row, name) for row in results]):.3f}" for name in ("optimised", "alone", "promise")
            ]
            least = f"{min(row.optimised for row in results):.3f}"
            named = "" if form not in NAMES else f"{right / options.seeds:.0%}"
            table.add_row(form, "explored known" if explored else "", means[0], least, *means[1:], named)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
