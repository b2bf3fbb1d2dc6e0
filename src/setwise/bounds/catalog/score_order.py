"""Compiled scores of all items for a user, and the order σ in which the search visits them.

Single items and cells are *groups* (group_bounds.py). The order is exact for the first R items; the others are put into
bins of equal width in σ. ``cap`` gives, for each place in the order, the largest score from that place on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.kernels.heap import push_entry, replace_top
from setwise.kernels.options import FAST, INNER, OUTER, njit


class Scored(NamedTuple):
    """Scores of groups for a user: the largest score of their items in each head, the largest base term, and σ."""

    score: Array  # (H, G)
    base: Array  # (G,)
    total: Array  # (G,)


class Order(NamedTuple):
    """The order of the items: by rank the first R, then by σ."""

    rank: Array  # (n,) −1 for items not among the first R
    edge: Array  # (R,) σ of the first R, descending
    step: Array  # (1,) the width of the bins of σ below the last edge
    cap: Array  # (R + B + 1, H) the largest score of head h from this place in the order on


@njit(**OUTER, fastmath=FAST)
def score_items(value: Array, users: Array, pad: Array, shown: Array, place: Array, score: Array, total: Array) -> None:
    """Scores (B, H, n) and their sums (B, n) of the eligible items, each at its ``place``, for B users.

    The sum is −∞ for the other items.
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


@njit(**OUTER, fastmath=FAST)
def add_base(base: Array, vector: Array, place: Array, out: Array) -> None:
    """Add base_i · u⁰ of every item i to its ``place``, in double precision and without a copy of the base."""
    n, d = base.shape
    for i in range(n):
        one = 0.0
        for e in range(d):
            one += np.float64(base[i, e]) * vector[e]
        out[place[i]] += one


@njit(**OUTER, fastmath=FAST)
def lead_scores(score: Array, total: Array) -> None:
    """σ for several heads, into ``total`` where that is not −∞: the largest of an item's standardised scores (H, n).

    Scores are divided by the largest of their head first, so that squares neither overflow nor underflow.
    """
    heads, n = score.shape
    middle, inverse = np.zeros(heads), np.zeros(heads)
    for h in range(heads):
        scale, mean, square = 0.0, 0.0, 0.0
        for i in range(n):
            scale = max(scale, abs(score[h, i]))
        unit = 1.0 / scale if scale > 1e-300 else 1.0
        for i in range(n):
            one = score[h, i] * unit
            mean += one / n
            square += one * one / n
        deviation = math.sqrt(max(square - mean * mean, 0.0))
        middle[h], inverse[h] = mean * scale, unit / deviation if deviation > 0.0 else unit
    for i in range(n):
        if total[i] > -np.inf:
            total[i] = -np.inf
            for h in range(heads):
                total[i] = max(total[i], (score[h, i] - middle[h]) * inverse[h])


@njit(**OUTER)
def score_cells(items: Scored, start: Array, cells: Scored, size: Array) -> None:
    """The largest score, base term and σ of each cell, and the number of its eligible items."""
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
def select_first(total: Array, first: Array, keys: Array) -> float:
    """Write the items of largest σ to ``first``, in no order; return the lowest σ of all eligible items.

    ``keys``, as long as ``first``, is scratch: −σ in a heap, so that the smallest σ is on top.
    """
    room, lowest = len(first), np.inf
    for i in range(room):
        push_entry(keys, first, i, -total[i], i)
    for i in range(len(total)):
        if total[i] > -np.inf:
            lowest = min(lowest, total[i])
        if i >= room and total[i] > -keys[0]:
            replace_top(keys, first, room, -total[i], i)
    return float(lowest)


@njit(**INNER)
def place_of(edge: Array, step: float, places: int, total: float) -> int:
    """The first of ``places`` places at which an item with σ ≤ ``total`` can stand in the order."""
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


@njit(**INNER)
def comes_after(rank: Array, total: Array, i: int, last: int) -> bool:
    """Whether item i is eligible and follows ``last`` in the order: listed items by rank, then the others by σ."""
    if total[i] == -np.inf:
        return False
    if last < 0:
        return True
    if rank[last] >= 0:
        return bool(rank[i] < 0 or rank[i] > rank[last])
    if rank[i] >= 0 or total[i] > total[last]:
        return False
    return bool(total[i] < total[last] or i > last)


@njit(**OUTER)
def fill_caps(items: Scored, order: Order) -> None:
    """Fill ``cap``: the largest score at each place of the order, then from that place on."""
    heads, n = items.score.shape
    edge, step, cap, rank = order.edge, order.step[0], order.cap, order.rank
    cap[:] = -np.inf
    for i in range(n):
        if items.total[i] > -np.inf:
            at = rank[i]
            if at < 0:  # a tie with the last listed item comes after it
                at = max(place_of(edge, step, len(cap) - 1, items.total[i]), len(edge))
            for h in range(heads):
                cap[at, h] = max(cap[at, h], items.score[h, i])
    for at in range(len(cap) - 2, -1, -1):
        for h in range(heads):
            cap[at, h] = max(cap[at, h], cap[at + 1, h])


@njit(**INNER)
def caps_after(scored: Scored, order: Order, single: bool, rest: Array, start: int, stop: int, after: Array) -> None:
    """The largest score after each group in the order, at most ``rest``; for a cell, after its first item."""
    edge, step, cap = order.edge, order.step[0], order.cap
    for g in range(start, stop):
        listed = single and order.rank[g] >= 0
        at = order.rank[g] + 1 if listed else place_of(edge, step, len(cap) - 1, scored.total[g])
        for h in range(len(rest)):
            after[h, g - start] = min(rest[h], cap[at, h])
        if len(rest) == 1:  # with one head σ is the score
            after[0, g - start] = min(after[0, g - start], scored.total[g])
