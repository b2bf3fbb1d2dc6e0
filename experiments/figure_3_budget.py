"""Figure 3: what is found against the number of candidate solutions, by {Phase One, k-NN} × rankers; and against time.

    python experiments/figure_3_budget.py --data ../shared/data --cache report/catalogues --out report/figure_3.csv

For 100 held-out users of each trained catalogue (catalogues.py), k of all items outside the user's history:

* retrieval: ``phase one``, the k best of every cell by total score (``--per-head 2`` adds the two best of each head, as
  the recommender does), or ``k-nn``, as many items by total score alone. There are as many cells as make
  ``--candidates`` items: the paper calls their number a hyperparameter to tune;
* ranking: ``paper`` (Phase Two as the paper's experiments run it), ``swap``, and the
  paper's beam search, whose tuples the paper only calls tuned, in three orders: ``beam`` by total, and on Phase One's
  candidates alone ``beam, first`` (j, 1, …, 1) and ``beam, last`` (1, …, 1, j).

**One candidate solution** is one complete set that is evaluated: for ``paper`` what one auxiliary
problem led to, for ``beam`` one tuple (b_1, …, b_k). ``swap`` looks at many sets and has no such unit; it is charged
one for every k m sets valued, m the number of candidates: all exchanges of one member, or one greedy growth, which is
what a tuple of ``beam`` costs at most. The value is that of the best so far, by the reference objective.

**The paper's summary.** Margins are those of the curves as drawn, that is of means over users: the mean over budgets 1
to 100 of (one curve / the other − 1). Its +20.86 % is Phase One over k-NN, the ranker fixed, averaged over ``paper``
and ``beam``; its +20.56 % is ``paper`` over ``beam``, the retrieval fixed, averaged over both.

**Headroom.** Beside every margin stands what was possible: the best known set of the same candidates over the rival,
at the same budgets. It is the best of all methods and of a longer swap search (four times the sets). For a margin of
retrieval it is the best known set of the whole catalogue over k-NN with the same ranker.

Beside the paper: milliseconds at some budgets (from candidates to set, on whatever machine this is; at the largest for
all users, at the others for the first twenty), and the best known
set over the whole catalogue (best_known.py) with its certificate. Rows hold a value wherever it changes; between, it
stays. (``swap`` is asked at some budgets only, so that its curve is at most too low between them.)
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from best_known import Heaviness, HeavySearch
from catalogues import NAMES, Recipe, Trained, opened
from kept_rows import KeptRows, Row
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.ranking import RANKERS as REGISTRY
from setwise.ranking import warm_up

Floats = NDArray[np.float64]
Key = tuple[str, int, str, str]  # catalogue, k, retrieval, ranker

RETRIEVALS = ("phase one", "k-nn")
BEAMS = {"beam": "total", "beam, first": "first", "beam, last": "last"}  # the paper's beam search, by its tuples
ONLY_NEAR = ("beam, first", "beam, last")  # rivals on Phase One's candidates alone
RANKERS = ("paper", "swap", *BEAMS)
POSSIBLE = "best of these candidates"
DEFAULT = ("playlists_one_head", "playlists_four_heads", "polimi", "trivago")
SOLUTIONS = 100
TIMED, TIMED_USERS = (10, 100), 20
SWAP_ASKED = (1, 2, 4, 7, 15, 30, 100)
LONGER = 4  # times the sets, for what was possible
SHOWN = (1, 3, 10, 30, 100)
PAPER = {"retrieval": 20.86, "ranking": 20.56}
FIELDS = (
    "catalogue", "k", "user", "retrieval", "ranker", "candidates", "solutions", "value", "ms", "retrieve_ms",
    "upper_bound",
)  # fmt: skip


# --- one user ---


@dataclass(frozen=True, eq=False)
class Prepared:
    """A catalogue with what does not depend on k: retrieval by score alone, and what bounds are made of."""

    trained: Trained
    nearest: sw.Index
    cells: CellBounds

    @classmethod
    def of(cls, trained: Trained) -> Prepared:
        """Everything built."""
        warm_up()
        nearest = sw.Index.build(trained.catalog, cells=1, progress=False)
        return cls(trained, nearest, CellBounds.build(trained.catalog))


class Experiment:
    """One catalogue, ready to be asked for slates of k."""

    def __init__(
        self,
        prepared: Prepared,
        k: int,
        candidates: int,
        per_head: int,
        heaviness: Heaviness,
        solutions: int,
        seed: int,
    ) -> None:
        self.trained, self.nearest, self.k, self.solutions = prepared.trained, prepared.nearest, k, solutions
        self.per_head = per_head
        self.index = sw.Index.build(self.trained.catalog, cells=max(1, candidates // k), seed=seed, progress=False)
        self.heavy = HeavySearch(self.trained, self.index, self.nearest, prepared.cells, heaviness)

    def rows(self, number: int, rankers: Sequence[str]) -> list[Row]:
        """Every method for one user, and the best known."""
        k = self.k
        about = {"catalogue": self.trained.name, "k": k, "user": number}
        result = []
        for retrieval, (found, took) in self.retrieved(number, k).items():
            for ranker in (one for one in rankers if retrieval == "phase one" or one not in ONLY_NEAR):
                where = {"retrieval": retrieval, "ranker": ranker, "candidates": len(found), "retrieve_ms": took}
                result += [about | where | row for row in self.ranked(number, k, found, ranker)]
            possible = max(
                self._longer(number, found), *(row["value"] for row in result if row["retrieval"] == retrieval)
            )
            where = {"retrieval": retrieval, "ranker": POSSIBLE, "candidates": len(found)}
            result.append(about | where | {"value": possible})
        best = self.heavy(number, k)
        known = {"retrieval": "whole catalogue", "ranker": "best known", "candidates": len(self.trained.catalog)}
        return [*result, about | known | {"value": best.value, "upper_bound": best.upper_bound}]

    def _longer(self, number: int, candidates: NDArray[np.intp]) -> float:
        """What a longer swap search finds among the candidates."""
        instance = sw.Instance.from_catalog(self.trained.catalog, self.trained.users[number], candidates)
        options = budget("swap", LONGER * self.solutions, self.k, instance.m)
        return sw.rank(instance, self.k, "swap", **options).value

    def retrieved(self, number: int, k: int) -> dict[str, tuple[NDArray[np.intp], float]]:
        """Candidates of both retrievals, equally many, with milliseconds."""
        user, seen = self.trained.users[number], self.trained.histories[number]
        cells, took = clocked(lambda: self.index.candidates(user, k, seen, per_head=self.per_head))
        nearest, took_nearest = clocked(lambda: self.nearest.candidates(user, len(cells), seen))
        return {"phase one": (cells, took), "k-nn": (nearest, took_nearest)}

    def ranked(self, number: int, k: int, candidates: NDArray[np.intp], ranker: str) -> list[Row]:
        """The value after each budget where it changes, and milliseconds at some budgets."""

        def solved(solutions: int) -> sw.Ranking:
            instance = sw.Instance.from_catalog(self.trained.catalog, self.trained.users[number], candidates)
            return sw.rank(instance, k, named(ranker), **budget(ranker, solutions, k, len(candidates)))

        timed_here = TIMED if number < TIMED_USERS else ()
        asked = {*(SWAP_ASKED if REGISTRY[named(ranker)].takes_evaluations else timed_here), self.solutions}
        answers = {b: clocked(lambda: solved(b)) for b in sorted(asked) if b <= self.solutions}  # noqa: B023
        values = {b: ranking.value for b, (ranking, _) in answers.items()}
        if not REGISTRY[named(ranker)].takes_evaluations:
            values = dict(enumerate(padded(answers[self.solutions][0].trace, self.solutions).tolist(), 1))
        result, before = [], -math.inf
        for b, value in values.items():
            timed = answers[b][1] if b in answers and b in (*TIMED, self.solutions) else None
            if value != before or timed is not None:
                result.append({"solutions": b, "value": value, "ms": timed})
            before = value
        return result


def named(ranker: str) -> str:
    """The name in the registry."""
    return "beam" if ranker in BEAMS else ranker


def budget(ranker: str, solutions: int, k: int, m: int) -> dict[str, Any]:
    """So many candidate solutions, as the ranker takes them."""
    if ranker in BEAMS:
        return {"solutions": solutions, "order": BEAMS[ranker]}
    if REGISTRY[ranker].takes_evaluations:
        return {"evaluations": solutions * min(k, m) * m}
    return {"solutions": solutions}


def clocked(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and the milliseconds it took."""
    began = time.perf_counter()
    result = work()
    return result, 1000 * (time.perf_counter() - began)


