"""Figure 3 in the report: curves by candidate solutions and by time, the margins, the order, and the best known."""

from __future__ import annotations

from typing import Any

import charts
import numpy as np
from figure_3_budget import (
    BEAMS,
    PAPER,
    RANKERS,
    RETRIEVALS,
    SHOWN,
    Floats,
    Key,
    best_known,
    curves,
    leads,
    margin,
    margin_at_the_end,
    possible,
    ranking_margins,
    retrieval_margins,
)
from kept_rows import Row
from page import Chart, Grid, Section, percent

NAMED = {"phase one": "Phase One", "k-nn": "k-NN"}


def budget_curves(section: Section, steps: dict[str, list[Row]]) -> None:
    """Everything of Figure 3; the number of retrieved candidates is part of a catalogue's label."""
    rows = [row for each in steps.values() for row in _named_by_candidates(each)]
    solutions = max(row["solutions"] for row in rows if row["ranker"] == "beam")
    known, best = curves(rows, solutions), best_known(rows)
    users = sorted({len({row["user"] for row in each}) for each in steps.values()})
    best_here = possible(rows)
    many = " to ".join(map(str, dict.fromkeys((users[0], users[-1]))))
    section.blocks.append(
        f"{many} held-out users of each catalogue. Margins are means over the budgets 1 to {solutions} of mean curves, "
        f"unless they are said to be at {solutions}; then the error is that of a ratio of paired means. *Possible* is "
        "the margin of the best set known among the same candidates (for retrieval, of the whole catalogue): no method "
        "can have more."
    )
    section.blocks += [
        _margins_of_retrieval(section, known, best_here),
        *_margins_of_ranking(section, known, best_here),
    ]
    section.blocks.append(_why(known, best_here))
    section.blocks += [_order(known), *_why_the_order(known), _reached(known, best), _values(known)]
    by_budget = charts.lines(
        _curve_points(known, best), "candidate solutions", "share of the best known", "ranker",
        dash="retrieval", panel="panel", band=("low", "high"), log_x=True, dots=False,
    )  # fmt: skip
    caption = "Mean share of the best known value; bands hold the middle half of the users."
    section.blocks.append(Chart("figure_3_budget", caption, by_budget))
    by_time = charts.lines(
        _time_points(rows, best), "milliseconds", "share of the best known", "ranker",
        dash="retrieval", panel="panel", log_x=True, order="candidate solutions",
    )  # fmt: skip
    section.blocks.append(Chart("figure_3_time", "The same against the median time from candidates to set.", by_time))


def _named_by_candidates(rows: list[Row]) -> list[Row]:
    many = int(np.median([row["candidates"] for row in rows if row["ranker"] != "best known"]))
    return [row | {"catalogue": f"{row['catalogue']}, {many} candidates"} for row in rows]


def settings_of(known: dict[Key, Floats]) -> list[tuple[str, int]]:
    """Catalogues and sizes of slates."""
    return list(dict.fromkeys((catalogue, k) for catalogue, k, *_ in known))


def _cell(margins: dict[Key, float], *key: Any) -> str:
    found = margins.get(key)  # type: ignore[call-overload]
    return "" if found is None else percent(found)


def _mean(margins: dict[Key, float], rankers: tuple[str, ...], catalogue: str, k: int) -> float:
    """As the paper averages, over its rankers or both retrievals; not over catalogues with and without set effects."""
    return float(np.mean([one for key, one in margins.items() if key[:2] == (catalogue, k) and key[3] in rankers]))


def _room(best: dict[tuple[str, int, str], Floats], where: tuple[str, int, str], rival: Floats) -> float:
    """The margin of the best known set over a rival's curve; NaN where nothing is known."""
    return margin(best[where], rival) if where in best else np.nan


def _margins_of_retrieval(section: Section, known: dict[Key, Floats], best: dict[tuple[str, int, str], Floats]) -> Grid:
    margins = retrieval_margins(known)
    rankers = list(dict.fromkeys(key[3] for key in known if key[2] == "k-nn"))
    lines = []
    for catalogue, k in settings_of(known):
        rooms = {
            ranker: _room(best, (catalogue, k, "whole catalogue"), known[catalogue, k, "k-nn", ranker])
            for ranker in rankers
        }
        cells = [f"{_cell(margins, catalogue, k, 'phase one', one)} of {percent(rooms[one])}" for one in rankers]
        mean, room = _mean(margins, ("paper", "beam"), catalogue, k), np.mean([rooms["paper"], rooms["beam"]])
        lines.append([catalogue, str(k), *cells, f"{percent(mean)} of {percent(room)}"])
        label = f"Figure 3, {catalogue}, k = {k}: Phase One over k-NN retrieval"
        section.headlines.append((label, percent(PAPER["retrieval"]), f"{percent(mean)} of {percent(room)} possible"))
    lines.append(["the paper", "", *[""] * len(rankers), percent(PAPER["retrieval"])])
    headings = ("Phase One over k-NN, of what was possible; ranker:", "k", *rankers, "mean of paper and beam")
    return Grid(headings, lines)


