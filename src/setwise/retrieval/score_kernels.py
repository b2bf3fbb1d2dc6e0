"""The compiled choice of the best rows of every cell when the total scores of all rows are known (scored_search.py)."""

from __future__ import annotations

from numba import njit

from setwise._types import Array
from setwise.kernels.largest import keep_largest_item
from setwise.kernels.options import OUTER


@njit(**OUTER)
def best_of_cells(order: Array, start: Array, total: Array, eligible: Array, scores: Array, rows: Array) -> None:
    """The best eligible rows of each cell by ``total`` (n,), into scores and rows (C, k): −∞ and −1 on entry.

    Rows are sorted by cell: those of cell c are order[start[c] : start[c + 1]]. With an empty ``eligible`` every row
    is. Rows of equal score keep their order.
    """
    for c in range(len(start) - 1):
        for at in range(start[c], start[c + 1]):
            row = order[at]
            if len(eligible) == 0 or eligible[row]:
                keep_largest_item(scores[c], rows[c], total[row], row)