def padded(trace: Floats, length: int) -> Floats:
    """The trace at every budget: a search that ended early keeps what it had."""
    return np.append(trace, np.full(length - len(trace), trace[-1]))


# --- summaries: everything below is computed from the rows alone ---


def curves(rows: list[Row], solutions: int = SOLUTIONS) -> dict[Key, Floats]:
    """The value at every budget, users by budgets (U, solutions), for each method."""
    steps: dict[tuple[Any, ...], list[tuple[int, float]]] = {}
    for row in rows:
        if row["ranker"] not in ("best known", POSSIBLE):
            key = (row["catalogue"], row["k"], row["retrieval"], row["ranker"], row["user"])
            steps.setdefault(key, []).append((row["solutions"], row["value"]))
    result: dict[Key, list[Floats]] = {}
    for (*key, _), pairs in sorted(steps.items(), key=lambda item: item[0][-1]):
        at, values = (np.array(part) for part in zip(*sorted(pairs), strict=True))
        last = np.searchsorted(at, np.arange(1, solutions + 1), "right") - 1
        result.setdefault((key[0], key[1], key[2], key[3]), []).append(values[last])
    return {key: np.stack(each) for key, each in result.items()}


def best_known(rows: list[Row]) -> dict[tuple[str, int], tuple[Floats, Floats]]:
    """By catalogue and k: the largest value that anything found for each user (U,), and the upper bounds (U,)."""
    best: dict[tuple[str, int], dict[int, float]] = {}
    bound: dict[tuple[str, int], dict[int, float]] = {}
    for row in rows:
        where, user = (row["catalogue"], row["k"]), row["user"]
        best.setdefault(where, {})[user] = max(row["value"], best.get(where, {}).get(user, -math.inf))
        if row["ranker"] == "best known":
            bound.setdefault(where, {})[user] = row["upper_bound"]
    return {
        where: (np.array([mine[u] for u in sorted(mine)]), np.array([bound[where][u] for u in sorted(mine)]))
        for where, mine in best.items()
    }


