"""Sections beyond the paper: learning against a known true model and on real playlists, and calibration.

Every number is computed from the rows.
"""

from __future__ import annotations

from typing import Any

import charts
import numpy as np
import reach
from held_out_hits import K
from kept_rows import Row
from page import Chart, Grid, Section
from paper_sections import chosen

TENTHS = 10
REQUIRED = 0.995  # of the best known


def reached(section: Section, rows: list[Row]) -> None:
    """How much of the best known is found, and in what time."""
    found, lines = reach.shares(rows), []
    for (catalogue, k, method, candidates, solutions), (mean, least, ms) in found.items():
        about = [catalogue, str(k), method, *("" if one is None else f"{one:,}" for one in (candidates, solutions))]
        lines.append([*about, f"{mean:.4f}", f"{least:.4f}", f"{ms:.1f}"])
        if method == "recommender":
            label = (
                f"`Recommender.recommend`, share of the best known value of the whole catalogue: {catalogue}, k = {k}"
            )
            section.headlines.append((label, "", f"{mean:.4f}"))
    headings = ("catalogue", "k", "method", "candidates", "candidate solutions", "mean share", "least share")
    section.blocks += [Grid((*headings, "median ms"), lines), _required_share(rows, found)]


def _required_share(rows: list[Row], found: dict[Any, tuple[float, float, float]]) -> str:
    gaps = {(key[0], key[1]): reach.certified_gap(rows, key[0], key[1]) for key in found}
    gaps_text = ", ".join(f"{100 * gap:.2f} % ({catalogue}, k = {k})" for (catalogue, k), gap in gaps.items())
    shares = {f"{key[0]}, k = {key[1]}": share for key, (share, *_) in found.items() if key[2] == "recommender"}
    short = [where for where, share in shares.items() if share < REQUIRED]
    said = f"is not reached on {', '.join(short)}" if short else "is reached everywhere"
    return (
        "The best known value is the best of a long search over the whole catalogue and of all methods in the table; "
        f"its upper bound is at most {gaps_text} above it on average. The required share of {REQUIRED} {said} by "
        "`Recommender.recommend` with its defaults. The paper has no figure of this kind."
    )


def closed_loop(section: Section, rows: list[Row]) -> None:
    """The true value of slates of a model trained on a log."""
    lines, points = [], []
    for row in rows:
        ratios = [row["setwise"] / row["best"], row["setwise, log alone"] / row["best"]]
        ratios += [row["setwise"] / row[rival] for rival in ("pure embedding", "k-NN + greedy")]
        values = [f"{row['best']:.3f}", f"{row['setwise']:.3f}", *(f"{one:.3f}" for one in ratios)]
        lines.append([row["world"], str(row["seed"]), *values])
        for name in ("best", "setwise", "setwise, log alone", "k-NN + greedy", "pure embedding"):
            points.append({"method": name, f"true hits of {K}": round(row[name], 4), "world": row["world"]})
        label = f"closed loop, world with {row['world']}: share of the best possible hits"
        section.headlines.append((label, "", f"{ratios[0]:.3f}"))
    headings = ("world", "seed", "best", "setwise", "of best", "from the log alone, of best")
    section.blocks.append(Grid((*headings, "over pure embedding's top ten", "over k-NN + greedy, same model"), lines))
    section.blocks.append(
        "Expected hits of ten under the true model of the simulated world. *Best* is what a search with the true model "
        "finds. The recipe was chosen on other seeds. More seeds, with more slates to train on, are in "
        "[performance](performance.md). The paper has no figure of this kind."
    )
    chart = charts.dots(points, f"true hits of {K}", "method", "world")
    section.blocks.append(Chart("closed_loop", "True expected hits of ten, new users.", chart))


