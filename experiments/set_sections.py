"""Sections about data with set effects: designed proteins, portfolios of solvers, and slates with outcomes of items.

Every number is computed from the rows.
"""

from __future__ import annotations

import charts
import numpy as np
import portfolios as solvers
import protein_rounds as rounds
import proteins as gb1
from interaction_report import ALONE, INTERACTION
from kept_rows import Row
from page import Chart, Grid, Section
from paper_sections import chosen

STRENGTHS = {"strong": ("RL4RS", "Trivago"), "weak": ("EB-NeRD",), "absent": ("Dota 2",)}  # by what was measured


def _mean(values: list[float]) -> str:
    """A mean with its standard error."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{np.mean(values):.2f} ± {error:.2f}"


def proteins(section: Section, rows: list[Row]) -> None:
    """The best unseen variant by size of the training data."""
    lines = []
    for n, scale in dict.fromkeys((row["n"], row["scale"]) for row in rows):
        for method in gb1.METHODS:
            mine = chosen(rows, n=n, scale=scale, method=method)
            best, ten, r2 = ([row[name] for row in mine] for name in ("best", "top_ten", "r2"))
            skipped = sum(row["skipped"] for row in mine)
            lines.append(
                [f"{n:,}", scale, method, _mean(best), _mean(ten), f"{np.mean(r2):.3f}", str(skipped), str(len(mine))]
            )
            if method in ("additive", "pairwise", "setwise"):
                label = f"GB1, {n:,} training sets, {scale} scale: fitness of the best unseen set, {method}"
                section.headlines.append((label, "", _mean(best)))
    headings = ("training sets", "scale", "model", "best unseen set", "ten best", "R²", "skipped", "draws")
    section.blocks.append(Grid(headings, lines))
    gaps = [row["search_gap"] for row in rows if row["search_gap"] is not None]
    if gaps:
        found = sum(gap < 1e-6 for gap in gaps)
        section.blocks.append(
            "Measured fitness, with standard errors over draws; the wild type has 1. *Log* is "
            f"log(fitness + {gb1.FLOOR}), "
            "*plain* the fitness itself; all models of a scale learn from the same numbers. *Skipped* counts "
            "unmeasured variants that a model preferred. The set that `rank(exactly={'site': 1})` finds has the "
            f"largest value of all sets in {found} of {len(gaps)} models: what is missing is the model's error, not "
            "the search's."
        )
    _paired(section, rows)


def _paired(section: Section, rows: list[Row]) -> None:
    """What setwise gains over each rival on the same draws."""
    lines = []
    for n, scale in dict.fromkeys((row["n"], row["scale"]) for row in rows):
        of = {
            method: {row["draw"]: row["best"] for row in mine}
            for method in gb1.METHODS
            if (mine := chosen(rows, n=n, scale=scale, method=method))
        }
        ours = of.pop("setwise")
        for method, other in of.items():
            pairs = np.array([(ours[draw], best) for draw, best in other.items() if draw in ours])
            ratio, more = pairs[:, 0].mean() / pairs[:, 1].mean(), _mean(list(pairs[:, 0] - pairs[:, 1]))
            lines.append([f"{n:,}", scale, method, f"{ratio:.2f}", more])
    headings = ("training sets", "scale", "rival", "setwise / rival", "setwise − rival, same draws")
    section.blocks.append(Grid(headings, lines))


def protein_rounds(section: Section, rows: list[Row]) -> None:
    """Sequential design: the best fitness after each plate, and what setwise has more."""
    of = rounds.curves(rows)
    plates, lines, points = sorted({row["n"] for row in rows}), [], []
    ours = of[rounds.OURS, "root"]
    for (method, scale), mine in of.items():
        name = method if method == "random" else f"{method}, {scale}"
        curve = np.stack(list(mine.values()), axis=1)
        more = "" if mine is ours else _mean(list(rounds.ahead(ours, mine)))
        cells = [_mean(list(one)) for one in curve[1:]]
        lines.append([name, *cells, f"{np.median(curve[-1]):.2f}", more, str(len(mine))])
        points += [
            {"measured": n, "best so far": round(float(one.mean()), 3), "model": name}
            for n, one in zip(plates, curve, strict=True)
        ]
    headings = ("design by", *(f"after {n}" for n in plates[1:]), "median at the end", "setwise − this", "runs")
    section.blocks.append(Grid(headings, lines))
    for rival in ("pairwise", rounds.LIMITED):
        label = f"GB1, five rounds of 96 variants: mean of the curve, setwise − {rival}"
        section.headlines.append((label, "", _mean(list(rounds.ahead(ours, of[rival, "root"])))))
    section.blocks.append(
        f"The best fitness measured so far: {rounds.PLATE} random variants, the same for all methods of a run, then "
        f"{rounds.PLATE} more in each of {rounds.ROUNDS - 1} rounds. *Setwise − this* is the mean of the curve after "
        "the first plate, on the runs that both have. Setwise chooses the plate as a set, for the largest expected "
        "best; the others take the variants of the largest predictions."
    )
    chart = charts.lines(points, "measured", "best so far", "model")
    section.blocks.append(Chart("sequential_design", "Best measured fitness, mean over runs.", chart))


def portfolios(section: Section, rows: list[Row]) -> None:
    """Shares of instances solved by k solvers."""
    lines = []
    for key in dict.fromkeys((row["scenario"], row["split"], row["k"]) for row in rows):
        cell = {row["method"]: row for row in chosen(rows, scenario=key[0], split=key[1], k=key[2])}
        rival = min((cell[solvers.FOREST], cell[solvers.STATIC]), key=lambda row: row["behind"])
        gains = [f"{row['behind']:+.3f} ± {row['behind_error']:.3f}" for row in (cell[solvers.TOP], rival)]
        rates = [f"{cell[method]['rate']:.3f}" for method in solvers.METHODS]
        lines.append([key[0], key[1], str(key[2]), *rates, *gains])
    headings = ("scenario", "folds", "k", *solvers.METHODS, "ours − top-k", "ours − the better of forest and static")
    section.blocks.append(Grid(headings, lines))
    few = [row for row in rows if row["method"] == solvers.TOP and row["k"] in (2, 3) and row["split"] == "random"]
    if few:
        mean, error = (
            np.mean([row["behind"] for row in few]),
            np.sqrt(sum(row["behind_error"] ** 2 for row in few)) / len(few),
        )
        section.headlines.append(("portfolios, k = 2 and 3: setwise − top-k of the same model", "", f"{mean:+.4f}"))
        section.blocks.append(
            f"Shares of instances that at least one of k solvers solves, with paired standard errors. Mean difference "
            f"between setwise and the top k of the same model over {len(few)} cells of random folds with k = 2 and 3: "
            f"{mean:+.4f} ± {error:.4f}. Where features predict well which solver succeeds, little is left to choose."
        )


def interaction(section: Section, rows: list[Row]) -> None:
    """Held-out losses with and without company, with clustered errors, and the placebo."""
    lines, points = [], []
    for row in rows:
        gained = "" if row["model"] == ALONE else f"{row['gain']:+.4f} ± {row['error']:.4f}"
        order = "" if row["order"] is None else f"{row['order']:.3f}"
        lines.append([row["data"], row["model"], f"{row['slates']:,}", f"{row['loss']:.4f}", gained, order])
        if row["model"] != ALONE:
            points.append({"data": row["data"], "gain in nats": round(float(row["gain"]), 4), "model": row["model"]})
        if row["model"] == INTERACTION:
            section.headlines.append((f"{row['data']}: gain of company over own features, nats", "", gained))
    headings = ("data", "model", "held-out slates", "log loss", "gain over own features", "order of slates")
    section.blocks.append(Grid(headings, lines))
    section.blocks.append(
        "Nats an item (RL4RS), a choice (EB-NeRD, Trivago) or a match (Dota 2), with errors clustered by user; folds "
        "are over users, but for the official test matches of Dota 2. The placebo attends to the members of another "
        "slate of the same length (Dota 2: of another match), so its gain would not be due to the set. *Order* is "
        "Spearman's correlation of predicted and observed sales over slates. All slates were logged: nothing is "
        "claimed about slates that were not shown."
    )
    for strength, names in STRENGTHS.items():
        some = [point for point in points if point["data"].startswith(names)]
        if some:
            chart = charts.dots(some, "gain in nats", "data", "model")
            title = f"Set effects, {strength}: gain over an item's own features, by data and model."
            section.blocks.append(Chart(f"interaction_{strength}", title, chart))
