"""``numpy``: all scores by one matrix product, every cell sorted. The reference for tests of other backends."""

from __future__ import annotations

import itertools

import numpy as np

from setwise._types import Floats32, Mask, Rows
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.backends.sorted_vectors import SortedVectors


class BruteForce(SortedVectors):
    """Exact search of the vectors, sorted by cell."""

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        hits = Hits.none(len(users), len(self.start) - 1, per_cell)
        order, start, kept = self.order, self.start, None  # kept: the places of eligible rows
        if eligible is not None:
            kept = np.flatnonzero(eligible[order])
            order, start = order[kept], np.searchsorted(kept, start)
        for b, user in enumerate(users):
            with np.errstate(invalid="ignore"):  # all are finite: kernels of BLAS flag what is beyond the end of a row
                score = self.vectors @ user
            score = score if kept is None else score[kept]
            for c, (first, last) in enumerate(itertools.pairwise(start)):
                best = first + _best(score[first:last], per_cell)
                hits.rows[b, c, : len(best)], hits.scores[b, c, : len(best)] = order[best], score[best]
        return hits


def _best(score: Floats32, count: int) -> Rows:
    """The places of the ``count`` largest, in descending order; ties go to the first."""
    if count < len(score):
        least = np.partition(score, -count)[-count]
        above, equal = np.flatnonzero(score > least), np.flatnonzero(score == least)
        chosen = np.concatenate([above, equal[: count - len(above)]])
        return chosen[np.argsort(-score[chosen], kind="stable")]
    return np.argsort(-score, kind="stable")