def possible(rows: list[Row]) -> dict[tuple[str, int, str], Floats]:
    """The best known value of every user (U, 1), by catalogue, k and retrieval, the whole catalogue among them."""
    found: dict[tuple[str, int, str], dict[int, float]] = {}
    for row in rows:
        if row["ranker"] == POSSIBLE:
            found.setdefault((row["catalogue"], row["k"], row["retrieval"]), {})[row["user"]] = row["value"]
    result = {key: np.array([mine[u] for u in sorted(mine)])[:, None] for key, mine in found.items()}
    return result | {(*where, "whole catalogue"): best[:, None] for where, (best, _) in best_known(rows).items()}


def margin(one: Floats, other: Floats) -> float:
    """By how many percent one mean curve lies above the other, averaged over budgets."""
    return float(100 * (one.mean(axis=0) / other.mean(axis=0) - 1).mean())


def margin_at_the_end(one: Floats, other: Floats) -> tuple[float, float]:
    """Percent by which one mean exceeds the other at the largest budget, and the error of that ratio."""
    above, below = one[:, -1], other[:, -1]
    ratio = above.mean() / below.mean()
    error = (above - ratio * below).std(ddof=1) / np.sqrt(len(above)) / below.mean() if len(above) > 1 else math.nan
    return 100 * float(ratio - 1), 100 * float(error)


def retrieval_margins(known: dict[Key, Floats]) -> dict[Key, float]:
    """Phase One over k-NN for each catalogue, k and ranker."""
    return {
        key: margin(each, known[key[0], key[1], "k-nn", key[3]])
        for key, each in known.items()
        if key[2] == "phase one" and (key[0], key[1], "k-nn", key[3]) in known
    }


