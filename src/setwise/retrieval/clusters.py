"""Balanced k-means: the practical partition. Items that attend alike and are attended alike share a cell.

A cell matters through the logits q_i · k_j. Moving a query by δ_q moves them by up to δ_q ‖k‖, moving a key by δ_k by
up to ‖q‖ δ_k, so queries are measured in units of the typical key norm, keys in units of the typical query norm, head
by head: distances are then errors in logits, and one k-means on all of them side by side weighs them rightly.

Centres are learned by Lloyd's iterations on a sample; then every item goes to the nearest centre with room left, a cell
holding at most twice the average. Reward classes are clustered apart, with cells in proportion to their sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.catalog import Catalog
from setwise.checks import whole_number
from setwise.retrieval.partition import Partition

Floats32 = NDArray[np.float32]
Rows = NDArray[np.intp]
Tick = Callable[[int], None]

_SAMPLE = 64  # items a cell that the centres are learned from
_ITERATIONS = 15
_CHOICES = 8  # nearest centres that an item may be sent to
_ROOM = 2.0  # a cell holds at most this many times the average
_CHUNK = 1 << 15  # items assigned in one go


def default_cells(n_items: int) -> int:
    """The rule for the number of cells: 256, or as many as leave sixteen items for each on average."""
    return max(1, min(256, n_items // 16))


def clusters(catalog: Catalog, cells: int, seed: int = 0, tick: Tick = lambda items: None) -> Partition:
    """A partition into about ``cells`` cells; ``tick`` is told the number of items as they are assigned."""
    cells = whole_number("cells", cells)
    rng = np.random.default_rng(seed)
    points = _Points(catalog)
    cell_of = np.empty(catalog.n_items, np.int32)
    made = 0
    for number in range(len(catalog.rewards)):
        rows = np.flatnonzero(catalog.reward_class == number)
        if not len(rows):
            continue
        mine = min(len(rows), max(1, round(cells * len(rows) / catalog.n_items)))
        sample = points.of(rng.choice(rows, size=min(len(rows), _SAMPLE * mine), replace=False))
        cell_of[rows] = made + _assigned(points, rows, _centres(sample, mine, rng), tick)
        made += mine
    return Partition.of(catalog, cell_of, made)


class _Points:
    """Queries and keys of all heads side by side, in units of logits; made for the rows asked, never for all."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        some = np.arange(0, catalog.n_items, max(1, catalog.n_items // 10_000))
        # (1, H, 1): the typical norm of the other side, head by head
        self._query_unit = _typical_norm(catalog.key[some])
        self._key_unit = _typical_norm(catalog.query[some])

    def of(self, rows: Rows) -> Floats32:
        """(len(rows), 2 H d_kq)."""
        query, key = self._catalog.query[rows] * self._query_unit, self._catalog.key[rows] * self._key_unit
        return np.concatenate([query.reshape(len(rows), -1), key.reshape(len(rows), -1)], axis=1).astype(np.float32)


def _typical_norm(vectors: NDArray[np.floating]) -> Floats32:
    """The root mean square of the norms of (n, H, d), head by head: (1, H, 1)."""
    squares = np.sum(vectors.astype(np.float64) ** 2, axis=2, keepdims=True)
    return np.asarray(np.sqrt(squares.mean(axis=0, keepdims=True)), np.float32)


def _centres(sample: Floats32, cells: int, rng: np.random.Generator) -> Floats32:
    """k-means++ and Lloyd; a centre that loses all its points moves to the point worst served."""
    centres = _spread_out(sample, cells, rng)
    for _ in range(_ITERATIONS):
        distance = _squared_distances(sample, centres)
        nearest = np.argmin(distance, axis=1)
        count = np.bincount(nearest, minlength=cells)
        total = np.zeros_like(centres)
        np.add.at(total, nearest, sample)
        centres = total / np.maximum(count, 1).astype(np.float32)[:, None]
        for lost in np.flatnonzero(count == 0):
            worst = int(np.argmax(distance[np.arange(len(sample)), nearest]))
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
    for start in range(0, len(rows), _CHUNK):
        chunk = slice(start, start + _CHUNK)
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
    while (waiting := np.flatnonzero(cell_of < 0)).size:  # no room nearby: the nearest of the cells that have some
        free = np.flatnonzero(room > 0)
        squared = _squared_distances(points.of(rows[waiting]), centres[free])
        near = np.argmin(squared, axis=1)
        _serve(cell_of, room, waiting, free[near], squared[np.arange(len(near)), near])
    return cell_of


def _serve(cell_of: NDArray[np.int32], room: Rows, waiting: Rows, asked: NDArray[Any], distance: Floats32) -> None:
    """Give the rows ``waiting`` the cells they ask for, the closest first, while there is room."""
    queue = np.lexsort((distance, asked))
    place = np.arange(len(queue)) - np.searchsorted(asked[queue], asked[queue])  # how many stand before it
    served = queue[place < room[asked[queue]]]
    cell_of[waiting[served]] = asked[served]
    room -= np.bincount(asked[served], minlength=len(room))
