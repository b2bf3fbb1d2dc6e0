"""``tree``: scan, pruned. Inside a cell, blocks of similar items are visited best bound first until none can matter.

Blocks are the leaves of a tree of median cuts across the principal direction of each node. For a block the mean is
stored, and its extent in the leading principal directions of all vectors and in the rest of the space:

* exact (``recall=1``): an upper bound, y · mean + Σ_j |z_j| halfwidth_j + ‖z_rest‖ radius + rounding, z being y
  in principal coordinates (a ball alone is loose in many dimensions) and rounding that of a true score. The search
  stops when the k-th best exceeds every bound left, and the result is that of ``scan``.
* approximate (``recall`` below 1, the default): an estimate, y · mean + optimism · deviation, the deviation being
  that of y · v over the block, estimated from the same coordinates. ``build`` chooses the optimism on sample users,
  so that on average the wanted share of each cell's true best is found (it aims two standard errors above it, for
  users it has not seen); the search stops by the same rule. The best one is harder to find than the best ten, so
  there is an optimism for each of some depths, and a search takes that of the next smaller one. The recall is that of
  users like the sample: pass ``sample_users`` where users are not like items. Scores are exact, and every cell is
  filled.

The rows kept are exact within the blocks visited, by the same tiles as ``scan``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Floats32, Ints, Mask
from setwise._validation import read_only, real_array, real_number
from setwise.errors import InvalidInput
from setwise.retrieval import kernels
from setwise.retrieval.backends.protocol import Hits, by_cell
from setwise.retrieval.backends.scan import checked, checked_tiles, tiled
from setwise.retrieval.backends.sorted_vectors import checked_rows
from setwise.storage import saved_arrays

BLOCK = 64  # items in a block, at most: four tiles
LEADING = 16  # principal directions in which a block's extent is stored separately
_SAMPLE, DEPTHS = 64, (1, 3, 10)  # users on which the optimism is chosen, and numbers of rows per cell
_LEAST = 1 / 16  # the smallest optimism that is tried
_BOUNDLESS = 1e30  # the optimism that visits every block with any deviation
_NUMBERS = 1 << 21  # coordinates per step
_PARTS = ("vectors", "order", "first_block", "start", "tile_start", "tiles", "scale", "spread", "centre", "reach")


class Tree:
    """Blocks of similar vectors inside every cell, in tiles, with their means and extents."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = {name: read_only(array) for name, array in arrays.items()}

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
        sample = ordered[rng.choice(len(ordered), size=min(len(ordered), 20_000), replace=False)].astype(np.float64)
        away = sample - sample.mean(axis=0)
        turn = np.ascontiguousarray(np.linalg.eigh(away.T @ away)[1][:, ::-1][:, :LEADING])
        arrays: dict[str, Array] = {
            "vectors": ordered,
            "order": order,
            "first_block": first_block,
            "start": start,
            "turn": turn,
            **tiled(ordered, start),
            **_shapes(ordered, start, turn, exact=recall == 1),
            "optimism": np.zeros(len(DEPTHS)),
        }
        if recall == 1:
            return cls(arrays)
        if sample_users is None:
            users = vectors[rng.choice(len(vectors), size=min(_SAMPLE, len(vectors)), replace=False)]
        else:
            users = real_array("sample_users", sample_users, ("count", vectors.shape[1]), np.float32)[:_SAMPLE]
        arrays["optimism"] = _calibrated(arrays, users, recall)
        return cls(arrays)

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        return _search(self._arrays, self.optimism(per_cell), users, per_cell, eligible)[0]

    def optimism(self, per_cell: int) -> float:
        """The optimism of a search for so many rows of a cell; 0 is the exact bound."""
        return float(self._arrays["optimism"][np.searchsorted(DEPTHS, max(1, per_cell), side="right") - 1])

    def arrays(self) -> dict[str, Array]:
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        checked_rows(arrays)
        checked_tiles(arrays)
        width, blocks = arrays["vectors"].shape[1], len(arrays["start"]) - 1
        saved_arrays.offsets("first_block", arrays["first_block"], None, blocks)
        turn = saved_arrays.typed("turn", arrays["turn"], np.float64, (width, None))
        saved_arrays.typed("centre", arrays["centre"], np.float32, (blocks, width))
        saved_arrays.typed("reach", arrays["reach"], np.float64, (blocks, turn.shape[1] + 2))
        saved_arrays.typed("optimism", arrays["optimism"], np.float64, (len(DEPTHS),))
        for name in ("turn", "centre", "reach", "optimism"):
            saved_arrays.finite(name, arrays[name])
        return cls(arrays)


