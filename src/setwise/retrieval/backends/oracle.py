"""``numpy``: every score by one matrix product, every cell sorted. The truth that other backends are tested against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise.retrieval.backends.sorted_vectors import SortedVectors
from setwise.retrieval.neighbors import Floats32, Hits


class Oracle(SortedVectors):
    """The vectors, sorted by cell."""

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


def _best(score: Floats32, count: int) -> NDArray[np.intp]:
    """The places of the ``count`` largest, in descending order."""
    if count < len(score):
        chosen = np.argpartition(-score, count)[:count]
        return chosen[np.argsort(-score[chosen], kind="stable")]
    return np.argsort(-score, kind="stable")
