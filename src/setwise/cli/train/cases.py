"""``setwise train cases``: from trials of items on cases, of which at least one item of a set must succeed."""

from __future__ import annotations

import math
import shlex
import time
from collections import Counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setwise._types import SLATE_SIZE, Floats, Rows
from setwise.cli import columns
from setwise.cli.train import options
from setwise.cli.train.data import say_columns
from setwise.cli.train.output import Output
from setwise.datasets.cases import Cases, case_columns, read_cases
from setwise.datasets.splits import random_split
from setwise.errors import InvalidInput
from setwise.preferences.at_least_one import AtLeastOne
from setwise.recommend.query_texts import split as split_commas
from setwise.training.portfolio import (
    PortfolioModel,
    completed,
    forest_weights,
    greedy_sets,
    grow_forest,
    hits,
    ranked_sets,
)

HELD_OUT, MOST_HELD, LEAST_HELD = 0.2, 500, 10  # cases: a share of them, at most, and at least for an evaluation
STATIC = 1e-6  # the redundancy of pure coverage
OURS, TOP, ONE, ALL = "this model", "top-k of this model", "one set for all", "all items"
TREES = 100  # of the forest of the evaluation


def cases(
    file: options.File,
    *,
    out: options.Out,
    user_columns: options.UserColumns,
    session: options.Case = None,
    item: columns.Item = None,
    outcome: options.Success = None,
    delimiter: columns.Delimiter = None,
    k: options.SlateSize = SLATE_SIZE,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Trials of items on cases, such as solvers on problems: at least one of a set must succeed.

    The table has one row per trial of an item on a case. Columns of usual names are found.

    Example: [bold]setwise train cases runs.csv --outcome solved --user-columns 'f_*' --k 3 --out model/[/bold]
    """
    output, skipped = Output(out, as_json), Counter[str]()
    with columns.path_of("FILE"):
        names = case_columns(file, session, item, outcome, delimiter)
    say_columns(file, names, case=session, item=item, outcome=outcome)
    features = split_commas(user_columns)
    data = read_cases(
        file, names["case"], names["item"], names["outcome"], features, delimiter=delimiter, skipped=skipped
    )
    if k >= len(data.ids):
        raise InvalidInput("--k", f"below the number of items, {len(data.ids)}", k, "choose a smaller one")
    model, report = _fit(data, k, seed)
    report["read"]["skipped"] = dict(skipped)
    output.write(model, report, print_cases)


def _fit(data: Cases, k: int, seed: int) -> tuple[PortfolioModel, dict[str, Any]]:
    """The model of the cases, and the report."""
    training, held_out = _hold_out(data, seed)
    began = time.perf_counter()
    model = PortfolioModel.fit(training.outcomes, k, training.features, training.names, ids=data.ids, seed=seed)
    seconds = time.perf_counter() - began
    rows = [] if held_out is None else _compared(model, training, held_out, k, seed)
    first = [] if not len(data) else data.features[0].tolist()
    report = {
        "read": {
            "kind": "cases",
            "cases": len(data),
            "items": len(data.ids),
            "features": list(data.names),
            "held_out": 0 if held_out is None else len(held_out),
        },
        "training": {"seconds": seconds, "redundancy": model.redundancy, "heads": model.catalog.heads},
        "quality": {"rows": rows, "verdict": _verdict(rows)} if rows else None,
        "k": k,
        "example": {name: number for name, number in zip(data.names, first, strict=True) if not math.isnan(number)},
    }
    return model, report


def _hold_out(data: Cases, seed: int) -> tuple[Cases, Cases | None]:
    share = min(HELD_OUT, MOST_HELD / max(1, len(data)))
    if share * len(data) < LEAST_HELD:
        return data, None
    training, held_out = random_split(len(data), (1 - share, share), seed)
    return data.taken(training), data.taken(held_out)


def _compared(model: PortfolioModel, training: Cases, held_out: Cases, k: int, seed: int) -> list[dict[str, Any]]:
    """Shares of held-out cases on which at least one of k items succeeds, and how far each is behind ours."""
    solved = training.outcomes
    weights = np.full((len(held_out), len(training)), 1 / len(training))
    if training.names:
        x, fill, flagged = completed(training.features)
        missing = np.isnan(held_out.features)
        new = np.concatenate([np.where(missing, fill, held_out.features), missing[:, flagged]], axis=1)
        weights = forest_weights(grow_forest(x, solved, TREES, seed), x, new)[0]
    chosen: dict[str, Rows] = {
        OURS: ranked_sets(AtLeastOne(solved, model.redundancy), weights, k),
        TOP: np.argsort(-(weights @ solved), axis=1, kind="stable")[:, :k],
        ONE: np.repeat(greedy_sets(np.ones((1, len(solved))), solved, k, STATIC), len(held_out), axis=0),
        ALL: np.repeat(np.arange(solved.shape[1])[None], len(held_out), axis=0),
    }
    success: dict[str, Floats] = {name: hits(held_out.outcomes, sets) for name, sets in chosen.items()}
    root = len(held_out) ** 0.5
    return [
        {
            "sets": name,
            "rate": float(solved_by_set.mean()),
            "behind": float((success[OURS] - solved_by_set).mean()),
            "error": float((success[OURS] - solved_by_set).std() / root),
        }
        for name, solved_by_set in success.items()
    ]


def _verdict(rows: list[dict[str, Any]]) -> str:
    rivals = [row for row in rows if row["sets"] in (TOP, ONE)]
    better = min(rivals, key=lambda row: float(row["behind"]))
    if better["behind"] < -2 * better["error"]:
        return f"Deploy {better['sets']}: it succeeds more often, beyond two standard errors."
    if all(row["behind"] > 2 * row["error"] for row in rivals):
        return (
            "Deploy this model with the optimiser: its sets succeed more often than both, beyond two standard errors."
        )
    return "Deploy this model: no other sets succeed more often, but the difference is within two standard errors."


def print_cases(console: Console, report: dict[str, Any]) -> None:
    """The report as text and a table."""
    read, training, quality = report["read"], report["training"], report["quality"]
    lines = [f"\nRead {read['cases']:,} cases with {len(read['features'])} features, and {read['items']} items."]
    lines += [f"Skipped {count:,} {escape(reason)}." for reason, count in read["skipped"].items()]
    lines.append(f"Trained in {training['seconds']:,.0f} s; redundancy {training['redundancy']:g}.\n")
    console.print("\n".join(lines), highlight=False)
    if quality is None:
        console.print("There are too few cases to hold some out, so the model was not evaluated.\n")
    else:
        title = f"{read['held_out']:,} held-out cases: at least one of {report['k']} items succeeds"
        table = Table("", title=title, title_justify="left")
        for heading in ("share", "less than ours", "±"):
            table.add_column(heading, justify="right")
        for row in quality["rows"]:
            table.add_row(row["sets"], f"{row['rate']:.3f}", f"{row['behind']:+.3f}", f"{row['error']:.3f}")
        console.print(table)
        console.print(f"{quality['verdict']}\n", highlight=False)
    console.print(_next(report), highlight=False, soft_wrap=True)


def _next(report: dict[str, Any]) -> str:
    folder, example = shlex.quote(report["saved"]), list(report["example"].items())[:3]
    features = shlex.quote(",".join(f"{name}={number:g}" for name, number in example))
    commands = (
        f"    setwise index {folder} --out service/\n"
        f"    setwise recommend service/ --features {features} --k {report['k']}\n"
    )
    return f"Saved in {escape(report['saved'])}. To use it:\n\n{escape(commands)}"
