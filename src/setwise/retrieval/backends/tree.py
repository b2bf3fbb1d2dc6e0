"""``tree``: scan, pruned. Inside a cell, blocks of similar items are visited best hope first until none can matter.

Blocks are the leaves of a tree of median cuts across the principal direction of each node. A block knows its mean, and
how far it reaches in the leading principal directions of all vectors and in what is left of the space:

* exact (``recall=1``): hope = an upper bound, y · mean + Σ_j |z_j| halfwidth_j + ‖z_rest‖ radius, z being y in
  principal coordinates (a ball alone is loose in many dimensions). The search stops when the k-th best beats every hope
  left, and the result is that of ``scan``.
* approximate (``recall`` below 1, the default): hope = y · mean + optimism · deviation, the deviation being that of
  y · v over the block. ``build`` chooses the optimism on sample users, so that on average the wanted share of each
  cell's true best is found (it aims a quarter of the way above it, for users it has not seen); the stop is the same.
  The answer's scores are true ones, its cells complete.

The rows kept are exact within the blocks visited, by the same tiles as ``scan``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from setwise.checks import real_array, real_number
from setwise.errors import InvalidInput
from setwise.retrieval import kernels
from setwise.retrieval.backends.scan import NOTHING_BARRED, tiled
from setwise.retrieval.neighbors import Floats32, Hits, by_cell

Rows = NDArray[np.int64]

BLOCK = 64  # items in a block at most: four tiles
LEADING = 16  # principal directions in which a block's reach is kept one by one
_SAMPLE, _DEPTH = 32, 10  # users that the optimism is chosen on, and the rows of a cell they look for
_LARGEST_OPTIMISM = 8.0
_PARTS = ("vectors", "order", "first_block", "start", "tile_start", "tiles", "scale", "spread", "centre", "reach")


class Tree:
    """Blocks of similar vectors inside every cell, in tiles, with where they lie."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = dict(arrays)

    @classmethod
    def build(
        cls,
        vectors: Floats32,
        cell_of: NDArray[np.int32],
        n_cells: int,
        recall: float = 0.95,
        sample_users: NDArray[np.floating] | None = None,
        seed: int = 0,
    ) -> Self:
        """Without ``sample_users`` (S, D) the optimism is chosen on items of the catalogue taken for users."""
        recall = real_number("recall", recall)
        if not 0 < recall <= 1:
            raise InvalidInput("recall", "greater than 0 and at most 1", recall, "pass 1 for exact search")
        rng = np.random.default_rng(seed)
        order, cell_start = by_cell(cell_of, n_cells)
        first_block, start = _cut(vectors, order, cell_start, rng)
        ordered = vectors[order]
        turn = _principal_directions(ordered, rng)
        arrays: dict[str, NDArray[Any]] = {
            "vectors": ordered,
            "order": order,
            "first_block": first_block,
            "start": start,
            "turn": turn,
            **tiled(ordered, start),
            **_shapes(ordered, start, turn, exact=recall == 1),
            "optimism": np.zeros(1),
        }
        if recall == 1:
            return cls(arrays)
        if sample_users is None:
            users = vectors[rng.choice(len(vectors), size=min(_SAMPLE, len(vectors)), replace=False)]
        else:
            users = real_array("sample_users", sample_users, ("count", vectors.shape[1]), np.float32)[:_SAMPLE]
        arrays["optimism"][0] = _calibrated(arrays, users, recall)
        return cls(arrays)

    def search(self, users: Floats32, per_cell: int, barred: NDArray[np.bool_] | None = None) -> Hits:
        return _search(self._arrays, float(self._arrays["optimism"][0]), users, per_cell, barred)[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(arrays)


def _search(
    arrays: Mapping[str, NDArray[Any]],
    optimism: float,
    users: Floats32,
    per_cell: int,
    barred: NDArray[np.bool_] | None = None,
) -> tuple[Hits, int]:
    """The hits, and how many blocks were visited for them."""
    hits = Hits.none(len(users), len(arrays["first_block"]) - 1, per_cell)
    asked = np.ascontiguousarray(users, np.float32)
    visited = kernels.climb(
        *(arrays[part] for part in _PARTS),
        optimism,
        asked,
        asked @ arrays["turn"],
        NOTHING_BARRED if barred is None else barred,
        hits.rows,
        hits.scores,
    )
    return hits, visited


def _calibrated(arrays: Mapping[str, NDArray[Any]], users: Floats32, recall: float) -> float:
    """The smallest optimism, by bisection, with which the sample users find the wanted share of each cell's best."""
    truth = _search(arrays, _LARGEST_OPTIMISM, users, _DEPTH)[0]
    wanted = np.isfinite(truth.scores)
    last = np.where(wanted.any(axis=2), np.min(np.where(wanted, truth.scores, np.inf), axis=2), np.inf)
    low, high = 0.0, _LARGEST_OPTIMISM
    for _ in range(8):
        middle = (low + high) / 2
        found = _search(arrays, middle, users, _DEPTH)[0].scores >= last[:, :, None]
        if (found & wanted).sum() >= (recall + (1 - recall) / 4) * wanted.sum():
            high = middle
        else:
            low = middle
    return high


def _principal_directions(vectors: Floats32, rng: np.random.Generator) -> Floats32:
    """An orthonormal basis (D, D), the directions of largest variance first, from a sample of the vectors."""
    some = vectors[rng.choice(len(vectors), size=min(len(vectors), 20_000), replace=False)].astype(np.float64)
    away = some - some.mean(axis=0)
    return np.ascontiguousarray(np.linalg.eigh(away.T @ away)[1][:, ::-1], np.float32)


def _cut(vectors: Floats32, order: Rows, cell_start: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Reorder each cell's rows in ``order`` into blocks; return each cell's first block and each block's first row."""
    first_block, start = [0], [0]
    for begin, end in itertools.pairwise(cell_start):
        pending = [(int(begin), int(end))]
        while pending:
            low, high = pending.pop()
            if high - low <= BLOCK:
                start += [high] if high > low else []
                continue
            # A multiple of the block size to the left keeps all blocks but the last one full.
            middle = low + BLOCK * max(1, round((high - low) / (2 * BLOCK)))
            rows = order[low:high]
            along = _along_principal_direction(vectors[rows], rng)
            order[low:high] = rows[np.argpartition(along, middle - low)]
            pending += [(middle, high), (low, middle)]
        first_block.append(len(start) - 1)
    return np.array(first_block, np.int64), np.array(start, np.int64)


def _along_principal_direction(vectors: Floats32, rng: np.random.Generator) -> Floats32:
    """Where each vector lies along the direction of largest variance, by a few power iterations."""
    centred = vectors - vectors.mean(axis=0)
    direction = np.asarray(rng.normal(size=vectors.shape[1]), np.float32)
    for _ in range(3):
        direction = (centred @ direction) @ centred
        direction /= max(float(np.linalg.norm(direction)), 1e-30)
    return np.asarray(centred @ direction)


def _shapes(vectors: Floats32, start: Rows, turn: Floats32, exact: bool) -> dict[str, Floats32]:
    """Mean (blocks, D) and reach (blocks, leading + 1) of every block: half-widths and radius, or deviations."""
    blocks, d = len(start) - 1, vectors.shape[1]
    leading = min(LEADING, d)
    centre, reach = np.empty((blocks, d), np.float32), np.empty((blocks, leading + 1), np.float32)
    block_of = np.repeat(np.arange(blocks), np.diff(start))
    for first in range(0, blocks, 4096):
        last = min(first + 4096, blocks)
        rows, edges = slice(start[first], start[last]), start[first:last] - start[first]
        size = np.diff(start[first : last + 1])[:, None]
        centre[first:last] = np.add.reduceat(vectors[rows], edges, axis=0) / size
        away = (vectors[rows] - centre[block_of[rows]]) @ turn
        rest = (away[:, leading:] ** 2).sum(axis=1, keepdims=True)
        if exact:
            sides = np.maximum.reduceat(np.hstack([np.abs(away[:, :leading]), np.sqrt(rest)]), edges, axis=0)
            reach[first:last] = np.nextafter(sides.astype(np.float32) * np.float32(1.00001), np.float32(np.inf))
        else:
            square = np.add.reduceat(np.hstack([away[:, :leading] ** 2, rest / max(1, d - leading)]), edges, axis=0)
            reach[first:last] = np.sqrt(square / size)
    return {"centre": centre, "reach": reach}
