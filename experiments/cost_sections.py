"""What it costs, in the report: certificates in a budget, growth with n, k, heads and cells, and retrieval backends.

Times are of the machine that the rows name, with a second step on its other core. Every number is from the rows.
"""

from __future__ import annotations

import charts
import numpy as np
import scaling
from kept_rows import Row
from page import Chart, Grid, Section

MEASURES = {"retrieve_ms": "retrieve ms", "rank_ms": "rank ms", "total_ms": "whole request ms"}
WANTED = 0.8  # tree's growth is to stay below


# --- certificates ---


def certificates(section: Section, rows: list[Row]) -> None:
    """Whole requests with a budget."""
    lines = []
    settings = dict.fromkeys((row["catalogue"], row["items"], row["k"], row["budget_ms"]) for row in rows)
    for catalogue, items, k, budget in settings:
        mine = [row for row in rows if (row["catalogue"], row["k"], row["budget_ms"]) == (catalogue, k, budget)]
        ms, gap, proven = (np.array([row[name] for row in mine], float) for name in ("ms", "gap", "proven"))
        within, shown = (ms <= 1.1 * budget).mean(), [f"{100 * gap.mean():.2f} %", f"{100 * np.median(gap):.2f} %"]
        timed = [f"{within:.2f}", f"{np.median(ms):.0f}"]
        about = [catalogue, f"{items:,}", str(k), f"{budget:g} ms", str(len(mine))]
        lines.append([*about, *timed, *shown, f"{100 * proven.mean():.0f} %"])
    headings = ("catalogue", "items", "k", "budget", "requests", "within 110 % of it", "median ms", "mean gap")
    section.blocks.append(Grid((*headings, "median gap", "proven optimal"), lines))
    section.blocks.append(
        "The gap is (bound − value) / bound over every set of the whole catalogue, the history excluded. The paper "
        "proves a factor for all inputs and has no figure of this kind. Heads are bounded one by one, so bounds "
        "are looser with several heads."
    )
    largest = max(row["budget_ms"] for row in rows)
    for catalogue in dict.fromkeys(row["catalogue"] for row in rows):
        mine = [row for row in rows if (row["catalogue"], row["budget_ms"]) == (catalogue, largest)]
        ks = sorted({row["k"] for row in mine})
        gaps = [f"{100 * np.mean([row['gap'] for row in mine if row['k'] == k]):.2f} %" for k in ks]
        label = f"gap of the certificate over the whole catalogue after {largest:g} ms: {catalogue}"
        section.headlines.append((f"{label}, k = {', '.join(map(str, ks))}", "", ", ".join(gaps)))


# --- scaling ---


def growth(section: Section, rows: list[Row]) -> None:
    """Cost and value against n, k, heads, cells; exponents; memory."""
    sizes = sorted({row["n"] for row in rows if row["study"] == "n"})
    least = scaling.FROM if sum(n >= scaling.FROM for n in sizes) > 1 else 0
    section.blocks += [_exponents(section, rows, least), _why_growth(rows, least)]
    for study in dict.fromkeys(row["study"] for row in rows):
        section.blocks += [f"**By {study}**", _study([row for row in rows if row["study"] == study])]
    points = [
        {"n": setting.n, "milliseconds of processor": round(scaling.median(mine, measure), 3), "panel": setting.source}
        | {"backend": setting.backend, "what": what}
        for setting, mine in scaling.grouped(rows).items()
        if setting.study == "n"
        for measure, what in (("total_cpu_ms", "whole request"), ("retrieve_cpu_ms", "retrieval"))
    ]
    chart = charts.lines(points, "n", "milliseconds of processor", "backend",
                         dash="what", panel="panel", log_x=True, log_y=True)  # fmt: skip
    section.blocks.append(Chart("scaling", "A warm request without certificate, medians over users.", chart))