def ranking_margins(known: dict[Key, Floats], rival: str = "beam") -> dict[Key, float]:
    """Each ranker over one beam search for each catalogue, k and retrieval."""
    return {
        key: margin(each, known[key[0], key[1], key[2], rival])
        for key, each in known.items()
        if key[3] not in BEAMS and (key[0], key[1], key[2], rival) in known
    }


def leads(known: dict[Key, Floats], catalogue: str, k: int, ranker: str) -> float | None:
    """The share of budgets at which no other of {Phase One, k-NN} × {ranker, beam} is above Phase One + ranker."""
    four = [known.get((catalogue, k, retrieval, one)) for one in (ranker, "beam") for retrieval in RETRIEVALS]
    means = [each.mean(axis=0) for each in four if each is not None]
    return float((means[0] >= np.max(means, axis=0) - 1e-12).mean()) if len(means) == 4 else None


def table_of_curves(rows: list[Row], solutions: int) -> Table:
    """What each method finds, and in what time."""
    known, best, shown = curves(rows, solutions), best_known(rows), [b for b in SHOWN if b <= solutions]
    result = Table(title="Best value so far: mean over users (standard deviation), by number of candidate solutions")
    for name in (
        "catalogue",
        "k",
        "retrieval",
        "ranker",
        *map(str, shown),
        f"mean 1–{solutions}",
        "of best known",
        "ms",
    ):
        result.add_column(name, justify="left" if name in ("catalogue", "retrieval", "ranker") else "right")
    for key, each in known.items():
        cells = [f"{each[:, b - 1].mean():.4f} ({each[:, b - 1].std():.2f})" for b in shown]
        share = (each[:, -1] / best[key[0], key[1]][0]).mean()
        result.add_row(*map(str, key), *cells, f"{each.mean():.4f}", f"{share:.4f}", f"{_milliseconds(rows, key):.0f}")
    return result


def _milliseconds(rows: list[Row], key: Key) -> float:
    """The median time of the largest timed budget."""
    timed = [
        (row["solutions"], row["ms"]) for row in rows
        if row["ms"] is not None and (row["catalogue"], row["k"], row["retrieval"], row["ranker"]) == key
    ]  # fmt: skip
    largest = max((b for b, _ in timed), default=0)
    return float(np.median([ms for b, ms in timed if b == largest])) if timed else math.nan


def table_of_margins(rows: list[Row], solutions: int) -> Table:
    """The margins between methods, with what was possible, beside the paper's figures."""
    known, best = curves(rows, solutions), possible(rows)
    result = Table(title=f"Margins in percent, averaged over budgets 1 to {solutions}")
    for name in ("what", "catalogue", "k", "fixed", "ours", "possible", "the paper's"):
        result.add_column(name, justify="right" if name in ("k", "ours", "possible", "the paper's") else "left")

    def line(name: str, key: Key, fixed: str, percent: float, ceiling: Floats | None, rival: Floats) -> None:
        room = "" if ceiling is None else f"{margin(ceiling, rival):+.2f}"
        result.add_row(name, key[0], str(key[1]), fixed, f"{percent:+.2f}", room, "")

    for key, percent in retrieval_margins(known).items():
        ceiling, rival = best.get((*key[:2], "whole catalogue")), known[key[0], key[1], "k-nn", key[3]]
        line("Phase One over k-NN", key, key[3], percent, ceiling, rival)
    for name in BEAMS:
        for key, percent in ranking_margins(known, name).items():
            line(f"{key[3]} over {name}", key, key[2], percent, best.get(key[:3]), known[key[0], key[1], key[2], name])
    for what, margins in (("retrieval", retrieval_margins(known)), ("ranking", ranking_margins(known))):
        for k in sorted({key[1] for key in margins}):
            theirs = {key: one for key, one in margins.items() if key[1] == k and _is_the_papers(what, key)}
            if len({key[2:] for key in theirs}) == 2:  # both rankers, or both retrievals, were run
                mean = f"{np.mean(list(theirs.values())):+.2f}"
                result.add_row(f"{what}, as the paper averages", "all", str(k), "both", mean, "", f"+{PAPER[what]:.2f}")
    return result


