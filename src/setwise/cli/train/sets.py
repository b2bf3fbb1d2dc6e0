"""``setwise train sets``: from the outcomes of whole sets."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from setwise.cli import columns
from setwise.cli.train import options
from setwise.cli.train.data import say_columns
from setwise.cli.train.output import Output
from setwise.datasets.outcome_sets import OutcomeSets, read_outcome_sets, set_columns
from setwise.datasets.splits import random_split
from setwise.training.outcome_links import LOSSES, suggested_link
from setwise.training.set_comparison import (
    MEAN,
    PAIRWISE,
    compare_sets,
    prefers_pairs,
    sets_verdict,
    simpler_models,
)
from setwise.training.set_outcomes import OutcomeModel
from setwise.training.slate_model import SlateModel

HELD_OUT, MOST_HELD = 0.1, 0.2  # the share of the sets for evaluation: a tenth, more if that is below 100 sets
WANTED_HELD, LEAST_HELD = 100, 10  # with fewer than the least there is no evaluation
STEPS = 1500  # of the learner, about: few sets are passed more often
FEWEST, MOST = 20, 100  # epochs


def sets(
    file: options.File,
    *,
    out: options.Out,
    set_column: options.SetColumn = None,
    item: columns.Item = None,
    outcome: options.OutcomeOfSet = None,
    group: options.Group = None,
    link: options.Link = None,
    delimiter: columns.Delimiter = None,
    heads: options.Heads = None,
    dim: options.Dim = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Sets with one outcome each, such as proteins with a fitness or bundles that sold or did not.

    The table has one row per item of a set, or one row per set and one column per group (several --group).

    Example: [bold]setwise train sets variants.csv --outcome fitness --group site --out model/[/bold]
    """
    output, skipped = Output(out, as_json), Counter[str]()
    named: dict[str, Any] = {"outcome": outcome, "groups": group or [], "set_column": set_column, "item": item}
    named["delimiter"] = delimiter
    with columns.path_of("FILE"):
        names = set_columns(file, **named)
    say_columns(file, names, outcome=outcome, set=set_column, item=item)
    data = read_outcome_sets(file, **named, skipped=skipped)
    chosen = {"link": link, "heads": heads, "dim": dim, "epochs": epochs}
    model, report = _fit(data, {name: value for name, value in chosen.items() if value is not None}, seed)
    report["read"]["skipped"] = dict(skipped)
    output.write(model, report, print_sets)


def _fit(data: OutcomeSets, chosen: dict[str, Any], seed: int) -> tuple[SlateModel, dict[str, Any]]:
    """The model of the sets, and the report; ``chosen`` are options of ``OutcomeModel.fit``."""
    training, held_out = _hold_out(data, seed)
    batch = min(256, max(1, len(training) // 8))
    epochs = int(np.clip(STEPS * batch / len(training), FEWEST, MOST))
    link = chosen.get("link") or suggested_link(data.outcome)
    settings = {"members": 2, "batch": batch, "epochs": epochs, **chosen, "link": link}
    began = time.perf_counter()
    model = OutcomeModel.fit(training.sets, training.outcome, data.n_items, seed=seed, **settings)
    rows = []
    if held_out is not None:
        simpler = simpler_models(model, training, seed)
        rows = compare_sets(model, simpler, training, held_out)
        if prefers_pairs(rows):
            model = OutcomeModel.of_pairs(simpler[PAIRWISE], link, model.size, model.knee, model.unit)
    exactly = {data.group[0]: 1} if data.group is not None and data.one_of_each_group else {}
    saved = model.slate_model(data.ids, data.attributes)
    saved.summary["exactly"] = exactly  # for the commands that `setwise index` prints
    report = {
        "read": {
            "kind": "sets",
            "sets": len(data),
            "items": data.n_items,
            "size": model.size,
            "groups": None if data.group is None else len(set(data.group[1])),
            "held_out": 0 if held_out is None else len(held_out),
        },
        "training": {"link": link, "loss": LOSSES[link][0], "seconds": time.perf_counter() - began, **settings},
        "quality": {"rows": [row.row() for row in rows], "verdict": sets_verdict(rows)} if rows else None,
        "exactly": exactly,
    }
    return saved, report


def _hold_out(data: OutcomeSets, seed: int) -> tuple[OutcomeSets, OutcomeSets | None]:
    share = min(max(HELD_OUT, WANTED_HELD / len(data)), MOST_HELD)
    if share * len(data) < LEAST_HELD:
        return data, None
    training, held_out = random_split(len(data), (1 - share, share), seed)
    return data.taken(training), data.taken(held_out)


def print_sets(console: Console, report: dict[str, Any]) -> None:
    """The report as text and a table."""
    read, training, quality = report["read"], report["training"], report["quality"]
    groups = "" if read["groups"] is None else f" in {read['groups']} groups"
    lines = [f"\nRead {read['sets']:,} sets of at most {read['size']} of {read['items']:,} items{groups}."]
    lines += [f"Skipped {count:,} {escape(reason)}." for reason, count in read["skipped"].items()]
    lines.append(f"Trained in {training['seconds']:,.0f} s, with the link {training['link']}.\n")
    console.print("\n".join(lines), highlight=False)
    if quality is None:
        console.print("There are too few sets to hold some out, so the model was not evaluated.\n")
    else:
        console.print(_table(quality["rows"], training["loss"], read["held_out"]))
        console.print(f"{quality['verdict']}\n", highlight=False)
    console.print(_next(report), highlight=False, soft_wrap=True)


def _table(rows: list[dict[str, Any]], loss: str, held_out: int) -> Table:
    name = "log loss" if loss == "logistic" else "squared error"
    table = Table(title=f"{held_out:,} held-out sets", title_justify="left")
    for heading in ("", name, "R²" if loss == "squared" else "of the mean's", "more than ours", "±"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        explained = "" if row["model"] == MEAN else f"{row['explained']:.3f}"
        table.add_row(
            row["model"], f"{row['loss']:.4g}", explained, f"{row['behind']:+.3g}", f"{row['behind_error']:.2g}"
        )
    return table


def _next(report: dict[str, Any]) -> str:
    folder, size = shlex.quote(report["saved"]), report["read"]["size"]
    limits = "".join(f" --exactly {shlex.quote(f'{name}={n}')}" for name, n in report["exactly"].items())
    commands = (
        f"    setwise index {folder} --out service/\n    setwise recommend service/ --history '' --k {size}{limits}\n"
    )
    return f"Saved in {escape(report['saved'])}. To use it:\n\n{escape(commands)}"