def _search(
    arrays: Mapping[str, Array],
    optimism: float,
    users: Floats32,
    per_cell: int,
    eligible: Mask | None = None,
) -> tuple[Hits, int]:
    """The hits, and the number of blocks visited."""
    users, per_cell, mask = checked(arrays["vectors"], users, per_cell, eligible)
    hits = Hits.none(len(users), len(arrays["first_block"]) - 1, per_cell)
    parts = (read_only(arrays[part]) for part in _PARTS)
    whole = users.astype(np.float64)
    turned = np.hstack([*_turned(whole, arrays["turn"]), np.linalg.norm(whole, axis=1, keepdims=True)])
    return hits, kernels.climb(*parts, optimism, users, turned, mask, hits.rows, hits.scores)


def _calibrated(arrays: Mapping[str, Array], users: Floats32, recall: float) -> Floats:
    """For each depth the smallest optimism, by bisection, with which the sample users find the wanted share."""
    truth = _search(arrays, _BOUNDLESS, users, max(DEPTHS))[0]
    result = []
    for depth in DEPTHS:
        wanted, best = truth.rows[:, :, :depth] >= 0, truth.scores[:, :, :depth]
        last = np.min(np.where(wanted, best, np.inf), axis=2, keepdims=True)

        def reaches_recall(optimism: float) -> bool:
            found = wanted & (_search(arrays, optimism, users, depth)[0].scores >= last)  # noqa: B023
            share = found.sum(axis=(1, 2)) / wanted.sum(axis=(1, 2))  # noqa: B023
            return bool(share.mean() - 2 * share.std() / np.sqrt(len(users)) >= recall)

        low = high = _LEAST  # no smaller one is sought: 0 would mean the exact bound
        while high < _BOUNDLESS and not reaches_recall(high):
            low, high = high, 2 * high
        while high - low > 0.02 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if reaches_recall(middle) else (middle, high)
        result.append(high)
    return np.array(result)


def _turned(vectors: Floats, turn: Floats) -> tuple[Floats, Floats]:
    """For each row, the sizes of its leading coordinates, and the length of the rest: (rows, leading), (rows, 1)."""
    leading = vectors @ turn
    return np.abs(leading), np.linalg.norm(vectors - leading @ turn.T, axis=1, keepdims=True)


def _cut(vectors: Floats32, order: Ints, cell_start: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
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
        direction = _unit(_unit(centred @ direction) @ centred)
    return np.asarray(centred @ direction)


def _unit(vector: Floats32) -> Floats32:
    """Divided by its largest entry, so that products neither overflow nor vanish."""
    return np.asarray(vector / (np.abs(vector).max() or np.float32(1)))


def _shapes(vectors: Floats32, start: Ints, turn: Floats, exact: bool) -> dict[str, Array]:
    """Mean (blocks, D) and reach (blocks, leading + 2) of every block.

    Reach is half-widths and radius, or deviations, in the order of ``_turned``, and then the norm of the longest item.
    """
    blocks, (d, leading) = len(start) - 1, turn.shape
    centre, reach = np.empty((blocks, d), np.float32), np.empty((blocks, leading + 2))
    step = max(1, _NUMBERS // (BLOCK * d))
    for first in range(0, blocks, step):
        last = min(first + step, blocks)
        edges, size = start[first:last] - start[first], np.diff(start[first : last + 1])
        members = vectors[start[first] : start[last]].astype(np.float64)
        centre[first:last] = np.add.reduceat(members, edges, axis=0) / size[:, None]
        sides, rest = _turned(members - np.repeat(centre[first:last], size, axis=0), turn)
        if exact:
            reach[first:last, :-1] = np.maximum.reduceat(np.hstack([sides, rest]), edges, axis=0)
        else:
            squares = np.hstack([sides**2, rest**2 / max(1, d - leading)])
            reach[first:last, :-1] = np.sqrt(np.add.reduceat(squares, edges, axis=0) / size[:, None])
        reach[first:last, -1] = np.maximum.reduceat(np.linalg.norm(members, axis=1), edges)
    return {"centre": centre, "reach": reach}
