"""Portfolios of solvers: which k solvers to run on a problem instance so that at least one solves it.

    python experiments/portfolios.py --data ../shared/data                 or:  setwise reproduce

ASlib: users are problem instances with features, items are solvers; whether a set solves an instance is known for every
set, so no outcome is estimated. Methods, each learned on the training instances:

* **setwise**: ``AtLeastOne`` over the training instances, weighted by a random forest: the weight of a training
  instance is the average share it has of the leaf of the instance at hand. The redundancy is 1 unless another of
  ``setwise.training.portfolio.REDUNDANCIES`` solves more training instances, by more than two standard errors, with the
  weights of the trees that did not see them. (Without features, cases repeat as far as the model can know, and it is
  the smallest.)
* **top-k, same model**: the k solvers of the largest probabilities by the same weights.
* **random forest**: the k solvers of the largest probabilities by one forest a solver, the field's usual selector.
* **static greedy**: one portfolio for all, chosen by greedy coverage of the training instances.
* **virtual best**: the best possible, all solvers at once.

Scenarios without features have one user, whose weights are equal. Splits: five folds of instances at random, and five
folds of families (the folder or name that instances share). All cells are reported. The default redundancy and the
forest were chosen with the random folds of seeds 0 and 1; the report has seed 2, of the same instances.
"""

from __future__ import annotations

import argparse
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from kept_rows import KeptRows, Row
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn import config_context
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold, KFold

from setwise.preferences.at_least_one import AtLeastOne
from setwise.training.portfolio import (
    REPEATED,
    best_redundancy,
    forest_weights,
    greedy_sets,
    grow_forest,
    hits,
    ranked_sets,
)

FIELDS = (
    "scenario",
    "split",
    "seed",
    "k",
    "method",
    "instances",
    "rate",
    "error",
    "behind",
    "behind_error",
    "redundancies",
)
SCENARIOS = ("CSP-MZN-2013", "QBF-2014", "SAT11-HAND", "SAT12-HAND", "SAT12-INDU")
FOLDER = "sets/aslib_portfolios"
KS = (2, 3, 5)
SPLITS = ("random", "family")
OURS, TOP, FOREST, STATIC, BEST = "setwise", "top-k, same model", "random forest", "static greedy", "virtual best"
METHODS = (OURS, TOP, FOREST, STATIC, BEST)
TREES = 100
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scenario:
    """``solved`` (instances, solvers) of 0 and 1, ``features`` (instances, d) or None, and the family of each."""

    solved: Floats
    features: Floats | None
    family: list[str]


def read(data: Path, name: str) -> Scenario:
    """One scenario of ASlib."""
    arrays = np.load(data / FOLDER / f"{name}.npz")
    features = arrays["features"].astype(float) if "features" in arrays.files else None
    return Scenario(arrays["solved"].astype(float), features, [family_of(str(one)) for one in arrays["instances"]])


def family_of(instance: str) -> str:
    """The folder of an instance, or the name before its numbers where there is no folder."""
    path = instance.split("_AND_")[0].removeprefix("./")
    return path.rpartition("/")[0] or re.split(r"[-_]?\d", path.removeprefix("normalized-"))[0]


