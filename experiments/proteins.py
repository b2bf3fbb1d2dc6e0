"""Protein design: learn the fitness of whole sets from some of them, then look up the set that the model recommends.

    python experiments/proteins.py --data ../shared/data                   or:  setwise reproduce

GB1: 80 items (site, amino acid), a set has one of each site. From n random training sets: the measured fitness of the
best set and of the ten best that were not among them, and R² on all unseen sets. The largest value of all 160,000 sets
is compared with that of the set that ``rank(exactly={"site": 1})`` finds, so that an error of the search is seen apart
from an error of the model. Sequential design is in protein_rounds.py.

Unmeasured variants are skipped and counted. Two scales: *log* = log(fitness + 0.003), where 0.003 is about the median
fitness, and *plain* = fitness. The ridge penalty is 1; setwise has 4 heads of 8 dimensions, two members and the link
softplus. On the log scale (log(fitness + 0.003) − log 0.003, so that 0 is the floor) the link has a knee at the wild
type's fitness, and the best sets are emphasised (training/outcome_links.py).

**How these were chosen.** On draws from 1000 on, while the report has draws from 0 on. The floor 0.003 is the second:
an earlier report had 0.01, with 8 times additive and 1.10 times pairwise. Of eleven scales tried for the rivals, small
floors are those on which they do worst: what is claimed for the log scale is not claimed for the plain one, so both are
reported. The pairwise member and a larger batch for 500 sets were added after a first report. The draws of 10,000 sets
were raised from 20 to 60 after a look at the first 20 (setwise − pairwise on the log scale: 0.51 ± 0.31), since the
error was as large as the difference asked for; all 60 count. The plain scale and *pairwise, emphasis* have the first 20
draws of everything.

*Pairwise* is ridge regression on items and pairs. *Pairwise, emphasis* has the weights of our log scale as well, and
*pairwise with link* is the pairwise member of our model alone: they show how much of the gain is due to either.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from kept_rows import KeptRows, Row
from landscape import Floats, Landscape, Rows, gb1, ridge_values, simulated
from rich.console import Console
from rich.table import Table

import setwise as sw
from setwise.training.outcome_links import linked, set_weights
from setwise.training.set_outcomes import OutcomeModel
from setwise.training.set_pairs import PairMember, fit_pairs

FIELDS = ("n", "draw", "method", "scale", "r2", "best", "top_ten", "skipped", "search_gap", "seconds")
FLOOR, EMPHASIS, WILD_TYPE = 0.003, 0.01, 1.0
SCALES: dict[str, Callable[[Floats], Floats]] = {
    "log": lambda fitness: np.log1p(fitness / FLOOR),  # log(fitness + 0.003) but for a constant
    "plain": lambda fitness: fitness,
}
EMPHASISED, LINKED = "pairwise, emphasis", "pairwise with link"
METHODS = ("additive", "pairwise", EMPHASISED, LINKED, "setwise")
PENALTY = 1.0
FEWER = 20  # draws on the plain scale, and of the emphasised rival


def has_draw(method: str, scale: str, draw: int) -> bool:
    """Whether the report has this draw of a method on a scale."""
    return (scale == "log" and method != EMPHASISED) or draw < FEWER


def knee_of(scale: str) -> float | None:
    """The outcome of the wild type on the log scale; effects on plain fitness add up everywhere."""
    return math.log1p(WILD_TYPE / FLOOR) if scale == "log" else None


def pair_member(land: Landscape, seen: Rows, scale: str, seed: int) -> PairMember:
    """The pairwise member of our model of the sets ``seen``."""
    target, knee = SCALES[scale](land.outcome[seen]), knee_of(scale) or math.inf
    weight = set_weights(target, EMPHASIS if scale == "log" else None)
    return fit_pairs(land.sets[seen], target, land.n_items, "softplus", "squared", seed, weight=weight, knee=knee)


def learned(land: Landscape, seen: Rows, scale: str, seed: int, member: PairMember | None = None) -> OutcomeModel:
    """Our model of the sets ``seen``; more epochs where there are fewer sets. ``member`` is its pairwise member."""
    n = len(seen)
    return OutcomeModel.fit(
        land.sets[seen],
        SCALES[scale](land.outcome[seen]),
        land.n_items,
        link="softplus",
        emphasis=EMPHASIS if scale == "log" else None,
        knee=knee_of(scale),
        epochs=20 if n >= 5000 else 40 if n >= 500 else 60,
        batch=256 if n >= 500 else 32,
        members=2,
        pairs=member,
        seed=seed,
    )


def all_values(
    land: Landscape, seen: Rows, method: str, scale: str, seed: int, member: PairMember | None = None
) -> tuple[Floats, Floats, OutcomeModel | None]:
    """Of every set: the value to rank by, and the predicted outcome on the scale; and our model."""
    target, bend = SCALES[scale](land.outcome[seen]), knee_of(scale) or math.inf
    if method == LINKED:
        values = (member or pair_member(land, seen, scale, seed)).values(land.sets)
        return values, linked("softplus", values, bend), None
    if method == "setwise":
        model = learned(land, seen, scale, seed, member)
        values = model.values(land.sets)
        return values, linked("softplus", values, bend), model
    weight = set_weights(target, EMPHASIS if method == EMPHASISED else None)
    values = ridge_values(land, seen, target, method != "additive", PENALTY, weight)
    return values, values, None


def search_gap(land: Landscape, model: OutcomeModel, values: Floats) -> float:
    """The largest value of all sets less the value of the set that ``rank`` finds."""
    catalog = model.catalog(attributes={"site": land.site_of})
    instance = sw.Instance.from_catalog(catalog, model.user(), np.arange(land.n_items))
    return float(values.max() - sw.rank(instance, land.sites, exactly={"site": 1}).value)


def unseen_sets(land: Landscape, n: int, draw: int) -> list[Row]:
    """One draw of n training sets, all methods on both scales."""
    seen = np.random.default_rng(draw).permutation(land.measured)[:n]
    rest = np.setdiff1d(land.measured, seen)
    rows = []
    for scale in [scale for scale in SCALES if has_draw("setwise", scale, draw)]:
        member, transform = pair_member(land, seen, scale, draw), SCALES[scale]  # two methods share the member
        for method in [method for method in METHODS if has_draw(method, scale, draw)]:
            began = time.perf_counter()
            values, predicted, model = all_values(land, seen, method, scale, draw, member)
            truth = transform(land.outcome[rest])
            chosen, skipped = land.best_unseen(values, seen, 10)
            rows.append(
                {
                    "n": n, "draw": draw, "method": method, "scale": scale,
                    "r2": 1 - ((truth - predicted[rest]) ** 2).mean() / truth.var(),
                    "best": land.outcome[chosen[0]], "top_ten": land.outcome[chosen].mean(), "skipped": skipped,
                    "search_gap": None if model is None else search_gap(land, model, values),
                    "seconds": time.perf_counter() - began,
                }
            )  # fmt: skip
    return rows


def summary(rows: list[Row]) -> Table:
    """Means with standard errors over draws."""
    table = Table(title="measured fitness", show_lines=False)
    for heading in ("n", "method", "scale", "best", "median", "ten best", "R²", "draws"):
        table.add_column(heading)
    keys = dict.fromkeys((row["n"], row["method"], row["scale"]) for row in rows)
    for key in sorted(keys, key=lambda one: (-one[0], one[2], one[1])):
        mine = [row for row in rows if (row["n"], row["method"], row["scale"]) == key]
        best = np.array([row["best"] for row in mine])
        others = [f"{np.mean([row[name] for row in mine]):.3f}" for name in ("top_ten", "r2")]
        error = best.std(ddof=1) / len(best) ** 0.5 if len(best) > 1 else float("nan")
        cells = (f"{best.mean():.2f} ± {error:.2f}", f"{np.median(best):.2f}", *others, str(len(mine)))
        table.add_row(str(key[0]), key[1], key[2], *cells)
    return table


def main() -> None:
    """Run all draws."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="the data folder; without it, a simulated landscape")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 2_000, 500])
    parser.add_argument("--draws", type=int, nargs="*", default=[60, 20, 20], help="for each of the sizes")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    arguments = parser.parse_args()
    land = gb1(arguments.data) if arguments.data else simulated(0, sites=4, choices=8)
    settings = {"landscape": "gb1" if arguments.data else "simulated", "floor": FLOOR, "emphasis": EMPHASIS}
    kept = KeptRows(arguments.out, FIELDS, settings)
    counts = zip(arguments.sizes, arguments.draws, strict=True)
    wanted = [f"{n}/{draw}" for n, draws in counts for draw in range(draws)]
    for unit in kept.missing(wanted, "proteins"):
        n, draw = unit.split("/")
        kept.add(unit, unseen_sets(land, int(n), int(draw)))
    Console(width=140).print(summary(kept.rows))


if __name__ == "__main__":
    main()
