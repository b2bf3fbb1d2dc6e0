"""``numpy``: every score by one matrix product, every cell sorted. The truth that other backends are tested against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from setwise.retrieval.neighbors import Floats32, Hits, by_cell


class Oracle:
    """The vectors, sorted by cell."""

    def __init__(self, vectors: Floats32, order: NDArray[np.int64], start: NDArray[np.int64]) -> None:
        self.vectors, self.order, self.start = vectors, order, start

    @classmethod
    def build(cls, vectors: Floats32, cell_of: NDArray[np.int32], n_cells: int) -> Self:
        order, start = by_cell(cell_of, n_cells)
        return cls(vectors[order], order, start)

    def search(self, users: Floats32, per_cell: int, barred: NDArray[np.bool_] | None = None) -> Hits:
        cells = len(self.start) - 1
        hits = Hits.none(len(users), cells, per_cell)
        for b, user in enumerate(users):
            score = self.vectors @ user
            if barred is not None:
                score[barred[self.order]] = -np.inf
            for c in range(cells):
                best = _best(score[self.start[c] : self.start[c + 1]], per_cell)
                hits.rows[b, c, : len(best)] = self.order[self.start[c] + best]
                hits.scores[b, c, : len(best)] = score[self.start[c] + best]
        hits.rows[np.isneginf(hits.scores)] = -1
        return hits

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"vectors": self.vectors, "order": self.order, "start": self.start}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(arrays["vectors"], arrays["order"], arrays["start"])


def _best(score: Floats32, count: int) -> NDArray[np.intp]:
    """The places of the ``count`` largest, in descending order."""
    if count < len(score):
        chosen = np.argpartition(-score, count)[:count]
        return chosen[np.argsort(-score[chosen], kind="stable")]
    return np.argsort(-score, kind="stable")
