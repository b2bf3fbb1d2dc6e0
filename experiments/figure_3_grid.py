"""Figure 3 as a grid: Phase One over k-NN and Phase Two over beam search, where set effects are strong and where not.

    python experiments/figure_3_grid.py --data ../shared/data --jobs 16 --out report/figure_3_grid.csv
    python experiments/figure_3_grid.py --out report/figure_3_grid.csv --page docs/evidence/grid.md

A *cell* is a catalogue, k, a number of candidates, an offset of the logistic reward, and a factor on the logits. The
offset is added to the logistic's bias and sets the base rate: the mean reward of an item in the best set runs from
about 0.1 to 0.97. The factor sets the sharpness of attention. For 60 held-out users of every cell:

* retrieval: ``phase one``, the k best of every cell of the index, or ``k-nn``, as many items by score alone;
* ranking: ``paper``, ``swap``, and beam search with the tuples by total, and on Phase One's candidates alone
  (j, 1, …, 1) and (1, …, 1, j), each with the same number of candidate solutions (``--solutions``); top-k and greedy;
* what was possible: the best of these and of a longer swap search, over the candidates of Phase One, and over those of
  both retrievals (``best known``).

A margin is the ratio of two means over users, minus 1; its error is that of a ratio of paired means. Beside each margin
stands its headroom, that of what was possible. Catalogues are never pooled: a mean over catalogues with and without set
effects describes neither.

Cells: candidates by offsets at the catalogue's own sharpness, and all factors at 160 candidates for one or two offsets.
The catalogue of four heads has mild set effects and costs twice as much, so it has fewer cells. A unit of work is ten
users of a cell; units run in ``--jobs`` processes, and an interrupted run resumes. All of it takes some hours of
one core; ``--candidates 160 --users 20`` is a part of it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from catalogues import READY_MADE, Recipe, Trained, opened
from figure_3_budget import BEAMS, LONGER, ONLY_NEAR, budget
from grid_page import written
from kept_rows import KeptRows, Row
from numpy.typing import NDArray

import setwise as sw

CANDIDATES = {  # in the order of the run: the middle first
    "playlists_one_head": (160, 40, 640, 80, 320, 20),
    "playlists_four_heads": (160, 40, 640),
}
OFFSETS = {"playlists_one_head": (-3.0, -2.0, 0.0, 2.0, 4.0), "playlists_four_heads": (-2.0, 0.0, 2.0)}
SHARPENED = {"playlists_one_head": (-3.0, 0.0), "playlists_four_heads": (0.0,)}  # offsets for other sharpness
SHARPNESS = (0.25, 0.5, 2.0, 4.0)
AT = 160  # candidates of those
SIZES = (5, 10)
USERS, BLOCK = 60, 10
SOLUTIONS = 100
FIELDS = ("catalogue", "k", "candidates", "offset", "sharpness", "user", "retrieval", "ranker", "value")

Cell = tuple[str, int, int, float, float]  # catalogue, k, candidates, offset, sharpness


def cells(
    catalogues: Sequence[str], sizes: Sequence[int] = SIZES, candidates: Sequence[int] | None = None
) -> Iterator[Cell]:
    """Every cell of the grid, or those with so many candidates."""
    for name in catalogues:
        for m in (m for m in CANDIDATES[name] if candidates is None or m in candidates):
            for k in sizes:
                yield from ((name, k, m, offset, 1.0) for offset in OFFSETS[name])
                if m == AT:
                    yield from ((name, k, m, offset, factor) for offset in SHARPENED[name] for factor in SHARPNESS)


class Grid:
    """The catalogues of one process, and the indexes that its cells share."""

    def __init__(
        self, data: Path, recipe: Recipe, cut: tuple[int, int] | None, solutions: int, folder: Path | None = None
    ) -> None:
        self.data, self.recipe, self.cut, self.solutions, self.folder = data, recipe, cut, solutions, folder
        self.trained, self.catalog, self.index = cache(self._trained), cache(self._catalog), cache(self._index)

    def _trained(self, name: str) -> Trained:
        whole = opened(name, self.data, None, self.recipe)
        return whole if self.cut is None else whole.cut(*self.cut)

    def _catalog(self, name: str, offset: float, sharpness: float) -> sw.Catalog:
        """The catalogue with another base rate and other logits."""
        one = self.trained(name).catalog
        (reward,) = one.rewards
        if not isinstance(reward, sw.Logistic):
            raise TypeError(f"{name} must have a logistic reward, got {reward}")
        shifted = sw.Logistic(reward.scale, reward.bias + offset)
        return sw.Catalog(one.query * sharpness, one.key, one.value, shifted, base=one.base)

    def _index(self, name: str, sharpness: float, cells: int) -> sw.Index:
        """Built, or found in the folder that the processes share."""
        path = None if self.folder is None else self.folder / f"{name}-{sharpness}-{cells}"
        if path is not None and path.exists():
            return sw.Index.load(path)
        made = sw.Index.build(self.catalog(name, 0.0, sharpness), cells=cells, progress=False)
        if path is not None:
            made.save(path)
        return made

    def retrieved(self, cell: Cell, number: int) -> dict[str, NDArray[np.intp]]:
        """Candidates of both retrievals, equally many."""
        name, k, m, _, sharpness = cell
        one = self.trained(name)
        user, seen = one.users[number], one.histories[number]
        by_cell = self.index(name, sharpness, max(1, m // k)).candidates(user, k, seen)
        return {"phase one": by_cell, "k-nn": self.index(name, 1.0, 1).candidates(user, len(by_cell), seen)}

    def rows(self, cell: Cell, users: Sequence[int]) -> list[Row]:
        """Every method for these users of a cell."""
        return [row for number in users for row in self._of_user(cell, number)]

    def _of_user(self, cell: Cell, number: int) -> list[Row]:
        name, k, _, offset, sharpness = cell
        catalog, user = self.catalog(name, offset, sharpness), self.trained(name).users[number]
        about = dict(zip(FIELDS, (*cell, number), strict=False))
        found = self.retrieved(cell, number)
        values: dict[tuple[str, str], float] = {}
        for retrieval, rows in found.items():
            instance, near = sw.Instance.from_catalog(catalog, user, rows), retrieval == "phase one"
            values |= {(retrieval, one): v for one, v in ranked(instance, k, self.solutions, near).items()}
        for where, rows in (("phase one", found["phase one"]), ("both", np.union1d(*found.values()))):
            here = sw.Instance.from_catalog(catalog, user, rows)
            longer = sw.rank(here, k, "swap", **budget("swap", LONGER * self.solutions, k, here.m)).value
            known = (value for (retrieval, _), value in values.items() if where in (retrieval, "both"))
            values[where, "best known"] = max(longer, *known)
        return [about | {"retrieval": one, "ranker": ranker, "value": v} for (one, ranker), v in values.items()]


def ranked(instance: sw.Instance, k: int, solutions: int, near: bool) -> dict[str, float]:
    """The value that every ranker finds with so many candidate solutions; ``near``: of Phase One's candidates."""
    result = {name: sw.rank(instance, k, name).value for name in ("top-k", "greedy")}
    result["paper"] = sw.rank(instance, k, "paper", solutions=solutions).value
    for name in (name for name in BEAMS if near or name not in ONLY_NEAR):
        result[name] = sw.rank(instance, k, "beam", **budget(name, solutions, k, instance.m)).value
    result["swap"] = sw.rank(instance, k, "swap", **budget("swap", solutions, k, instance.m)).value
    return result


