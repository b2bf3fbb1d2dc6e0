"""Compiled limits on sums in branch and bound: which candidates of a node can be in a set that keeps them.

A node has members P, candidates C and q places to fill. A set with i ∈ C has sums of at least those of P, of i and of
the q − 1 candidates of the smallest numbers, and of at most those with the largest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from setwise._types import Floats
from setwise.kernels.options import INNER, njit


@njit(**INNER)
def keeps_sums(cost: Floats, least: Floats, most: Floats, chosen: Any, size: int) -> bool:
    """Whether the first ``size`` of ``chosen`` keep the limits."""
    for r in range(len(cost)):
        total = 0.0
        for place in range(size):
            total += cost[r, chosen[place]]
        if not least[r] <= total <= most[r]:
            return False
    return True


@njit(**INNER)
def _extreme_sum(key: Floats, n: int, count: int) -> float:
    """The sum of the ``count`` smallest of the first n keys, which are moved to the front in ascending order."""
    total = 0.0
    for place in range(count):
        smallest = place
        for other in range(place + 1, n):
            if key[other] < key[smallest]:
                smallest = other
        key[place], key[smallest] = key[smallest], key[place]
        total += key[place]
    return total


@njit(**INNER)
def drop_beyond_sums(cost: Floats, least: Floats, most: Floats, item: Any, key: Floats, p: int, n: int, q: int) -> int:
    """Drop candidates item[p:p + n] that no set of the node that keeps the limits contains; return how many are left.

    −1 if no set of the node keeps them. ``key`` (m,) is scratch space.
    """
    for r in range(len(cost)):
        spent = 0.0
        for place in range(p):
            spent += cost[r, item[place]]
        if n < q or (q == 0 and not least[r] <= spent <= most[r]):
            return -1
        if q == 0:
            continue
        for sign in (1.0, -1.0):
            limit = most[r] if sign > 0.0 else least[r]
            if not np.isfinite(limit):
                continue
            for place in range(n):
                key[place] = sign * cost[r, item[p + place]]
            others = _extreme_sum(key, n, q - 1)
            kept = 0
            for place in range(p, p + n):
                own = sign * cost[r, item[place]]
                # One of the smallest may be the candidate itself: the others are then the q smallest without it.
                if sign * spent + others + max(own, key[q - 2] if q > 1 else own) <= sign * limit:
                    item[p + kept] = item[place]
                    kept += 1
            n = kept
            if n < q:
                return -1
    return n
