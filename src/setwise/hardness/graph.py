"""Graphs, and the DIMACS format in which the clique suites are published.

    c any comment
    p edge VERTICES EDGES       or "p col"; once, before all that follows
    n VERTEX WEIGHT             optional; then one for every vertex
    e VERTEX VERTEX             every edge once; vertices count from 1

Variants that list every edge twice, or state twice the number of edges, are refused: in the published files all counts
agree, so a disagreement means a damaged file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._validation import require_shape
from setwise.errors import InvalidInput, MalformedFile
from setwise.hardness.tokens import read_lines, whole
from setwise.hardness.whole_numbers import whole_array

MOST_VERTICES = 20_000  # the adjacency is dense: 400 MB


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph without loops: ``adjacency`` (n, n) is symmetric, ``weights`` (n,) are of its vertices."""

    adjacency: NDArray[np.bool_]
    weights: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        adjacency = _matrix(self.adjacency)
        n = len(adjacency)
        if n == 0 or adjacency.dtype != bool:
            got = f"{n} vertices of dtype {adjacency.dtype}"
            raise InvalidInput(
                "adjacency", "a boolean matrix with a vertex", got, "write True and False, or compare with 0"
            )
        if adjacency.diagonal().any() or (adjacency != adjacency.T).any():
            todo = "add its transpose and clear the diagonal"
            raise InvalidInput("adjacency", "symmetric with an empty diagonal", "another matrix", todo)
        object.__setattr__(self, "adjacency", adjacency)
        if self.weights is not None:
            object.__setattr__(self, "weights", whole_array("weights", self.weights, (n,)))

    @property
    def n_vertices(self) -> int:
        """The number of vertices."""
        return len(self.adjacency)

    @property
    def closed(self) -> NDArray[np.bool_]:
        """The adjacency with a full diagonal, the paper's A: (n, n)."""
        return self.adjacency | np.eye(self.n_vertices, dtype=bool)


def _matrix(given: ArrayLike) -> NDArray[Any]:
    """``given`` as a square array of any type."""
    try:
        array = np.asarray(given)
    except ValueError:  # ragged nested lists
        raise InvalidInput("adjacency", "a square matrix", "rows of different lengths", "pad them") from None
    size = len(array) if array.ndim else 0
    require_shape("adjacency", array, (size, size))
    return array


def read_dimacs(path: str | os.PathLike[str]) -> Graph:
    """The graph in a DIMACS file, plain or gzipped."""
    parser = _Dimacs(Path(path))
    lines = read_lines(path)
    for number, text in enumerate(lines, 1):
        words = text.split()
        if words and words[0] != "c":
            parser.read(number, *words)
    return parser.graph(max(len(lines), 1))


class _Dimacs:
    """The state of the parser after the lines read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header_line = 0  # none yet
        self.announced = 0  # edges, by the header
        self.edges = 0
        self.adjacency = np.zeros((0, 0), bool)
        self.weights: dict[int, int] = {}

    def read(self, line: int, kind: str, *words: str) -> None:
        """Read one line that is not a comment."""
        if kind not in ("p", "n", "e"):
            raise MalformedFile(self.path, line, f"a line must start with c, p, n or e, got {kind[:40]!r}")
        if (kind == "p") == bool(self.header_line):
            raise MalformedFile(self.path, line, "there must be one header line 'p', before all 'n' and 'e'")
        wanted = 3 if kind == "p" else 2
        if len(words) != wanted:
            raise MalformedFile(self.path, line, f"'{kind}' must be followed by {wanted} words, got {len(words)}")
        if kind == "p":
            self._header(line, *words)
        elif kind == "n":
            self._weight(line, *words)
        else:
            self._edge(line, *words)

    def _header(self, line: int, form: str, vertices: str, edges: str) -> None:
        if form not in ("edge", "col"):
            raise MalformedFile(self.path, line, f"the header must be 'p edge' or 'p col', got 'p {form[:40]}'")
        n = whole(self.path, line, vertices, "the number of vertices")
        if not 1 <= n <= MOST_VERTICES:
            raise MalformedFile(self.path, line, f"there must be 1 to {MOST_VERTICES} vertices, got {n}")
        self.announced = whole(self.path, line, edges, "the number of edges")
        self.adjacency = np.zeros((n, n), bool)
        self.header_line = line

    def _vertex(self, line: int, word: str) -> int:
        vertex = whole(self.path, line, word, "a vertex")
        if not 1 <= vertex <= len(self.adjacency):
            raise MalformedFile(self.path, line, f"a vertex must be 1 to {len(self.adjacency)}, got {vertex}")
        return vertex - 1

    def _weight(self, line: int, vertex: str, weight: str) -> None:
        v = self._vertex(line, vertex)
        if v in self.weights:
            raise MalformedFile(self.path, line, f"vertex {vertex} must have one weight, got another")
        self.weights[v] = whole(self.path, line, weight, "a weight")

    def _edge(self, line: int, one: str, other: str) -> None:
        u, v = self._vertex(line, one), self._vertex(line, other)
        if u == v:
            raise MalformedFile(self.path, line, f"an edge must join two vertices, got {one} twice")
        if self.adjacency[u, v]:
            raise MalformedFile(self.path, line, f"an edge must be listed once, got {one} {other} again")
        self.adjacency[u, v] = self.adjacency[v, u] = True
        self.edges += 1

    def graph(self, last_line: int) -> Graph:
        """The graph, after the last line."""
        if not self.header_line:
            raise MalformedFile(self.path, last_line, "the file ends without a header line 'p'")
        if self.edges != self.announced:
            reason = f"the header announces {self.announced} edges, but there are {self.edges}"
            raise MalformedFile(self.path, self.header_line, reason)
        n = len(self.adjacency)
        if not self.weights:
            return Graph(self.adjacency)
        if len(self.weights) != n:
            reason = f"the file ends with weights for {len(self.weights)} of {n} vertices"
            raise MalformedFile(self.path, last_line, reason)
        return Graph(self.adjacency, np.array([self.weights[v] for v in range(n)], np.int64))
