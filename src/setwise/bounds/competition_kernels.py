"""Compiled bounds of ``competition.py``: a Lagrangian bound of a node, its multipliers, and branch and bound.

A node is a set P of included candidates and a set of open ones; every set of the node is P with some of the
open ones. For each candidate i of the node, with T running over the sets of k − 1 others that contain P∖i,

    u_i = max_T  g_i(W_i(T)) + Σ_{j∈T} μ_ij,            g_i(W) = v_i f(t_i − s W / (1 + W)),   μ_ij = −μ_ji

Summed over i ∈ S the multipliers cancel, so F(S) is at most Σ_{i∈P} u_i plus the k − |P| largest u_i of open ones.
Places that stay empty count as an item that is worth 0 and is like no other, as often as needed.

To maximise over T, the range of W is cut into ``PARTS``. In a part g_i is at most a line; the best T for a line are the
k − 1 largest of μ_ij + slope · w_ij, and the maximum over all parts is at least that over all T.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from setwise._types import Floats, Ints
from setwise.kernels.copy import copy_entries
from setwise.kernels.options import INNER, OUTER, njit

PARTS = 5
EMPTY = -1  # the place of no item
SHRINK = 0.85  # arrays are made smaller once so few of the candidates are left
PATIENCE, CALMER = 4, 0.7  # rounds without a better bound, after which steps are smaller by this factor


@njit(**INNER)
def logistic_64(z: float) -> float:
    """1 / (1 + e^−z)."""
    small = math.exp(-abs(z))
    return (1.0 if z >= 0.0 else small) / (1.0 + small)


@njit(**INNER)
def _lines(t: float, v: float, strength: float, most: float, slope: Floats, start: Floats) -> None:
    """Lines that are at least g on each part of [0, most].

    g is convex, and the chord above it, where s tanh(a/2) ≤ 2 (1 + W) for its argument a. Elsewhere the line through
    the left end has the smallest slope of the part. Of a negative v the largest value counts.
    """
    low = 0.0
    for part in range(PARTS):
        high = most * ((part + 1.0) / PARTS) ** 2
        at_low, at_high = t - strength * low / (1.0 + low), t - strength * high / (1.0 + high)
        f_low, f_high = logistic_64(at_low), logistic_64(at_high)
        if v < 0.0:
            slope[part], start[part] = 0.0, v * f_high
        else:
            rise = 0.0
            if high > low and strength * math.tanh(max(at_low, 0.0) / 2.0) <= 2.0 * (1.0 + low):
                rise = (f_high - f_low) / (high - low)
            elif high > low:
                steep = min(f_low * (1.0 - f_low), f_high * (1.0 - f_high))
                rise = -steep * strength / (1.0 + high) ** 2
            slope[part], start[part] = v * rise, v * (f_low - rise * low)
        low = high


@njit(**OUTER)
def lines(t: Floats, v: Floats, strength: float, most: Floats, slope: Floats, start: Floats) -> None:
    """The lines (n, PARTS) of all candidates, for W from 0 to ``most``."""
    for i in range(len(t)):
        _lines(t[i], v[i], strength, most[i], slope[i], start[i])


@njit(**INNER)
def _partners(
    multiplier: Floats,
    weight: Floats,
    slope: float,
    i: int,
    nothing: float,
    free: Any,
    count: int,
    best: Floats,
    who: Ints,
) -> float:
    """The sum of the ``count`` largest μ_ij + slope w_ij over free j ≠ i, or ``nothing`` for an empty place."""
    for place in range(count):
        best[place], who[place] = nothing, EMPTY
    if count == 0:
        return 0.0
    for j in range(len(weight)):
        x = multiplier[j] + slope * weight[j]
        if x > best[0] and free[j] and j != i:
            place = 1
            while place < count and x > best[place]:
                best[place - 1], who[place - 1] = best[place], who[place]
                place += 1
            best[place - 1], who[place - 1] = x, j
    total = 0.0
    for place in range(count):
        total += best[place]
    return total


@njit(**INNER)
def evaluate_node(
    multiplier: Floats, weight: Floats, slope: Floats, start: Floats, nothing: Floats, inside: Any, free: Any, k: int,
    u: Floats, chosen: Ints, best: Floats, who: Ints,
) -> None:  # fmt: skip
    """u_i of every candidate that is included or free, and its partners; an included one is a partner of all."""
    size = 0
    for i in range(len(weight)):
        size += inside[i]
    for i in range(len(weight)):
        if not (inside[i] or free[i]):
            continue
        u[i] = -np.inf
        count = k - 1 - (size - inside[i])
        for part in range(PARTS):
            total = start[i, part]
            for p in range(len(weight)):
                if inside[p] and p != i:
                    total += multiplier[i, p] + slope[i, part] * weight[i, p]
            total += _partners(multiplier[i], weight[i], slope[i, part], i, nothing[i], free, count, best, who)
            if total > u[i]:
                u[i] = total
                copy_entries(chosen[i], who, count)


@njit(**INNER)
def worth_of_nothing(nothing: Floats, inside: Any, free: Any, k: int, best: Floats) -> float:
    """U of an empty place: its partners' shares, −``nothing``."""
    size, total = 0, 0.0
    for i in range(len(nothing)):
        if inside[i]:
            size += 1
            total -= nothing[i]
    count = k - 1 - size
    for place in range(count):
        best[place] = 0.0
    for j in range(len(nothing)):
        if free[j] and count > 0 and -nothing[j] > best[0]:
            place = 1
            while place < count and -nothing[j] > best[place]:
                best[place - 1] = best[place]
                place += 1
            best[place - 1] = -nothing[j]
    for place in range(count):
        total += best[place]
    return total


