"""Balanced k-means: the practical partition. Items that attend alike and are attended alike share a cell.

A cell matters through the logits q_i · k_j. Moving a query by δ_q moves them by up to δ_q ‖k‖, moving a key by δ_k by
up to ‖q‖ δ_k, so queries are multiplied with the typical key norm, keys with the typical query norm, head by head:
distances are then errors in logits, and one k-means on all of them side by side weighs them rightly. All of it is
divided by the typical norm of such a point, so that squares are near 1 whatever the scale of the model.

Centres are learned by Lloyd's iterations on a sample; then every item goes to the nearest centre with room left, a cell
holding at most twice the average. Reward classes are clustered apart, with cells in proportion to their sizes. No
matrix of distances is larger than ``_DISTANCES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats32, Rows
from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.retrieval.partition import Partition

Tick = Callable[[int], None]

_MANY = 256  # cells; beyond, fewer items a cell are enough
_SAMPLE, _SAMPLE_OF_MANY = 64, 16  # items a cell that the centres are learned from
_SEEDS_OF_MANY = 4  # items a cell that the first centres are drawn from
_ITERATIONS = 15
_CHOICES = 8  # nearest centres that an item may be sent to
_ROOM = 2.0  # a cell holds at most this many times the average
_DISTANCES = 1 << 22  # distances held at a time
_FARTHEST = 1e15  # a coordinate this many times the typical norm is far enough, and its square a float32


def default_cells(n_items: int) -> int:
    """The rule for the number of cells: 256, or as many as leave sixteen items for each on average."""
    return max(1, min(256, n_items // 16))


def clusters(catalog: Catalog, cells: int, seed: int = 0, tick: Tick = lambda items: None) -> Partition:
    """A partition into about ``cells`` cells; ``tick`` is told the number of items as they are assigned."""
    cells = whole_number("cells", cells)
    rng = np.random.default_rng(seed)
    points = _Points(catalog, *_units(catalog))
    cell_of = np.empty(catalog.n_items, np.int32)
    made = 0
    for number in range(len(catalog.rewards)):
        rows = np.flatnonzero(catalog.reward_class == number)
        if not len(rows):
            continue
        mine = min(len(rows), max(1, round(cells * len(rows) / catalog.n_items)))
        share = _SAMPLE if mine <= _MANY else _SAMPLE_OF_MANY
        sample = points.of(rng.choice(rows, size=min(len(rows), share * mine), replace=False))
        cell_of[rows] = made + _assigned(points, rows, _centres(sample, mine, rng), tick)
        made += mine
    return Partition.of(catalog, cell_of, made, points.query_unit, points.key_unit)


def nearest_cells(catalog: Catalog, rows: Rows, partition: Partition) -> NDArray[np.int32]:
    """For each of ``rows`` the cell of its reward class whose centre is nearest, measured as ``clusters`` does."""
    points = _Points(catalog, partition.query_unit, partition.key_unit)
    result = np.empty(len(rows), np.int32)
    for number in np.unique(catalog.reward_class[rows]):
        mine = np.flatnonzero(catalog.reward_class[rows] == number)
        cells = np.flatnonzero(partition.reward_class == number)
        if not len(cells):
            todo = "build a new index, or give them a reward function the index knows"
            raise InvalidInput("the new items' reward", "one that the index has cells for", "another", todo)
        centres = points.measured(partition.query_centre[cells], partition.key_centre[cells])
        for chunk in _chunks(len(mine), len(cells)):
            result[mine[chunk]] = cells[np.argmin(_squared_distances(points.of(rows[mine[chunk]]), centres), axis=1)]
    return result


class _Points:
    """Queries and keys of all heads side by side, in their units (H,); made for the rows asked, never for all."""

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
    """What queries and what keys are multiplied with, head by head (H,): |k|/r and |q|/r, r² = 2 Σ |q|² |k|².

    |q| and |k| are root mean squares of norms over some of the items, so that the points' own is 1. Without r, that is
    where every logit is zero, one cell is as good as another.
    """
    some = np.arange(0, catalog.n_items, max(1, catalog.n_items // 10_000))
    query, key = (_typical_norm(part[some]) for part in (catalog.query, catalog.key))
    r = float(np.sqrt(2 * np.sum((query * key) ** 2))) or 1.0
    most = float(np.finfo(np.float32).max)
    return np.minimum(key / r, most).astype(np.float32), np.minimum(query / r, most).astype(np.float32)


def _typical_norm(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """The root mean square of the norms of (n, H, d), head by head: (H,)."""
    return np.asarray(np.sqrt(np.sum(vectors.astype(np.float64) ** 2, axis=2).mean(axis=0)))


def _chunks(count: int, cells: int) -> Iterator[slice]:
    """``count`` points in pieces whose distances to ``cells`` centres may be held."""
    size = max(1, _DISTANCES // cells)
    return (slice(start, start + size) for start in range(0, count, size))


def _centres(sample: Floats32, cells: int, rng: np.random.Generator) -> Floats32:
    """k-means++ and Lloyd; a centre that loses all its points moves to the point worst served."""
    centres = _spread_out(sample if cells <= _MANY else sample[: _SEEDS_OF_MANY * cells], cells, rng)
    nearest, distance = np.empty(len(sample), np.intp), np.empty(len(sample), np.float32)
    for _ in range(_ITERATIONS):
        for chunk in _chunks(len(sample), cells):
            squared = _squared_distances(sample[chunk], centres)
            nearest[chunk] = near = np.argmin(squared, axis=1)
            distance[chunk] = squared[np.arange(len(near)), near]
        count = np.bincount(nearest, minlength=cells)
        total = np.zeros_like(centres)
        np.add.at(total, nearest, sample)
        centres = total / np.maximum(count, 1).astype(np.float32)[:, None]
        for lost in np.flatnonzero(count == 0):
            worst = int(np.argmax(distance))
            centres[lost] = sample[worst]
            distance[worst] = 0.0
    return centres


def _spread_out(sample: Floats32, cells: int, rng: np.random.Generator) -> Floats32:
    """The first centres by k-means++: each new one is a point drawn in proportion to its squared distance so far."""
    chosen = [int(rng.integers(len(sample)))]
    nearest = _squared_distances(sample, sample[chosen])[:, 0]
    for _ in range(cells - 1):
        total = float(nearest.sum())
        draw = rng.choice(len(sample), p=nearest / total) if total > 0 else rng.integers(len(sample))
        chosen.append(int(draw))
        nearest = np.minimum(nearest, _squared_distances(sample, sample[chosen[-1:]])[:, 0])
    return sample[chosen]


def _squared_distances(points: Floats32, centres: Floats32) -> Floats32:
    """‖p − c‖² for all pairs, (points, centres); never negative."""
    lengths = np.einsum("ij,ij->i", points, points)[:, None] + np.einsum("ij,ij->i", centres, centres)
    return np.asarray(np.maximum(lengths - 2 * (points @ centres.T), 0.0))


def _assigned(points: _Points, rows: Rows, centres: Floats32, tick: Tick) -> NDArray[np.int32]:
    """Each row's cell: the nearest with room left, the closest rows being served first."""
    cells = len(centres)
    choices = min(_CHOICES, cells)
    choice, distance = np.empty((len(rows), choices), np.int32), np.empty((len(rows), choices), np.float32)
    for chunk in _chunks(len(rows), cells):
        squared = _squared_distances(points.of(rows[chunk]), centres)
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
    for chunk in _chunks(len(left), cells):  # no room nearby: the nearest of all cells that have some
        waiting = left[chunk]
        squared = _squared_distances(points.of(rows[waiting]), centres)
        while len(waiting):  # whoever is refused leaves a full cell behind: no more rounds than cells and chunks
            squared[:, room == 0] = np.inf
            near = np.argmin(squared, axis=1)
            _serve(cell_of, room, waiting, near, squared[np.arange(len(near)), near])
            refused = cell_of[waiting] < 0
            waiting, squared = waiting[refused], squared[refused]
    return cell_of


def _serve(cell_of: NDArray[np.int32], room: Rows, waiting: Rows, asked: NDArray[Any], distance: Floats32) -> None:
    """Give the rows ``waiting`` the cells they ask for, the closest first, while there is room."""
    queue = np.lexsort((distance, asked))
    place = np.arange(len(queue)) - np.searchsorted(asked[queue], asked[queue])  # how many stand before it
    served = queue[place < room[asked[queue]]]
    cell_of[waiting[served]] = asked[served]
    room -= np.bincount(asked[served], minlength=len(room))