def calibration(section: Section, loop: list[Row], held: list[Row]) -> None:
    """Promised against true."""
    lines = []
    for row in loop:
        values = [row["promised"], row["setwise"], row["promised"] / row["setwise"]]
        lines.append([f"closed loop, {row['world']}", *(f"{one:.3f}" for one in values)])
    mine = chosen(held, method="setwise")
    if mine:
        promised, hits = (np.array([row[name] for row in mine]) for name in ("promised", "hits"))
        ratio = promised.mean() / max(hits.mean(), 1e-9)
        lines.append(["held-out playlists", f"{promised.mean():.3f}", f"{hits.mean():.3f}", f"{ratio:.3f}"])
        section.headlines.append(("held-out playlists: promised hits over hits", "", f"{ratio:.3f}"))
    section.blocks.append(Grid(("slates of setwise", f"promised hits of {K}", "true", "promised / true"), lines))
    if mine:
        points = _tenths(promised, hits)
        headings = ("users, by expected hits", "promised", "hits")
        cells = [[str(one["users"]), f"{one['promised']:.3f}", f"{one['hits']:.3f}"] for one in points]
        section.blocks.append(Grid(headings, cells))
        both = [{"promised": one["promised"], "hits": one[kind], "what": what} for one in points
                for kind, what in (("hits", "observed hits"), ("promised", "perfect calibration"))]  # fmt: skip
        chart = charts.lines(both, "promised", "hits", "what")
        section.blocks.append(Chart("calibration", "Held-out playlists in tenths, by expected hits.", chart))


def _tenths(promised: np.ndarray, hits: np.ndarray) -> list[charts.Point]:
    """Means over tenths of the users, in order of expected hits."""
    groups = np.array_split(np.argsort(promised, kind="stable"), min(TENTHS, max(1, len(promised) // 5)))
    return [
        {"users": len(one), "promised": round(promised[one].mean(), 4), "hits": round(hits[one].mean(), 4)}
        for one in groups
    ]


def held_out(section: Section, rows: list[Row]) -> None:
    """Real playlists."""
    lines = []
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = chosen(rows, method=name)
        hits, promised = np.array([row["hits"] for row in mine]), [row["promised"] for row in mine]
        error = hits.std() / np.sqrt(len(hits))
        said = "" if promised[0] is None else f"{np.mean(promised):.3f}"
        lines.append([name, f"{hits.mean():.3f}", f"{error:.3f}", said])
        if name in ("setwise", "word2vec neighbours"):
            section.headlines.append((f"held-out playlists, hits of {K}: {name}", "", f"{hits.mean():.3f}"))
    users = len(chosen(rows, method="setwise"))
    section.blocks.append(Grid((f"{users} playlists", f"hits of {K}", "standard error", "promised"), lines))
    section.blocks.append(_interaction_text(rows))


def _interaction_text(rows: list[Row]) -> str:
    ours, top = (np.mean([row["hits"] for row in chosen(rows, method=name)]) for name in ("setwise", "top-k"))
    text = (
        "A hit is a song that the rest of the playlist contains. That does not depend on the songs shown beside it, so "
        "the interaction can add little to hits of this kind;"
    )
    if ours == top:
        return text + " `fit` found no gain on held-out playlists, left the interaction out, and shows the top ten."
    return text + f" the optimised slate has {ours - top:+.3f} hits compared with the top ten of the same model."


def halo(section: Section, rows: list[Row]) -> None:
    """Choice with halo effects on baskets."""
    lines = []
    for row in rows:
        counts = [f"{row[name]:,}" for name in ("baskets", "learned", "held_out")]
        ridge = "" if row["ridge"] is None else f"{row['ridge']:g}"
        lines.append([row["data"], *counts, row["model"], ridge, f"{row['nll']:.4f}", f"{row['accuracy']:.4f}"])
    headings = ("data", "baskets", "choices to learn from", "held out", "model", "ridge", "held-out NLL", "accuracy")
    section.blocks.append(Grid(headings, lines))
    gains = [one["nll"] - two["nll"] for one, two in zip(rows[::2], rows[1::2], strict=True)]
    said = "better than" if min(gains) > 0 else "not always better than"
    section.blocks.append(
        f"The {rows[0]['items']} most frequent items. One item is removed from a basket and predicted from the rest. "
        f"Halo-MNL, a special case of the paper's model, is {said} MNL on held-out baskets. The ridge penalty is "
        "chosen on validation data; a customer may appear on both sides of the split. The paper has no figure of this "
        "kind."
    )
