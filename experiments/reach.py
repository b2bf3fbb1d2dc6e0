"""Reach: how much of the best known over the whole catalogue Phase One and swap search find, and in what time.

    python experiments/reach.py --data ../shared/data --out report/reach.csv

For 100 held-out users of the playlist catalogues, k = 5 and 10, the share of the best known value (best_known.py):

* ``phase one``: k of every cell by total score (two more by each head, where there are several), so many cells as make
  320, 640 or 1,280 candidates;
* ``k-nn``: as many items by total score alone;
  both ranked by swap search with the budget of 100 candidate solutions, as Figure 3 counts them, the longest list with
  1,000 as well;
* ``recommender``: ``Recommender.recommend`` as it comes, 64 cells, without certificate: at most 400 candidates, a
  quarter of them best partners of the anchor item, ranked by swap search with its default budget;
* ``greedy``, ``top-k`` and vector search by score on the recommender's candidates, to see what there is to lose.

The best known is the best of a heavy search and of everything above: nothing here can have more than all of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from best_known import Heaviness, HeavySearch
from catalogues import READY_MADE, Recipe, Trained, opened
from figure_3_budget import budget, clocked
from kept_rows import KeptRows, Row
from rich.console import Console
from rich.table import Table

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds

CANDIDATES = (320, 640, 1280)
SOLUTIONS = (100, 1000)
CELLS = 64  # of the recommender
RIVALS = {"top-k": "top-k", "knn": "vector search by score", "greedy": "greedy"}
FIELDS = ("catalogue", "k", "user", "method", "candidates", "solutions", "value", "ms", "upper_bound")


class Reach:
    """One catalogue, ready to be asked for slates of k."""

    def __init__(self, trained: Trained, candidates: Sequence[int], heaviness: Heaviness, seed: int) -> None:
        self.trained, self.candidates, self.seed = trained, candidates, seed
        self.nearest = self.index(1)
        self.recommender = sw.Recommender(self.index(CELLS), certify=False)
        bounds = CellBounds.build(trained.catalog)
        self.heavy = HeavySearch(trained, self.recommender.index, self.nearest, bounds, heaviness)

    @cache  # noqa: B019  # an index for each number of cells, as long as the catalogue is worked on
    def index(self, cells: int) -> sw.Index:
        """The catalogue in so many cells."""
        return sw.Index.build(self.trained.catalog, cells=cells, seed=self.seed, progress=False)

    def rows(self, number: int, k: int) -> list[Row]:
        """Every method for one user, and the best known last."""
        about = {"catalogue": self.trained.name, "k": k, "user": number}
        found = [*self._lists(number, k), *self._recommended(number, k)]
        best = self.heavy(number, k)
        known = max(best.value, *(row["value"] for row in found))
        return [
            about | row for row in (*found, {"method": "best known", "value": known, "upper_bound": best.upper_bound})
        ]

    def _lists(self, number: int, k: int) -> Iterator[Row]:
        user, seen = self.trained.users[number], self.trained.histories[number]
        for wanted in self.candidates:
            cells = self.index(max(1, wanted // k)).candidates(user, k, seen, per_head=self.trained.per_head)
            for method, rows in (("phase one", cells), ("k-nn", self.nearest.candidates(user, len(cells), seen))):
                instance = sw.Instance.from_catalog(self.trained.catalog, user, rows)
                for solutions in SOLUTIONS if wanted == max(self.candidates) else SOLUTIONS[:1]:
                    limit = budget("swap", solutions, k, len(rows))
                    ranking, ms = clocked(lambda: sw.rank(instance, k, "swap", **limit))  # noqa: B023
                    about = {"method": method, "candidates": wanted, "solutions": solutions}
                    yield about | {"value": ranking.value, "ms": ms}

    def _recommended(self, number: int, k: int) -> Iterator[Row]:
        user, seen = self.trained.users[number], self.trained.histories[number]
        for ranker, method in {"swap": "recommender", **RIVALS}.items():
            slate, ms = clocked(lambda: self.recommender.recommend(user, k=k, exclude=seen, ranker=ranker))  # noqa: B023
            yield {"method": method, "value": slate.value, "ms": ms}


# --- the summary, from the rows alone ---


def shares(rows: list[Row]) -> dict[tuple[str, int, str, int | None, int | None], tuple[float, float, float]]:
    """By catalogue, k, method, candidates and solutions: mean and least share of the best known, median ms."""
    known = {(row["catalogue"], row["k"], row["user"]): row["value"] for row in rows if row["method"] == "best known"}
    parts: dict[tuple[str, int, str, int | None, int | None], list[tuple[float, float]]] = {}
    for row in rows:
        if row["method"] != "best known":
            key = (row["catalogue"], row["k"], row["method"], row["candidates"], row["solutions"])
            of = row["value"] / known[row["catalogue"], row["k"], row["user"]]
            parts.setdefault(key, []).append((of, row["ms"]))
    result = {}
    for key, pairs in parts.items():
        share, ms = np.array(pairs).T
        result[key] = (float(share.mean()), float(share.min()), float(np.median(ms)))
    return result


def certified_gap(rows: list[Row], catalogue: str, k: int) -> float:
    """The mean of 1 − best known / upper bound: by so much, at most, something better was missed."""
    known = [row for row in rows if (row["method"], row["catalogue"], row["k"]) == ("best known", catalogue, k)]
    return float(np.mean([1 - row["value"] / row["upper_bound"] for row in known]))


def table(rows: list[Row]) -> Table:
    """What each method reaches."""
    result = Table(title="Share of the best known over the whole catalogue: mean and least over users; median ms")
    for name in ("catalogue", "k", "method", "candidates", "solutions", "mean", "least", "ms"):
        result.add_column(name, justify="left" if name in ("catalogue", "method") else "right")
    for key, (mean, least, ms) in shares(rows).items():
        result.add_row(*("" if part is None else str(part) for part in key), f"{mean:.4f}", f"{least:.4f}", f"{ms:.1f}")
    return result


# --- the command ---


def run(options: argparse.Namespace) -> KeptRows:
    """Every user of every catalogue that the file does not hold yet."""
    users, candidates = (3, (40, 80)) if options.quick else (options.users, CANDIDATES)
    heaviness = Heaviness.quick() if options.quick else Heaviness()
    settings = {"heaviness": heaviness, "candidates": candidates, "solutions": SOLUTIONS, "seed": options.seed}
    kept = KeptRows(options.out, FIELDS, settings)

    @cache
    def reach(name: str) -> Reach:
        whole = opened(name, options.data, None, Recipe(options.seed, users=users))
        return Reach(whole.cut(2000, users) if options.quick else whole, candidates, heaviness, options.seed)

    units = (f"{name}/{k}/{number}" for name in options.catalogues for number in range(users) for k in options.ks)
    for unit in kept.missing(units, "reach"):
        name, k, number = unit.split("/")
        kept.add(unit, reach(name).rows(int(number), int(k)))
    return kept


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--catalogues", nargs="+", choices=READY_MADE, default=list(READY_MADE[:1]))
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--ks", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="three users, small catalogues")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, and print the table."""
    rows = run(parsed(arguments)).rows
    Console(width=140).print(table(rows))
    return rows


if __name__ == "__main__":
    main()