def _margins_of_ranking(
    section: Section, known: dict[Key, Floats], best: dict[tuple[str, int, str], Floats]
) -> list[Grid]:
    """Both retrievals as the paper averages, and Phase One at the largest budget, each with what was possible."""
    solutions, lines, last = next(iter(known.values())).shape[1], [], []
    rivals = [name for name in BEAMS if any(key[3] == name for key in known)]
    for catalogue, k in settings_of(known):
        for rival in rivals:
            margins = ranking_margins(known, rival)
            beams = {one: known[catalogue, k, one, rival] for one in RETRIEVALS if (catalogue, k, one, rival) in known}
            rooms = {one: _room(best, (catalogue, k, one), beam) for one, beam in beams.items()}
            cells = [
                f"{_cell(margins, catalogue, k, one, ranker)} of {percent(rooms[one])}" if one in rooms else ""
                for ranker in ("paper", "swap")
                for one in RETRIEVALS
            ]
            paper, swap = (_mean(margins, (ranker,), catalogue, k) for ranker in ("paper", "swap"))
            room = float(np.mean(list(rooms.values())))
            both = f"{percent(paper)} of {percent(room)}" if len(rooms) == len(RETRIEVALS) else ""
            lines.append([catalogue, str(k), rival, *cells, both])
            if rival == "beam":
                about = f"Figure 3, {catalogue}, k = {k}"
                here = f"{percent(paper)} of {percent(room)} possible"
                section.headlines.append((f"{about}: Phase Two over beam search", percent(PAPER["ranking"]), here))
                here = f"{percent(swap)} of {percent(room)} possible"
                section.headlines.append((f"{about}: swap search over beam search", "", here))
            where = (catalogue, k, "phase one")
            last.append([catalogue, str(k), rival, *_at_the_end(known, best, where, beams["phase one"])])
    lines.append(["the paper", "", "", *[""] * 4, percent(PAPER["ranking"])])
    named = [f"{NAMED[one]}: {ranker}" for ranker in ("paper", "swap") for one in RETRIEVALS]
    headings = ("over beam search, of what was possible", "k", "its tuples", *named, "paper, both retrievals")
    methods = [ranker for ranker in RANKERS if ranker not in BEAMS and any(key[3] == ranker for key in known)]
    about = (f"Phase One, at {solutions} candidate solutions", "k", "over")
    return [Grid(headings, lines), Grid((*about, *methods, "possible"), last)]


def _at_the_end(
    known: dict[Key, Floats], best: dict[tuple[str, int, str], Floats], where: tuple[str, int, str], beam: Floats
) -> list[str]:
    curves = [known.get((*where, ranker)) for ranker in RANKERS if ranker not in BEAMS]
    ends = [*(margin_at_the_end(one, beam) for one in curves if one is not None)]
    ends += [margin_at_the_end(best[where], beam)] if where in best else [(np.nan, np.nan)]
    return [f"{gained:+.1f} ± {error:.1f} %" for gained, error in ends]


def _why(known: dict[Key, Floats], best: dict[tuple[str, int, str], Floats]) -> str:
    rooms = [
        _room(best, (key[0], key[1], key[2]), each)
        for key, each in known.items()
        if key[3] == "beam" and (key[0], key[1], key[2]) in best
    ]
    text = "Why they differ: the models here are trained on samples, and the possible gain depends on the model."
    if rooms and max(rooms) < PAPER["ranking"]:
        text += (
            f" No ranker can have the paper's margin here: the best set known is at most {max(rooms):.1f} % above beam "
            "search that tries tuples by total. Beam search starts with the greedy set and keeps the best set that it "
            "has found, so it is strong from the first candidate solution on."
        )
    text += (
        " The paper does not say which tuples of beam search it tries. Over tuples that vary the last item only, which "
        "never improve on greedy, the margins are the largest; the table has all three orders."
    )
    return text


def _order(known: dict[Key, Floats]) -> Grid:
    """{Phase One, k-NN} × {ours, beam} by their means over budgets, and how often ours is not beaten."""
    lines = []
    for catalogue, k in settings_of(known):
        for ranker in ("paper", "swap"):
            if (catalogue, k, "phase one", ranker) not in known:
                continue
            four = {
                f"{NAMED[retrieval]} + {one}": known[catalogue, k, retrieval, one].mean()
                for retrieval in RETRIEVALS
                for one in (ranker, "beam")
                if (catalogue, k, retrieval, one) in known
            }
            order = " > ".join(sorted(four, key=lambda name: -four[name]))
            share = leads(known, catalogue, k, ranker)
            shares = [] if share is None else [f"{100 * share:.0f} %"]
            lines.append([catalogue, str(k), ranker, order, *shares, "" if share is None else _said(order, ranker)])
    headings = ("catalogue", "k", "ranker", "order of the mean curves", "budgets at which Phase One + ranker is first")
    return Grid((*headings, "as in the paper: ours first, k-NN + beam last"), lines)