# --- the command ---

_GRIDS: dict[str, Grid] = {}  # of this process


def _start(*settings: Any) -> None:
    _GRIDS["mine"] = Grid(*settings)


def _work(cell: Cell, users: Sequence[int]) -> list[Row]:
    return _GRIDS["mine"].rows(cell, users)


def _build(name: str, sharpness: float, cells: int) -> None:
    _GRIDS["mine"].index(name, sharpness, cells)


def run(options: argparse.Namespace) -> KeptRows:
    """Every unit that the file does not hold yet."""
    users, solutions = (3, 6) if options.quick else (options.users, options.solutions)
    recipe = Recipe.quick(0) if options.quick else Recipe(0, users=users)
    settings = (options.data, recipe, (600, users) if options.quick else None, solutions)
    kept = KeptRows(options.out, FIELDS, {"users": users, "solutions": solutions, "quick": options.quick})
    wanted = [
        cell for cell in cells(options.catalogues, options.k, options.candidates) if not options.quick or cell[2] <= 40
    ]
    block = 2 if options.quick else BLOCK
    starts = range(0, users, block)
    units = {_unit(cell, at): (cell, range(at, min(at + block, users))) for cell in wanted for at in starts}
    if options.jobs == 1:
        grid = Grid(*settings)
        for unit in kept.missing(units, "Figure 3, grid"):
            kept.add(unit, grid.rows(*units[unit]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            _run_together(kept, units, options.jobs, (*settings, Path(folder)))
    return kept


def _run_together(kept: KeptRows, units: dict[str, tuple[Cell, range]], jobs: int, settings: tuple[Any, ...]) -> None:
    """The missing units in several processes, which share the indexes."""
    missing = list(kept.missing(units, "Figure 3, grid"))
    cells_of = {units[unit][0] for unit in missing}
    indexes = {(name, sharpness, max(1, m // k)) for name, k, m, _, sharpness in cells_of}
    indexes |= {(name, 1.0, 1) for name, *_ in cells_of}
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_start, initargs=settings) as pool:
        for built in [pool.submit(_build, *one) for one in sorted(indexes)]:
            built.result()
        running = {pool.submit(_work, *units[unit]): unit for unit in missing}
        for number, done in enumerate(as_completed(running), 1):
            kept.add(running[done], done.result())
            print(f"{number} of {len(running)} units: {running[done]}", flush=True)


def _unit(cell: Cell, first: int) -> str:
    return "/".join(map(str, (*cell, first)))


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--catalogues", nargs="+", choices=READY_MADE, default=list(READY_MADE))
    parser.add_argument("--k", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--candidates", nargs="+", type=int, help="numbers of candidates; all without it")
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--solutions", type=int, default=SOLUTIONS)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quick", action="store_true", help="three users, small catalogues, few candidates")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    parser.add_argument("--page", type=Path, help="write the page from the rows of --out, and run nothing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, or write the page of earlier rows."""
    options = parsed(arguments)
    if options.page is not None:
        return written(options.page, options.out, cells(options.catalogues, options.k))
    return run(options).rows


if __name__ == "__main__":
    main()
