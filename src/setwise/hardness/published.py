"""The published suites as instances of set selection, with bounds on their best values.

``suite(folder)`` reads a folder with these parts (formats in the readers, tables with a header line):

    clique/   DIMACS graphs named in clique_best_known.csv (file, graph, best_known_clique)
    mkp/      mknap1; the mknapcb files named in mknapcb_best_known.csv (file, problem, best_known_1997, lp_relaxation);
              sac94/*.dat
    qkp/      Billionnet-Soutif problems named in qkp_best_known.csv (instance, best_known)

``lower`` is a value that some set reaches, ``upper`` one that no set exceeds.

* clique: k is one more than the published clique, so that F ≤ k − 1 for every set, and the published clique reaches it.
  So lower = upper, and the optimum of F is known even where the clique is not proven to be the largest; only its
  existence is assumed. Weights of vertices are read but not used.
* knapsack: the optimum in the mknap1 and SAC-94 files; for mknapcb the best solution of 1997, and the linear
  relaxation rounded down (profits are whole there).
* quadratic knapsack: the best published value minus the error of F; there is no upper bound.

A problem is read when the iteration reaches it; each call of ``build`` makes its dense instance.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.errors import MalformedFile
from setwise.hardness.clique import clique_catalog, solution_to_clique
from setwise.hardness.graph import read_dimacs
from setwise.hardness.knapsack import Knapsack, knapsack_catalog, read_or_library, read_sac94, solution_to_knapsack
from setwise.hardness.quadratic_knapsack import (
    quadratic_knapsack_instance,
    read_billionnet_soutif,
    solution_to_quadratic_knapsack,
)
from setwise.hardness.tokens import read_lines, real, whole
from setwise.model.instance import Instance

Folder = str | os.PathLike[str]

EPS = 1e-6  # how far F of a quadratic knapsack may be below the profit

_PLAIN_NAME = re.compile(r"[\w+-][\w.+ -]{0,199}", re.ASCII)


@dataclass(frozen=True, eq=False)
class HardInstance:
    """A problem of a suite: ``sw.rank(hard.build(), hard.k, include=hard.pinned)``; lower ≤ its optimum ≤ upper.

    ``decode`` maps the rows of a set to a solution of the original problem: the vertices of a clique, the
    vector z of a knapsack, the items of a quadratic one.
    """

    name: str
    family: str  # "clique", "knapsack" or "quadratic knapsack"
    k: int
    pinned: tuple[int, ...]
    lower: float
    upper: float
    build: Callable[[], Instance]
    decode: Callable[[ArrayLike], NDArray[np.intp] | NDArray[np.bool_]]

    @property
    def optimum(self) -> float | None:
        """The best value of F, where it is known."""
        return self.lower if self.lower == self.upper else None


def suite(folder: Folder) -> Iterator[HardInstance]:
    """All published instances under ``folder``."""
    return chain(cliques(folder), knapsacks(folder), quadratic_knapsacks(folder))


def cliques(folder: Folder) -> Iterator[HardInstance]:
    """The DIMACS graphs, by construction (a)."""
    here = Path(folder) / "clique"
    for row in _table(here / "clique_best_known.csv", "file", "graph", "best_known_clique"):
        graph, best = read_dimacs(row.file("file")), row.whole("best_known_clique")
        if not 1 <= best <= graph.n_vertices:
            row.refuse(f"best_known_clique must be 1 to {graph.n_vertices}, the number of vertices, got {best}")
        k, decode = best + 1, partial(solution_to_clique, graph)
        yield HardInstance(row["graph"], "clique", k, (), best, best, clique_catalog(graph, k).instance, decode)


def knapsacks(folder: Folder) -> Iterator[HardInstance]:
    """The multi-dimensional knapsacks of the OR-Library and SAC-94."""
    here = Path(folder) / "mkp"
    solved = chain(read_or_library(_file(here, "mknap1.txt")), map(read_sac94, sorted((here / "sac94").glob("*.dat"))))
    for problem in solved:
        yield _knapsack(problem, problem.optimum or 0.0, problem.optimum or math.inf)
    file, problems = None, list[Knapsack]()
    for row in _table(here / "mknapcb_best_known.csv", "file", "problem", "best_known_1997", "lp_relaxation"):
        if row["file"] != file:  # the rows of one file stand together
            file, problems = row["file"], read_or_library(row.file("file"))
        number, best = row.whole("problem"), row.whole("best_known_1997")
        if number >= len(problems):
            row.refuse(f"problem must be 0 to {len(problems) - 1}, got {number}")
        # The relaxation is printed to four digits and may be almost 10⁻⁴ larger than it says.
        upper = math.floor(row.real("lp_relaxation") + 1e-4)
        if best > upper:
            row.refuse(f"best_known_1997 must be at most lp_relaxation, {upper}, got {best}")
        yield _knapsack(problems[number], best, upper)


def _knapsack(problem: Knapsack, lower: float, upper: float) -> HardInstance:
    reduction = knapsack_catalog(problem)
    pinned, decode = tuple(reduction.pinned.tolist()), partial(solution_to_knapsack, problem)
    return HardInstance(problem.name, "knapsack", reduction.k, pinned, lower, upper, reduction.instance, decode)


def quadratic_knapsacks(folder: Folder) -> Iterator[HardInstance]:
    """The quadratic knapsacks, with their capacity."""
    here = Path(folder) / "qkp"
    for row in _table(here / "qkp_best_known.csv", "instance", "best_known"):
        problem = read_billionnet_soutif(row.file("instance", ".txt"))
        n, lower = problem.n_items, row.whole("best_known") - EPS
        build = partial(quadratic_knapsack_instance, problem, EPS)
        decode = partial(solution_to_quadratic_knapsack, problem)
        yield HardInstance(row["instance"], "quadratic knapsack", n + 1, (n,), lower, math.inf, build, decode)


# --- the tables ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    """One line of a table of best values."""

    path: Path
    line: int
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def whole(self, column: str) -> int:
        return whole(self.path, self.line, self.cells[column], column)

    def real(self, column: str) -> float:
        return real(self.path, self.line, self.cells[column], column)

    def file(self, column: str, ending: str = "") -> Path:
        """The file that a cell names, in the folder of the table."""
        name = self.cells[column]
        if not _PLAIN_NAME.fullmatch(name):
            self.refuse(f"{column} must be the plain name of a file, got {name[:40]!r}")
        path = _file(self.path.parent, name + ending)
        if not path.is_file():
            self.refuse(f"{column} must name a file beside the table, but there is no {path.name!r}")
        return path

    def refuse(self, reason: str) -> NoReturn:
        raise MalformedFile(self.path, self.line, reason)


def _table(path: Path, *columns: str) -> Iterator[_Row]:
    """The rows of a CSV file that has these columns, and maybe others."""
    lines = _split(path)
    _, header = next(lines, (1, []))
    for column in columns:
        if column not in header:
            raise MalformedFile(path, 1, f"the table must have a column '{column}'")
    for number, cells in lines:
        if len(cells) != len(header):
            raise MalformedFile(path, number, f"there must be {len(header)} cells, got {len(cells)}")
        yield _Row(path, number, dict(zip(header, cells, strict=True)))


def _split(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of every row of a CSV file, with the line."""
    rows = csv.reader(read_lines(path))
    try:
        for cells in rows:
            yield rows.line_num, cells
    except csv.Error as error:
        raise MalformedFile(
            path, max(rows.line_num, 1), f"the line must be a row of cells, got one where {error}"
        ) from None


def _file(folder: Path, name: str) -> Path:
    """The file of this name, gzipped or not; the plain one when there is neither."""
    plain, packed = folder / name, folder / (name + ".gz")
    return packed if packed.exists() and not plain.exists() else plain
