"""What a user makes of the catalogue, compiled: everybody's scores, and the order σ that the search goes through.

Single items and cells alike are *groups* (cell_kernels.py). The order is known exactly for the first R items; below it
is told apart in steps. ``cap`` is what it is for: the most that anybody from a place on scores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from setwise._types import Array
from setwise.kernels.rewards import FAST

OUTER: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
INNER = OUTER | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # never called from Python: compiled sooner


class Scored(NamedTuple):
    """What a user makes of the groups: the most that their items score in each head, their base term, and σ."""

    score: Array  # (H, G)
    base: Array  # (G,)
    total: Array  # (G,)


class Order(NamedTuple):
    """The order of the items: by rank the first R, then by σ."""

    rank: Array  # (n,) −1 for items not among the first R
    edge: Array  # (R,) σ of the first R, descending
    step: Array  # (1,) below the last edge, σ is told apart in steps of this size
    cap: Array  # (R + B + 1, H) the largest score of head h from this place in the order on


@njit(**OUTER, fastmath=FAST)
def score_items(value: Array, users: Array, pad: Array, shown: Array, place: Array, score: Array, total: Array) -> None:
    """Scores (B, H, n) and their sums (B, n) of the items that may be shown, each at its ``place``, for B users.

    The sum is −∞ for the others.
    """
    n, heads, d = value.shape
    for i in range(n):
        at = place[i]
        for b in range(len(users)):
            if not shown[b, i]:
                score[b, :, at] = 0.0
                total[b, at] = -np.inf
                continue
            together = 0.0
            for h in range(heads):
                one = pad[b, h]
                for e in range(d):
                    one += np.float64(value[i, h, e]) * users[b, h, e]
                score[b, h, at] = one
                together += one
            total[b, at] = together


@njit(**OUTER)
def score_cells(items: Scored, start: Array, cells: Scored, size: Array) -> None:
    """The largest scores, base terms and σ of each cell, and how many of its items may be shown."""
    heads = len(items.score)
    for c in range(len(size)):
        cells.total[c] = cells.base[c] = -np.inf
        cells.score[:, c] = -np.inf
        size[c] = 0
        for at in range(start[c], start[c + 1]):
            if items.total[at] > -np.inf:
                size[c] += 1
                cells.total[c] = max(cells.total[c], items.total[at])
                cells.base[c] = max(cells.base[c], items.base[at])
                for h in range(heads):
                    cells.score[h, c] = max(cells.score[h, c], items.score[h, at])
        if size[c] == 0:
            cells.base[c] = 0.0
            cells.score[:, c] = 0.0


@njit(**OUTER)
def list_first(total: Array, first: Array, least: Array) -> float:
    """The items of largest σ, as many as ``first`` has room for, in no order: a heap with the least on top.

    Returns the lowest σ of all that may be shown.
    """
    room, lowest = len(first), np.inf
    for i in range(room):
        at = i
        while at > 0 and least[(at - 1) // 2] > total[i]:
            up = (at - 1) // 2
            least[at], first[at] = least[up], first[up]
            at = up
        least[at], first[at] = total[i], i
    for i in range(len(total)):
        if total[i] > -np.inf:
            lowest = min(lowest, total[i])
        if i >= room and total[i] > least[0]:
            at = 0
            while 2 * at + 1 < room:
                down = 2 * at + 1
                if down + 1 < room and least[down + 1] < least[down]:
                    down += 1
                if least[down] >= total[i]:
                    break
                least[at], first[at] = least[down], first[down]
                at = down
            least[at], first[at] = total[i], i
    return float(lowest)


@njit(**INNER)
def place_in(edge: Array, step: float, places: int, total: float) -> int:
    """The first place in the order from which every item with σ ≤ ``total`` comes; there are so many places."""
    listed = len(edge)
    if total < edge[listed - 1]:
        if step <= 0.0:
            return listed
        return listed + min(int((edge[listed - 1] - total) / step), places - listed - 1)
    low, high = 0, listed - 1
    while low < high:
        middle = (low + high) // 2
        if edge[middle] <= total:
            high = middle
        else:
            low = middle + 1
    return low


@njit(**OUTER)
def fill_caps(items: Scored, order: Order) -> None:
    """The largest score of what stands at each place, then of all from it on."""
    heads, n = items.score.shape
    edge, step, cap, rank = order.edge, order.step[0], order.cap, order.rank
    cap[:] = -np.inf
    for i in range(n):
        if items.total[i] > -np.inf:
            at = rank[i]
            if at < 0:  # one that ties with the last listed comes after it
                at = max(place_in(edge, step, len(cap) - 1, items.total[i]), len(edge))
            for h in range(heads):
                cap[at, h] = max(cap[at, h], items.score[h, i])
    for at in range(len(cap) - 2, -1, -1):
        for h in range(heads):
            cap[at, h] = max(cap[at, h], cap[at + 1, h])


@njit(**INNER)
def late_caps(scored: Scored, order: Order, single: bool, rest: Array, start: int, stop: int, late: Array) -> None:
    """What comes after each group scores at most, and never more than ``rest``; after a cell, after its first item."""
    edge, step, cap = order.edge, order.step[0], order.cap
    for g in range(start, stop):
        listed = single and order.rank[g] >= 0
        at = order.rank[g] + 1 if listed else place_in(edge, step, len(cap) - 1, scored.total[g])
        for h in range(len(rest)):
            late[h, g - start] = min(rest[h], cap[at, h])
        if len(rest) == 1:  # then σ is the score
            late[0, g - start] = min(late[0, g - start], scored.total[g])