def _exponents(section: Section, rows: list[Row], least: int) -> Grid:
    lines = []
    for source, backend in dict.fromkeys((row["source"], row["backend"]) for row in rows if row["study"] == "n"):
        found = [scaling.exponent(rows, source, backend, name, least) for name in ("total_cpu_ms", "retrieve_cpu_ms")]
        if None not in found:
            slopes = [f"{one[0]:.2f}" for one in found]  # type: ignore[index]
            first, last = found[0][1:]  # type: ignore[index]
            lines.append([source, backend, f"{first:,}", f"{last:,}", *slopes])
            label = f"growth of a whole request with n, {first:,} to {last:,} items: {backend}, {source}"
            section.headlines.append((label, "", f"n^{slopes[0]}"))
    return Grid(("catalogue", "backend", "from n", "to n", "whole request ~ n^x", "retrieval ~ n^x"), lines)


def _why_growth(rows: list[Row], least: int) -> str:
    trees = {
        source: found[0]
        for source in dict.fromkeys(row["source"] for row in rows if row["backend"] == "tree")
        if (found := scaling.exponent(rows, source, "tree", "total_cpu_ms", least)) is not None
    }
    below = [source for source, slope in trees.items() if slope < WANTED]
    said = (
        "on every catalogue" if len(below) == len(trees) else f"on {' and '.join(below)} alone" if below else "nowhere"
    )
    return (
        f"Processor time at fixed cells and k, fitted by least squares; retrieval is the best of every cell, without "
        f"the reserve. `tree` stays below n^{WANTED} {said}. `scan` reads every item, so its retrieval time grows like "
        "n if n is large. Ranking takes the same time for any n, which flattens the growth of whole requests. The "
        "paper states orders of growth and has no figure of this kind."
    )


def _study(rows: list[Row]) -> Grid:
    lines = []
    for setting, mine in scaling.grouped(rows).items():
        about = [
            setting.source,
            setting.backend,
            f"{setting.n:,}",
            str(setting.k),
            str(setting.heads),
            str(setting.cells),
        ]
        times = [f"{scaling.median(mine, name):.1f}" for name in MEASURES]
        value = np.mean([row["value"] for row in mine])
        sizes = [f"{mine[0][name]:.0f}" for name in ("catalogue_mb", "index_mb", "peak_mb")]
        lines.append([*about, *times, f"{value:.3f}", f"{mine[0]['build_s']:.1f}", *sizes])
    headings = ("catalogue", "backend", "n", "k", "heads", "cells", *MEASURES.values(), "value", "build s")
    return Grid((*headings, "catalogue MB", "index MB", "peak MB so far"), lines)


# --- retrieval ---


def backends(section: Section, rows: list[Row]) -> None:
    """The best of every cell, by every backend."""
    lines = [
        [
            row["data"], f"{row['n']:,}", row["backend"], f"{row['recall']:.4f}", f"{row['ms_1']:.2f}",
            f"{row['of_numpy_1']:.3f}", _number(row["ms_32"], 2), _number(row["of_numpy_32"], 3),
            f"{row['build_s']:.1f}", f"{row['megabytes']:.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    headings = ("vectors", "n", "backend", "recall in cells", "ms, 1 user", "of numpy", "ms a user, 32 together")
    section.blocks.append(Grid((*headings, "of numpy", "build s", "MB"), lines))
    section.blocks.append(
        f"d = 64, {rows[0]['cells']} cells, the ten best of each, one thread, medians over users, backends measured by "
        "turns. Ratios are to the time of numpy for one user in the same run. *Trained* vectors have few important "
        "directions; *isotropic* ones have no structure to prune by. The paper has no figure of this kind."
    )
    points = [
        {"n": row["n"], "ms for one user": round(row["ms_1"], 4), "backend": row["backend"], "panel": row["data"]}
        for row in rows
    ]
    chart = charts.lines(points, "n", "ms for one user", "backend", panel="panel", log_x=True, log_y=True)
    section.blocks.append(Chart("retrieval", "The best of every cell for one user.", chart))


def _number(value: object, digits: int) -> str:
    """A number, or nothing where it was not measured."""
    return f"{value:.{digits}f}" if isinstance(value, float) and np.isfinite(value) else ""
