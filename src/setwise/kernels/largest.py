"""Compiled lists of the largest values seen so far, in descending order; unused places hold −∞ or another minimum."""

from __future__ import annotations

from numba import njit

from setwise._types import Array, Floats
from setwise.kernels.options import INNER


@njit(**INNER)
def keep_largest(best: Floats, count: int, value: float) -> None:
    """Insert ``value`` into the first ``count`` places of ``best`` if it is larger than the last of them."""
    if value > best[count - 1]:
        at = count - 1
        while at > 0 and best[at - 1] < value:
            best[at] = best[at - 1]
            at -= 1
        best[at] = value


@njit(**INNER)
def keep_largest_repeated(best: Floats, value: float, times: int) -> None:
    """Insert ``value`` up to ``times`` times."""
    count = len(best)
    for _ in range(min(times, count)):
        if value <= best[count - 1]:
            return
        keep_largest(best, count, value)


@njit(**INNER)
def keep_largest_item(best: Floats, items: Array, value: float, item: int) -> None:
    """Insert ``value`` into ``best``, and ``item`` at the same place of ``items``."""
    at = len(best) - 1
    if value <= best[at]:
        return
    while at > 0 and best[at - 1] < value:
        best[at], items[at] = best[at - 1], items[at - 1]
        at -= 1
    best[at], items[at] = value, item