def filled(features: Floats, train: NDArray[np.intp]) -> Floats:
    """Missing values replaced by the training median, and columns that say where they were."""
    missing = np.isnan(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any value
        median = np.nan_to_num(np.nanmedian(features[train], axis=0))
    return np.concatenate([np.where(missing, median, features), missing[:, missing.any(axis=0)]], axis=1)


def top(probability: Floats, k: int) -> NDArray[np.intp]:
    """The k largest of each row."""
    return np.argsort(-probability, axis=1, kind="stable")[:, :k]


def selector(x: Floats, solved: Floats, new: Floats, trees: int, seed: int) -> Floats:
    """One random forest a solver: the probabilities of success for ``new`` instances."""
    columns = []
    with config_context(assume_finite=True, skip_parameter_validation=True):  # checks of every tree add up
        for target in solved.T:
            forest = RandomForestClassifier(trees, random_state=seed).fit(x, target)
            one = forest.classes_.tolist().index(1.0) if 1.0 in forest.classes_ else None
            columns.append(np.zeros(len(new)) if one is None else forest.predict_proba(new)[:, one])
    return np.stack(columns, axis=1)


def run_fold(
    scenario: Scenario, train: NDArray[np.intp], test: NDArray[np.intp], trees: int, seed: int
) -> dict[tuple[int, str], tuple[Floats, float]]:
    """Whether each test instance is solved, by k and method, and the redundancy of ours."""
    solved, new = scenario.solved[train], scenario.solved[test]
    equal = np.full((1, len(train)), 1 / len(train))
    if scenario.features is None:
        weights, unseen = np.repeat(equal, len(test), axis=0), equal
        alone = weights @ solved
    else:
        x = filled(scenario.features, train)
        weights, unseen = forest_weights(grow_forest(x[train], solved, trees, seed), x[train], x[test])
        alone = selector(x[train], solved, x[test], trees, seed)
    result = {}
    for k in KS:
        redundancy = REPEATED if scenario.features is None else best_redundancy(unseen, solved, k)
        chosen = {
            OURS: ranked_sets(AtLeastOne(solved, redundancy), weights, k),
            TOP: top(weights @ solved, k),
            FOREST: top(alone, k),
            STATIC: np.repeat(greedy_static(solved, k)[None], len(test), axis=0),
            BEST: np.repeat(np.arange(new.shape[1])[None], len(test), axis=0),
        }
        result |= {(k, method): (hits(new, sets), redundancy) for method, sets in chosen.items()}
    return result


def greedy_static(solved: Floats, k: int) -> NDArray[np.intp]:
    """The portfolio of greedy coverage."""
    return greedy_sets(np.ones((1, len(solved))), solved, k, 1e-6)[0]


def run(scenario: Scenario, name: str, split: str, seed: int, trees: int = TREES) -> list[Row]:
    """All folds of one split: rates, and how far each method is behind ours, with paired standard errors."""
    folds = KFold(5, shuffle=True, random_state=seed) if split == "random" else GroupKFold(5)
    parts = [
        run_fold(scenario, train, test, trees, seed)
        for train, test in folds.split(scenario.solved, groups=scenario.family if split == "family" else None)
    ]
    rows = []
    for k in KS:
        outcome = {method: np.concatenate([part[k, method][0] for part in parts]) for method in METHODS}
        chosen = " ".join(f"{part[k, OURS][1]:g}" for part in parts)
        for method, solved in outcome.items():
            behind, root = outcome[OURS] - solved, len(solved) ** 0.5
            rows.append(
                {
                    "scenario": name, "split": split, "seed": seed, "k": k, "method": method, "instances": len(solved),
                    "rate": solved.mean(), "error": solved.std() / root, "behind": behind.mean(),
                    "behind_error": behind.std() / root, "redundancies": chosen if method == OURS else None,
                }
            )  # fmt: skip
    return rows


def summary(rows: list[Row]) -> Table:
    """One line a cell."""
    table = Table(title="share of instances solved")
    for heading in ("scenario", "split", "k", *METHODS, "ours − top-k", "ours − best rival"):
        table.add_column(heading)
    for key in dict.fromkeys((row["scenario"], row["split"], row["k"]) for row in rows):
        cell = {row["method"]: row for row in rows if (row["scenario"], row["split"], row["k"]) == key}
        rates = [f"{cell[method]['rate']:.3f}" for method in METHODS]
        rival = min((cell[FOREST], cell[STATIC]), key=lambda row: row["behind"])
        gains = [f"{row['behind']:+.3f} ± {row['behind_error']:.3f}" for row in (cell[TOP], rival)]
        table.add_row(key[0], key[1], str(key[2]), *rates, *gains)
    return table


def main() -> None:
    """Run all scenarios and both splits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=list(SPLITS))
    parser.add_argument("--trees", type=int, default=TREES, help="of every forest, ours and the rival's")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    arguments = parser.parse_args()
    kept = KeptRows(arguments.out, FIELDS, {"seed": arguments.seed, "trees": arguments.trees})
    wanted = [f"{name}/{split}" for split in arguments.splits for name in arguments.scenarios]
    for unit in kept.missing(wanted, "portfolios"):
        name, split = unit.split("/")
        kept.add(unit, run(read(arguments.data, name), name, split, arguments.seed, arguments.trees))
    Console(width=150).print(summary(kept.rows))


if __name__ == "__main__":
    main()