def _is_the_papers(what: str, key: Key) -> bool:
    return key[3] in (("paper", "beam") if what == "retrieval" else ("paper",))


def table_of_best_known(rows: list[Row], solutions: int) -> Table:
    """How much of the best known is reached."""
    known = curves(rows, solutions)
    result = Table(title="Phase One + swap against the best known over the whole catalogue, and the leading method")
    headings = ("catalogue", "k", "best known", "gap of its certificate", f"of it at {solutions}",
                f"k-NN + swap at {solutions}", "swap leads", "paper leads")  # fmt: skip
    for name in headings:
        result.add_column(name, justify="left" if name == "catalogue" else "right")
    for (catalogue, k), (best, bound) in best_known(rows).items():
        methods = [known.get((catalogue, k, retrieval, "swap")) for retrieval in RETRIEVALS]
        shares = [None if each is None else (each[:, -1] / best).mean() for each in methods]
        led = [leads(known, catalogue, k, ranker) for ranker in ("swap", "paper")]
        numbers = [best.mean(), (1 - best / bound).mean(), *shares, *led]
        result.add_row(catalogue, str(k), *("" if each is None else f"{each:.4f}" for each in numbers))
    return result


# --- the command ---


def run(options: argparse.Namespace) -> KeptRows:
    """Every user of every catalogue that the file does not hold yet."""
    recipe = Recipe.quick(options.seed) if options.quick else Recipe(options.seed, users=options.users)
    effort = Heaviness(evaluations_a_pair=options.evaluations_a_pair, certificate_ms=options.certificate_ms)
    heaviness = Heaviness.quick() if options.quick else effort
    solutions = 10 if options.quick else options.solutions
    users = 3 if options.quick else options.users
    candidates = 80 if options.quick else options.candidates
    settings = {
        "recipe": recipe, "heaviness": heaviness, "solutions": solutions, "candidates": candidates,
        "per_head": options.per_head, "rankers": options.rankers, "seed": options.seed,
    }  # fmt: skip
    kept = KeptRows(options.out, FIELDS, settings)

    @cache
    def prepared(name: str) -> Prepared:
        whole = opened(name, options.data, options.cache, recipe)
        return Prepared.of(whole.cut(2000, users) if options.quick else whole)

    @cache
    def experiment(name: str, k: int) -> Experiment:
        return Experiment(prepared(name), k, candidates, options.per_head, heaviness, solutions, options.seed)

    for unit in kept.missing(units(options.catalogues, options.ks, users), "Figure 3"):
        name, k, number = unit.split("/")
        kept.add(unit, experiment(name, int(k)).rows(int(number), options.rankers))
    return kept


def units(catalogues: Sequence[str], ks: Sequence[int], users: int) -> Iterator[str]:
    """One a user, catalogue and k; the k's take turns, so that an interrupted run shows something of each."""
    return (f"{name}/{k}/{number}" for name in catalogues for number in range(users) for k in ks)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cache", type=Path, help="a folder for catalogues that are learned here")
    parser.add_argument("--catalogues", nargs="+", choices=NAMES, default=list(DEFAULT))
    parser.add_argument("--rankers", nargs="+", choices=RANKERS, default=list(RANKERS))
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--ks", type=int, nargs="+", default=[5], help="the paper's is 5")
    parser.add_argument("--candidates", type=int, default=160, help="of Phase One: cells times k")
    parser.add_argument(
        "--certificate-ms", type=float, default=Heaviness.certificate_ms, help="of the bound on the best known"
    )
    parser.add_argument(
        "--evaluations-a-pair", type=int, default=Heaviness.evaluations_a_pair, help="of the search for the best known"
    )
    parser.add_argument("--per-head", type=int, default=0, help="of each cell that every head adds; the paper's is 0")
    parser.add_argument("--solutions", type=int, default=SOLUTIONS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="three users, ten candidate solutions, small catalogues")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, and print the tables."""
    options = parsed(arguments)
    rows = run(options).rows
    solutions = 10 if options.quick else options.solutions
    console = Console(width=200)
    for table in (table_of_curves, table_of_margins, table_of_best_known):
        console.print(table(rows, solutions))
    return rows


if __name__ == "__main__":
    main()