def _why_the_order(known: dict[Key, Floats]) -> list[str]:
    """Where beam search makes less of Phase One's candidates than of k-NN's, why the paper's order cannot be."""
    beam = [one for key, one in retrieval_margins(known).items() if key[3] == "beam"]
    swap = [one for key, one in retrieval_margins(known).items() if key[3] == "swap"]
    if not beam or min(beam) >= 0:
        return []
    text = (
        "Where Phase One + beam is the last of the four, that method alone breaks the paper's order: Phase One "
        "replaces items of high score by items that are worth much only beside certain others. Beam search adds the "
        "item of highest immediate gain, does not find those combinations, and lacks the items of high score."
    )
    better = sum(one > 0 for one in swap)
    return [f"{text} Swap search, which exchanges members, gains by Phase One in {better} of {len(swap)} settings."]


def _said(order: str, ranker: str) -> str:
    first, last = f"Phase One + {ranker}", "k-NN + beam"
    if order.startswith(first) and order.endswith(last):
        return "yes"
    kept = [name for name, holds in (("first", order.startswith(first)), ("last", order.endswith(last))) if holds]
    return f"only the {kept[0]}" if kept else "no"


def _reached(known: dict[Key, Floats], best: dict[tuple[str, int], tuple[Floats, Floats]]) -> Grid:
    """Of the best that anything found, at the largest budget."""
    solutions = next(iter(known.values())).shape[1]
    lines = []
    for (catalogue, k), (value, bound) in best.items():
        methods = [known.get((catalogue, k, retrieval, "swap")) for retrieval in RETRIEVALS]
        shares = ["" if each is None else f"{(each[:, -1] / value).mean():.4f}" for each in methods]
        lines.append([catalogue, str(k), f"{value.mean():.4f}", f"{100 * (1 - value / bound).mean():.2f} %", *shares])
    named = [f"{NAMED[retrieval]} + swap at {solutions}, of it" for retrieval in RETRIEVALS]
    return Grid(("catalogue", "k", "best known, mean", "gap of its certificate", *named), lines)


def _values(known: dict[Key, Floats]) -> Grid:
    """What each method finds: mean over users, and standard deviation."""
    shown = [b for b in SHOWN if b <= next(iter(known.values())).shape[1]]
    lines = [
        [catalogue, str(k), NAMED[retrieval], ranker]
        + [f"{each[:, b - 1].mean():.4f} ± {each[:, b - 1].std():.2f}" for b in shown]
        for (catalogue, k, retrieval, ranker), each in known.items()
    ]
    headings = ("catalogue", "k", "retrieval", "ranker", *(f"value at {b}" for b in shown))
    return Grid(headings, lines)


def _curve_points(known: dict[Key, Floats], best: dict[tuple[str, int], tuple[Floats, Floats]]) -> list[charts.Point]:
    points = []
    for (catalogue, k, retrieval, ranker), each in known.items():
        share = each / best[catalogue, k][0][:, None]
        low, high = np.quantile(share, (0.25, 0.75), axis=0)
        about = {"panel": f"{catalogue}, k = {k}", "retrieval": NAMED[retrieval], "ranker": ranker}
        for b in _few(each.shape[1]):
            spread = {"low": round(low[b - 1], 4), "high": round(high[b - 1], 4)}
            mean = round(float(share[:, b - 1].mean()), 4)
            points.append(about | spread | {"candidate solutions": b, "share of the best known": mean})
    return points


def _few(most: int) -> list[int]:
    """Budgets to draw: all small ones, then ever fewer."""
    return sorted({round(one) for one in np.geomspace(1, most, 25)})


def _time_points(rows: list[Row], best: dict[tuple[str, int], tuple[Floats, Floats]]) -> list[charts.Point]:
    timed: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for row in rows:
        if row["ms"] is not None:
            key = (row["catalogue"], row["k"], row["retrieval"], row["ranker"], row["solutions"])
            share = row["value"] / best[row["catalogue"], row["k"]][0][row["user"]]
            timed.setdefault(key, []).append((row["ms"], share))
    return [
        {"panel": f"{catalogue}, k = {k}", "retrieval": NAMED[retrieval], "ranker": ranker, "candidate solutions": b}
        | {
            "milliseconds": round(float(np.median([ms for ms, _ in pairs])), 2),
            "share of the best known": round(float(np.mean([share for _, share in pairs])), 4),
        }
        for (catalogue, k, retrieval, ranker, b), pairs in timed.items()
    ]
