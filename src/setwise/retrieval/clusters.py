"""Balanced k-means: the practical partition. Items of a cell have similar queries and similar keys.

A cell matters through the logits q_i · k_j. Moving a query by δ_q moves them by up to δ_q ‖k‖, moving a key by δ_k by
up to ‖q‖ δ_k. So queries are multiplied by the typical key norm and keys by the typical query norm, head by head:
distances are then errors in logits, and one k-means on their concatenation weighs them correctly. The result is divided
by the typical norm of such a point, so that squares are near 1 at any scale of the model.

Centres are learned by Lloyd's iterations on a sample (``kmeans.py``). Then every item goes to the nearest centre with
room left; a cell holds at most twice the average. Reward classes are clustered separately, with cells in proportion to
their sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats32, Rows
from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.retrieval.kmeans import chunks, draw_spread, lloyd, squared_distances
from setwise.retrieval.partition import Partition

Tick = Callable[[int], None]

_MANY = 256  # cells; above it, a smaller sample per cell suffices
_SAMPLE, _SAMPLE_OF_MANY = 64, 16  # items per cell from which the centres are learned
_SEEDS_OF_MANY = 4  # items per cell from which the first centres are drawn
_ITERATIONS = 15
_CHOICES = 8  # nearest centres that are considered for an item first
_ROOM = 2.0  # a cell holds at most this many times the average
_FARTHEST = 1e15  # times the typical norm: coordinates are clipped there, so that squares fit float32


def default_cells(n_items: int) -> int:
    """The rule for the number of cells: 256, or fewer, so that cells hold sixteen items on average."""
    return max(1, min(256, n_items // 16))


def clusters(catalog: Catalog, cells: int, seed: int = 0, tick: Tick = lambda items: None) -> Partition:
    """A partition into about ``cells`` cells; ``tick`` is called with each number of items assigned."""
    cells = whole_number("cells", cells)
    rng = np.random.default_rng(seed)
    points = _Points(catalog, *_units(catalog))
    cell_of = np.empty(catalog.n_items, np.int32)
    made = 0
    for number in range(len(catalog.rewards)):
        rows = np.flatnonzero(catalog.reward_class == number)
        if not len(rows):
            continue
        of_class = min(len(rows), max(1, round(cells * len(rows) / catalog.n_items)))
        share = _SAMPLE if of_class <= _MANY else _SAMPLE_OF_MANY
        sample = points.of(rng.choice(rows, size=min(len(rows), share * of_class), replace=False))
        cell_of[rows] = made + _assigned(points, rows, _centres(sample, of_class, rng), tick)
        made += of_class
    return Partition.of(catalog, cell_of, made, points.query_unit, points.key_unit)


def nearest_cells(catalog: Catalog, rows: Rows, partition: Partition) -> NDArray[np.int32]:
    """For each of ``rows`` the cell of its reward class whose centre is nearest, as ``clusters`` measures it."""
    points = _Points(catalog, partition.query_unit, partition.key_unit)
    result = np.empty(len(rows), np.int32)
    for number in np.unique(catalog.reward_class[rows]):
        mine = np.flatnonzero(catalog.reward_class[rows] == number)
        cells = np.flatnonzero(partition.reward_class == number)
        if not len(cells):
            todo = "build a new index, or use a reward function of the index"
            raise InvalidInput("the new items' reward", "one that the index has cells for", "another", todo)
        centres = points.measured(partition.query_centre[cells], partition.key_centre[cells])
        for chunk in chunks(len(mine), len(cells)):
            result[mine[chunk]] = cells[np.argmin(squared_distances(points.of(rows[mine[chunk]]), centres), axis=1)]
    return result


class _Points:
    """The points that are clustered: queries and keys of all heads, times their units (H,), for some rows at a time."""

    def __init__(self, catalog: Catalog, query_unit: Floats32, key_unit: Floats32) -> None:
        self._catalog, self.query_unit, self.key_unit = catalog, query_unit, key_unit

    def of(self, rows: Rows) -> Floats32:
        """(len(rows), 2 H d_kq)."""
        return self.measured(self._catalog.query[rows], self._catalog.key[rows])

    def measured(self, query: NDArray[np.floating], key: NDArray[np.floating]) -> Floats32:
        """The points of queries and keys (m, H, d_kq): (m, 2 H d_kq)."""
        sides = [query * self.query_unit[:, None], key * self.key_unit[:, None]]
        point = np.concatenate([side.reshape(len(query), -1) for side in sides], axis=1)
        return np.asarray(np.clip(point, -_FARTHEST, _FARTHEST), np.float32)


def _units(catalog: Catalog) -> tuple[Floats32, Floats32]:
    """The factors of queries and of keys, head by head (H,): |k|/r and |q|/r, r² = 2 Σ |q|² |k|².

    |q| and |k| are root mean squares of norms over a sample of the items; that of the points is then 1. Where every
    logit is zero, r is 0 and replaced by 1: any cells are equally good.
    """
    some = np.arange(0, catalog.n_items, max(1, catalog.n_items // 10_000))
    query, key = (_typical_norm(part[some]) for part in (catalog.query, catalog.key))
    r = float(np.sqrt(2 * np.sum((query * key) ** 2))) or 1.0
    most = float(np.finfo(np.float32).max)
    return np.minimum(key / r, most).astype(np.float32), np.minimum(query / r, most).astype(np.float32)


def _typical_norm(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """The root mean square of the norms of (n, H, d), head by head: (H,)."""
    return np.asarray(np.sqrt(np.sum(vectors.astype(np.float64) ** 2, axis=2).mean(axis=0)))


def _centres(sample: Floats32, cells: int, rng: np.random.Generator) -> Floats32:
    """The centres of ``cells`` clusters of the sample."""
    first = draw_spread(sample if cells <= _MANY else sample[: _SEEDS_OF_MANY * cells], cells, rng)
    return lloyd(sample, first, _ITERATIONS)[0]


def _assigned(points: _Points, rows: Rows, centres: Floats32, tick: Tick) -> NDArray[np.int32]:
    """Each row's cell: the nearest with room left; the closest rows are assigned first."""
    cells = len(centres)
    choices = min(_CHOICES, cells)
    choice, distance = np.empty((len(rows), choices), np.int32), np.empty((len(rows), choices), np.float32)
    for chunk in chunks(len(rows), cells):
        squared = squared_distances(points.of(rows[chunk]), centres)
        near = np.argpartition(squared, choices - 1, axis=1)[:, :choices]
        far = np.take_along_axis(squared, near, axis=1)
        rank = np.argsort(far, axis=1, kind="stable")
        choice[chunk], distance[chunk] = np.take_along_axis(near, rank, axis=1), np.take_along_axis(far, rank, axis=1)
        tick(len(squared))
    room = np.full(cells, int(np.ceil(_ROOM * len(rows) / cells)))
    cell_of = np.full(len(rows), -1, np.int32)
    for turn in range(choices):
        waiting = np.flatnonzero(cell_of < 0)
        _serve(cell_of, room, waiting, choice[waiting, turn], distance[waiting, turn])
    left = np.flatnonzero(cell_of < 0)
    for chunk in chunks(len(left), cells):  # no room nearby: the nearest of all cells that have room
        waiting = left[chunk]
        squared = squared_distances(points.of(rows[waiting]), centres)
        while len(waiting):  # a round that leaves rows over fills a cell, so rounds are bounded by the number of cells
            squared[:, room == 0] = np.inf
            near = np.argmin(squared, axis=1)
            _serve(cell_of, room, waiting, near, squared[np.arange(len(near)), near])
            refused = cell_of[waiting] < 0
            waiting, squared = waiting[refused], squared[refused]
    return cell_of


def _serve(cell_of: NDArray[np.int32], room: Rows, waiting: Rows, wanted: NDArray[Any], distance: Floats32) -> None:
    """Assign the rows ``waiting`` to the cells ``wanted``, the closest first, while there is room."""
    queue = np.lexsort((distance, wanted))
    place = np.arange(len(queue)) - np.searchsorted(wanted[queue], wanted[queue])  # rank within the cell
    served = queue[place < room[wanted[queue]]]
    cell_of[waiting[served]] = wanted[served]
    room -= np.bincount(wanted[served], minlength=len(room))
