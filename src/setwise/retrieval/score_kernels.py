"""The compiled choice of the best rows of every cell when the total scores of the rows are known (scored_search.py).

A cell's scores are counted in bins of equal width. The k best are in the bins from some bin on; only the rows of these
bins, mostly hardly more than k, are inserted into the list of the best.
"""

from __future__ import annotations

import numpy as np

from setwise._types import Array
from setwise.kernels.options import INNER, OUTER, ZERO, njit
from setwise.retrieval.kernels import insert

_BINS = 128


@njit(**INNER)
def least_of_best(total: Array, count: int, bin_of: Array, held: Array) -> float:
    """A score that the ``count`` best reach, and few others; −∞ where there are no more than that.

    ``bin_of``, as long as ``total``, and ``held``, with a place per bin, are scratch space. The bin of a score is a
    monotone function of it, rounding included: the scores of a later bin are the larger ones.
    """
    size = len(total)
    if size <= count:
        return -np.inf
    lowest, highest = np.min(total), np.max(total)
    steps = _BINS / max(highest - lowest, 1e-300)
    held[:] = 0
    for at in range(size):
        bin_of[at] = min(int((total[at] - lowest) * steps), _BINS - 1)
        held[bin_of[at]] += 1
    first, reached = _BINS, 0
    while reached < count:
        first -= 1
        reached += held[first]
    least = np.inf
    for at in range(size):
        if bin_of[at] >= first:
            least = min(least, total[at])
    return least


@njit(**OUTER)
def best_of_cells(
    order: Array, start: Array, product: Array, added: Array, eligible: Array, factor: float, scores: Array, rows: Array
) -> None:
    """The rows of highest total score of each cell, best first, into scores and rows (C, k): −∞ and −1 on entry.

    The total score of row i is factor · product[i] + added[i]. Rows are sorted by cell: those of cell c are
    order[start[c] : start[c + 1]]. With an empty ``eligible`` every row is. Rows of equal score keep their order.
    """
    largest, k = ZERO, scores.shape[1]
    for c in range(len(start) - 1):
        largest = max(largest, start[c + 1] - start[c])
    total, mine, bin_of = np.empty(largest), np.empty(largest, np.int64), np.empty(largest, np.int16)
    held = np.empty(_BINS, np.int64)
    for c in range(len(start) - 1):
        count = 0
        for at in range(start[c], start[c + 1]):
            row = order[at]
            if len(eligible) == 0 or eligible[row]:
                total[count], mine[count] = factor * product[row] + added[row], row
                count += 1
        least = least_of_best(total[:count], k, bin_of, held)
        filled = ZERO
        for at in range(count):
            if total[at] >= least:
                filled = insert(scores[c], rows[c], filled, total[at], mine[at])
