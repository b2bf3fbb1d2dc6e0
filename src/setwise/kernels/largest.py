"""Compiled lists of the largest values seen so far, in descending order; unused places hold −∞ or another minimum."""

from __future__ import annotations

import numpy as np

from setwise._types import Array, Floats
from setwise.kernels.options import INNER, njit


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
def keep_largest_labelled(
    best: Floats, items: Array, labels: Array, value: float, item: int, label: int, room: int
) -> None:
    """Insert ``value`` into ``best``, and ``item`` and ``label`` at the same place; at most ``room`` have a label ≥ 0.

    Sets with so many items of each label are the independent sets of a matroid: dropping the least item of the label
    that is full, or of all, keeps the largest sum. Places that are not used yet hold −∞.
    """
    at = len(best) - 1
    if value <= best[at] or room <= 0:
        return
    taken, least = 0, at
    for place in range(len(best) if label >= 0 else 0):
        if best[place] > -np.inf and labels[place] == label:
            taken, least = taken + 1, place
    if label >= 0 and taken >= room:
        if value <= best[least]:
            return
        at = least
    while at > 0 and best[at - 1] < value:
        best[at], items[at], labels[at] = best[at - 1], items[at - 1], labels[at - 1]
        at -= 1
    best[at], items[at], labels[at] = value, item, label
