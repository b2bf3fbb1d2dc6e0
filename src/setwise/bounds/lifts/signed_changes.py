"""Compiled bounds on the change of an argument by each other member of a set, with its sign; Logistic rewards.

**Changes.** Pad a set of at most k items with empty places to exactly k, so that every item has r = k − 1 others. In a
head, let D be the sum of the weights of item i on itself and the sink, n the average of their scores, and z any level:

    a_i^h(S) − z  =  Σ_j b_ij / W,    b_ij = w_ij (s_j − z) − D (z − n) / r,    W = D + Σ_j w_ij,

where j runs over the r others, and an empty place has w_ij = 0. W is at least D + w_ij, and at most that and the r − 1
largest weights of the row. Dividing by the first if b_ij > 0 and by the second if b_ij < 0 bounds every term, so

    a_i(S)  ≤  x_i + Σ_j c_ij,    x_i = base_i + Σ_h z_i^h,    c_ij = Σ_h b_ij^h / W_ij^h.

Heads of opposite signs cancel in c_ij, which lifts (node_bounds.py) do not allow.

**Rewards.** x_i + Σ_j c_ij lies between x_i and the r least and the r largest changes. A line that is nowhere below f_i
on this interval gives f_i(a_i) ≤ e_i + β_i Σ_j c_ij, also where changes are negative. It is the tangent of a point at
which the concave envelope of f_i on the interval equals f_i, or the chord of the interval.

**Rounding.** Changes are computed in single precision and raised by more than its effect, and x_i by more than that of
the rounding of the weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.kernels.largest import keep_largest
from setwise.kernels.options import FAST, INNER, OUTER, njit

ROUNDING = 2.0**-22  # more than four times the relative rounding in single precision
LINE = 1e-9  # absolute margin of a line above a reward
NEVER = np.float32(-1e30)  # the charge of a pair that no set has
_HALVINGS = 20
_TILE = 32


class SignedItems(NamedTuple):
    """Items, their weights on each other, and their scores for a user."""

    weight: Array  # (n, H, n) float32
    sink: Array  # (n, H)
    largest: Array  # (n, H, COUNTED + 1)
    score: Array  # (H, n)
    score_32: Array  # (H, n) float32
    sink_score: Array  # (H,)
    base: Array  # (n,)
    scale: Array  # (n,) of the logistic reward
    bias: Array  # (n,)
    able: Array  # (n,) bool: items that sets may contain
    spread: Array  # (H,) the largest |score|, the sink's included


class Lines(NamedTuple):
    """For each item the line above its reward, and what an empty place changes."""

    reward: Array  # (n,): e
    slope: Array  # (n,): β
    empty: Array  # (n,): c of an empty place


@njit(**INNER)
def largest_sum(sums: Array, count: int) -> float:
    """At least the sum of the ``count`` largest weights of a row."""
    last = len(sums) - 1
    if count <= last:
        return float(sums[count])
    return float(sums[last] + (count - last) * (sums[last] - sums[last - 1]) * (1 + 1e-4))


@njit(**INNER)
def logistic_at(y: float) -> float:
    """1 / (1 + e^−y)."""
    small = math.exp(-abs(y))
    return (1.0 if y >= 0.0 else small) / (1.0 + small)


@njit(**INNER)
def slope_at(y: float) -> float:
    """The derivative of ``logistic_at``."""
    small = math.exp(-abs(y))
    return small / ((1.0 + small) * (1.0 + small))


@njit(**INNER)
def tangent_point(low: float) -> float:
    """The y whose tangent of the logistic function passes through its point at ``low`` < 0, rounded upwards."""
    at, value = 0.0, logistic_at(low)
    above = 2.0 - low
    for _ in range(_HALVINGS):
        middle = 0.5 * (at + above)
        if value + slope_at(middle) * (middle - low) > logistic_at(middle):
            at = middle
        else:
            above = middle
    return above


@njit(**INNER)
def line_above(low: float, y: float, high: float) -> tuple[float, float]:
    """A line at least the logistic function on [low, high]: its value at y and its slope."""
    point = low if low >= 0.0 else tangent_point(low)
    if low < 0.0 and high <= point:
        if high - low < 1e-6:
            return logistic_at(high) + 0.25 * max(y - low, 0.0) + LINE, 0.25
        slope = (logistic_at(high) - logistic_at(low)) / (high - low)
        return logistic_at(low) + slope * (y - low) + LINE, slope
    point = max(point, min(y, high))
    slope = slope_at(point)
    return logistic_at(point) + slope * (y - point) + LINE, slope


@njit(**INNER, fastmath=FAST)
def add_changes(
    change: Array, weight: Array, score: Array, level: float, slack: float, total: float, most: float
) -> None:
    """Add the changes of one row in one head: b / W for each column, in single precision."""
    z, s, low, high = np.float32(level), np.float32(slack), np.float32(total), np.float32(total + most)
    for j in range(len(change)):
        w = weight[j]
        b = w * (score[j] - z) - s
        change[j] += b / (w + (low if b > np.float32(0.0) else high))


@njit(**OUTER)
def reference_levels(items: SignedItems, near: Array, others: int, begin: int, end: int, level: Array) -> None:
    """Fill ``level`` (n, H) from ``begin`` to ``end``: the average of a row over itself, the sink and ``near``."""
    for i in range(begin, end):
        count = 0
        for j in near:
            count += 1 if j != i else 0
        for h in range(len(items.spread)):
            total = items.sink[i, h]
            value = items.score[h, i] + total * items.sink_score[h]
            total += 1.0
            share = others / count if count else 0.0
            for j in near:
                w = share * items.weight[i, h, j]
                total += w
                value += w * items.score[h, j]
            level[i, h] = value / total


@njit(**INNER)
def fill_row(items: SignedItems, i: int, level: Array, others: int, change: Array) -> tuple[float, float]:
    """Fill the changes of item i, raised for rounding; return x_i and the change by an empty place."""
    heads, size = len(level), 0.0
    for h in range(heads):
        size += 2.0 * items.spread[h] + 2.0 * abs(level[h])  # at least |z − n| too
    pad = (4 + heads) * ROUNDING * size
    change[:] = np.float32(pad)
    x, empty = items.base[i], pad
    for h in range(heads):
        sink, z = items.sink[i, h], level[h]
        total = 1.0 + sink
        mean = (items.score[h, i] + sink * items.sink_score[h]) / total
        most = largest_sum(items.largest[i, h], others - 1)
        slack = total * (z - mean) / others
        add_changes(change, items.weight[i, h], items.score_32[h], z, slack, total, most)
        empty -= slack / (total if slack < 0.0 else total + most)
        x += z + ROUNDING * items.spread[h]
    return x, empty


@njit(**INNER)
def find_extremes(items: SignedItems, i: int, change: Array, empty: float, most: Array, least: Array) -> None:
    """Fill ``most`` with the largest changes of item i, and ``least`` with the negatives of the least."""
    others = len(most)
    most[:] = empty
    least[:] = -empty
    middle, half = np.float32(empty), np.float32(-1.0)
    for j in range(len(change)):
        if abs(change[j] - middle) > half and items.able[j] and j != i:  # one comparison for both ends, rounded
            c = float(change[j])
            keep_largest(most, others, c)
            keep_largest(least, others, -c)
            above, below = most[others - 1], -least[others - 1]
            middle = np.float32(0.5 * (above + below))
            half = np.float32(0.5 * (above - below) - 1e-6 * (abs(above) + abs(below)))


@njit(**OUTER)
def fill_changes(
    items: SignedItems, level: Array, others: int, begin: int, end: int, change: Array, lines: Lines
) -> None:
    """Fill ``change`` (n, n) and the lines of the able items from ``begin`` to ``end``."""
    most, least = np.empty(others), np.empty(others)
    for i in range(begin, end):
        if not items.able[i]:
            lines.reward[i] = lines.slope[i] = lines.empty[i] = 0.0
            change[i, :] = np.float32(0.0)
            continue
        x, empty = fill_row(items, i, level[i], others, change[i])
        find_extremes(items, i, change[i], empty, most, least)
        scale, bias = items.scale[i], items.bias[i]
        y = scale * x + bias
        low, high = scale * (x - least.sum()) + bias, scale * (x + most.sum()) + bias
        margin = LINE * (1.0 + abs(y) + abs(low) + abs(high))
        value, slope = line_above(low - margin, y, high + margin)
        lines.reward[i], lines.slope[i], lines.empty[i] = value, slope * scale, empty


@njit(**INNER)
def raised(value: float) -> np.float32:
    """At least ``value``, in single precision."""
    return np.float32(value + 1.3e-7 * abs(value) + 1e-30)


@njit(**INNER, fastmath=FAST)
def share_tile(able: Array, half: Array, begin: int, first: int, change: Array, tile: Array, rows: int) -> None:
    """Share the pairs of ``rows`` items from ``begin`` on with the items from ``first`` on, which come later."""
    columns = min(len(tile), len(change) - first)
    for b in range(columns):
        for a in range(rows):
            tile[a, b] = change[first + b, begin + a]
    for a in range(rows):
        row, other, mine = change[begin + a, first : first + columns], tile[a], half[begin + a]
        for b in range(columns):
            p, q = mine * row[b], half[first + b] * other[b]
            charge = p + q + np.float32(4e-7) * (abs(p) + abs(q)) + np.float32(1e-30)
            row[b] = other[b] = charge if able[first + b] else NEVER
        if not able[begin + a]:
            row[:] = other[:] = NEVER
    for b in range(columns):
        for a in range(rows):
            change[first + b, begin + a] = tile[a, b]


@njit(**OUTER)
def share_pairs(items: SignedItems, half: Array, begin: int, end: int, change: Array) -> None:
    """Replace the changes of pairs whose first item is from ``begin`` to ``end`` by equal charges to both items.

    ``half`` are half of the slopes, in single precision.
    """
    tile = np.empty((_TILE, _TILE), np.float32)
    for start in range(begin, end, _TILE):
        stop = min(start + _TILE, end)
        for i in range(start, stop):
            for j in range(i + 1, stop):
                charge = NEVER
                if items.able[i] and items.able[j]:
                    p, q = np.float64(half[i]) * change[i, j], np.float64(half[j]) * change[j, i]
                    charge = raised(p + q + 4e-7 * (abs(p) + abs(q)))
                change[i, j] = change[j, i] = charge
            change[i, i] = NEVER
        for first in range(stop, len(change), _TILE):
            share_tile(items.able, half, start, first, change, tile, stop - start)
