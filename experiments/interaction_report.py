"""Prediction with and without company (slate_interaction.py): names, clustered errors, a table, the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from kept_rows import KeptRows, Row
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

Floats = NDArray[np.float64]
ALONE, INTERACTION, PLACEBO = "own features", "with company", "placebo"
FIELDS = ("data", "seed", "model", "slates", "items", "loss", "gain", "error", "order")


def gain(worse: Floats, better: Floats, cluster: NDArray[np.int64], unit: Floats) -> tuple[float, float]:
    """The mean difference a unit (slate or item) and its standard error, clustered."""
    known = np.isfinite(worse) & np.isfinite(better)
    difference, label = (worse - better)[known], np.unique(cluster[known], return_inverse=True)[1]
    total = unit[known].sum()
    mean = difference.sum() / total
    by_cluster = np.bincount(label, weights=difference - mean * unit[known])
    return float(mean), float(np.sqrt((by_cluster**2).sum()) / total)


def print_rows(title: str, rows: list[Row]) -> None:
    """The rows as a table."""
    table = Table(title=title)
    for heading in ("data", "model", "slates", "loss", "gain over own features", "order of slates"):
        table.add_column(heading)
    for row in rows:
        order = "" if row["order"] is None else f"{row['order']:.3f}"
        gained = f"{row['gain']:+.4f} ± {row['error']:.4f}"
        table.add_row(row["data"], row["model"], f"{row['slates']:,}", f"{row['loss']:.4f}", gained, order)
    Console(width=120).print(table)


def run_parts(title: str, parts: Sequence[str], rows_of: Callable[..., list[Row]], networks: int | None = None) -> None:
    """The command of an experiment: ``rows_of`` a part, the data folder, the seed and whether to be quick.

    With a number of ``networks``, whose mean is taken, it is one more option and one more argument.
    """
    parser = argparse.ArgumentParser(description=f"{title}: prediction with and without company.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--quick", action="store_true", help="small sizes: the figures are not meaningful")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    if networks is not None:
        parser.add_argument("--networks", type=int, default=networks, help="the mean of so many is taken")
    given = parser.parse_args()
    averaged = {} if networks is None else {"networks": given.networks}
    kept = KeptRows(given.out, FIELDS, {"seed": given.seed, "quick": given.quick, **averaged})
    for unit in kept.missing([f"{part}/{given.seed}" for part in given.parts], title.lower()):
        kept.add(unit, rows_of(unit.split("/")[0], given.data, given.seed, given.quick, **averaged))
    print_rows(title, kept.rows)