@njit(**INNER)
def _largest(
    u: Floats, least: float, inside: Any, k: int, labels: Ints, most: int, fewest: Ints, counts: Ints, order: Ints,
    taken: Any,
) -> tuple[float, float]:  # fmt: skip
    """The sum of u over the included candidates and the best of ``order`` (free ones by u), and the smallest taken.

    At most ``most`` of one label are taken, and at least ``fewest`` of each, which come first; −∞ where that cannot be.
    Places that are better left empty have ``least``, the u of nothing. ``taken`` says which candidates are.
    """
    total, places = 0.0, k
    counts[:] = 0
    for i in range(len(u)):
        taken[i] = inside[i]
        if inside[i]:
            total += u[i]
            places -= 1
            if labels[i] >= 0:
                counts[labels[i]] += 1
    smallest, missing = np.inf, 0
    for label in range(len(fewest)):
        missing += max(fewest[label] - counts[label], 0)
    if missing > places:
        return -np.inf, -np.inf
    for required in range(2 if missing > 0 else 1):
        for i in order:
            needed = missing > 0 and required == 0
            if places == 0 or (needed and labels[i] < 0) or (not needed and u[i] <= least):
                if needed:
                    continue
                break
            if taken[i]:
                continue
            if labels[i] >= 0:
                lacking = labels[i] < len(fewest) and counts[labels[i]] < fewest[labels[i]]
                if (needed and not lacking) or counts[labels[i]] >= most:
                    continue
                counts[labels[i]] += 1
                missing -= lacking
            taken[i] = True
            total += u[i]
            smallest = min(smallest, u[i])
            places -= 1
            if required == 0 and needed and missing == 0:
                break
        if required == 0 and missing > 0:
            return -np.inf, -np.inf
    if places > 0:
        total += places * least
        smallest = min(smallest, least)
    return total, smallest


@njit(**INNER)
def bound_of_node(
    u: Floats, least: float, inside: Any, free: Any, k: int, labels: Ints, limits: Ints, minimums: Ints, counts: Ints,
    order: Ints, picked: Any, trial: Any,
) -> tuple[float, float]:  # fmt: skip
    """The bound of a node by the tightest of the groups, and the smallest u of the set that it takes (``picked``)."""
    count = 0
    for i in range(len(u)):  # by insertion: the order of the last call is nearly that of this one
        if free[i]:
            at = count
            while at > 0 and u[order[at - 1]] < u[i]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = i
            count += 1
    bound, smallest = np.inf, -np.inf
    for group in range(len(limits)):
        fewest = minimums[min(group, len(minimums) - 1)]
        total, last = _largest(u, least, inside, k, labels[group], limits[group], fewest, counts, order[:count], trial)
        if total < bound:
            bound, smallest = total, last
            copy_entries(picked, trial, len(u))
    return bound, smallest


@njit(**INNER)
def _step(multiplier: Floats, picked: Any, chosen: Ints, count: int, excess: float, both: Any) -> bool:
    """Move the multipliers of pairs of which only one takes the other, against the excess of the bound; False: none."""
    pairs = 0
    for i in range(len(picked)):
        for place in range(count if picked[i] else 0):
            if chosen[i, place] >= 0:
                both[i, chosen[i, place]] = True
    for i in range(len(picked)):
        for place in range(count if picked[i] else 0):
            pairs += chosen[i, place] >= 0 and not both[chosen[i, place], i]
    for i in range(len(picked)):
        for place in range(count if picked[i] else 0):
            j = chosen[i, place]
            if j >= 0 and not both[j, i]:
                step = excess / (2.0 * pairs)
                multiplier[i, j] -= step
                multiplier[j, i] += step
    for i in range(len(picked)):
        for place in range(count if picked[i] else 0):
            if chosen[i, place] >= 0:
                both[i, chosen[i, place]] = False
    return pairs > 0


@njit(**OUTER)
def multiply(
    multiplier: Floats, weight: Floats, slope: Floats, start: Floats, nothing: Floats, inside: Any, k: int,
    labels: Ints, limits: Ints, minimums: Ints, value: float, work: float, few: int,
) -> tuple[float, float, Any]:  # fmt: skip
    """Improve the multipliers at the root: the best bound, the work left, and the candidates that better sets can have.

    It ends when the work is done, nothing can be improved, or the arrays should be made smaller.
    """
    n = len(weight)
    u, chosen, order = np.zeros(n), np.full((n, max(k - 1, 1)), EMPTY), np.zeros(n, np.int64)
    best, who, both = np.empty(k), np.empty(k, np.int64), np.zeros((n, n), np.bool_)
    counts = np.zeros(max(labels.max() + 2, minimums.shape[1]), np.int64)
    picked, trial = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    free = ~inside
    bound, factor, calm, count = np.inf, 1.0, 0, k - 1 - inside.sum()
    size = inside.sum()
    while work > 0.0:
        work -= (n + 20.0) * PARTS * n
        evaluate_node(multiplier, weight, slope, start, nothing, inside, free, k, u, chosen, best, who)
        least = worth_of_nothing(nothing, inside, free, k, best)
        total, smallest = bound_of_node(
            u, least, inside, free, k, labels, limits, minimums, counts, order, picked, trial
        )
        left = size
        for i in range(n):
            if free[i] and total - smallest + u[i] <= value:
                free[i] = False
            left += free[i]
        calm = 0 if total < bound else calm + 1
        bound = min(bound, total)
        if calm >= PATIENCE:
            factor, calm = factor * CALMER, 0
        if bound <= value or left <= SHRINK * n or left <= few or factor < 0.01:
            break
        if not _step(multiplier, picked, chosen, count, factor * (total - value), both):
            break
    return bound, work, free
