"""Compiled branch and bound of ``competition.py``: nodes of included and open candidates, the best one first."""

from __future__ import annotations

from typing import Any

import numpy as np

from setwise._types import Floats, Ints
from setwise.bounds.competition_kernels import EMPTY, PARTS, bound_of_node, evaluate_node, logistic_64, worth_of_nothing
from setwise.kernels.heap import pop_top, push_entry
from setwise.kernels.options import INNER, OUTER, njit


@njit(**INNER)
def _value(weight: Floats, t: Floats, v: Floats, strength: float, inside: Any) -> float:
    """F of the included candidates."""
    total = 0.0
    for i in range(len(t)):
        if inside[i]:
            w = 0.0
            for j in range(len(t)):
                if inside[j]:
                    w += weight[i, j]
            total += v[i] * logistic_64(t[i] - strength * w / (1.0 + w))
    return total


@njit(**INNER)
def _keeps_minimums(inside: Any, labels: Ints, minimums: Ints, counts: Ints) -> bool:
    """Whether the included candidates keep all lower limits."""
    for group in range(len(labels)):
        counts[:] = 0
        for i in range(len(inside)):
            if inside[i] and labels[group, i] >= 0:
                counts[labels[group, i]] += 1
        for label in range(minimums.shape[1]):
            if counts[label] < minimums[min(group, len(minimums) - 1), label]:
                return False
    return True


@njit(**INNER)
def _keeps_sums(inside: Any, cost: Floats, least: Floats, most: Floats) -> bool:
    """Whether the included candidates keep all limits on sums."""
    for r in range(len(most)):
        spent = 0.0
        for i in range(len(inside)):
            spent += cost[r, i] if inside[i] else 0.0
        if spent > most[r] or spent < least[r]:
            return False
    return True


@njit(**INNER)
def _close_unfitting(inside: Any, free: Any, cost: Floats, most: Floats) -> None:
    """Close the candidates that do not fit into a sum beside the included ones."""
    for r in range(len(most)):
        spent = 0.0
        for i in range(len(inside)):
            spent += cost[r, i] if inside[i] else 0.0
        for i in range(len(inside)):
            free[i] = free[i] and spent + cost[r, i] <= most[r]


@njit(**INNER)
def _include(i: int, inside: Any, free: Any, labels: Ints, limits: Ints) -> None:
    """Include candidate i, and close those that the limits then forbid."""
    inside[i], free[i] = True, False
    for group in range(len(limits)):
        label, together = labels[group, i], 0
        if label >= 0:
            for j in range(len(inside)):
                together += inside[j] and labels[group, j] == label
            if together >= limits[group]:
                for j in range(len(inside)):
                    if labels[group, j] == label:
                        free[j] = False


@njit(**OUTER)
def branch(
    multiplier: Floats, weight: Floats, slope: Floats, start: Floats, nothing: Floats, first: Any, k: int,
    labels: Ints, limits: Ints, minimums: Ints, t: Floats, v: Floats, strength: float, value: float, bound: float,
    work: float, cost: Floats, least_spent: Floats, most_spent: Floats, shift: float,
) -> float:  # fmt: skip
    """The bound after branch and bound with these multipliers, best node first; ``value`` once that is proven best.

    ``shift`` is what the prices of sums, which the lines count, add to every bound; it is in ``value`` already.
    """
    n, most = len(weight), 4096
    u, chosen, order = np.zeros(n), np.full((n, max(k - 1, 1)), EMPTY), np.zeros(n, np.int64)
    best, who, counts = np.empty(k), np.empty(k, np.int64), np.zeros(max(labels.max() + 2, minimums.shape[1]), np.int64)
    keys, entries = np.empty(most), np.empty(most, np.int64)
    included, opened = np.zeros((most, n), np.bool_), np.zeros((most, n), np.bool_)
    inside, free = first.copy(), ~first
    picked, trial = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    included[0], opened[0] = inside, free
    keys[0], entries[0], size, used, shut = bound, 0, 1, 1, -np.inf
    spare, spared = np.empty(most, np.int64), 0
    while size > 0 and work > 0.0 and keys[0] > max(value, shut):
        total, changed = keys[0], True
        inside[:], free[:] = included[entries[0]], opened[entries[0]]
        spare[spared] = entries[0]
        size, spared = size - 1, spared + 1
        pop_top(keys, entries, size)
        while changed and work > 0.0:
            changed = False
            members, left = inside.sum(), free.sum()
            if members >= k or left == 0:
                break
            work -= (left + members + 20.0) * PARTS * (n + 20.0)
            evaluate_node(multiplier, weight, slope, start, nothing, inside, free, k, u, chosen, best, who)
            least = worth_of_nothing(nothing, inside, free, k, best)
            found, smallest = bound_of_node(
                u, least, inside, free, k, labels, limits, minimums, counts, order, picked, trial
            )
            total = min(total, found)
            if total <= value:
                break
            for i in range(n):
                if free[i] and found - smallest + u[i] <= value:
                    free[i], changed = False, True
        if total <= value:
            continue
        members = inside.sum()
        if members >= k or free.sum() == 0:
            in_sums = _keeps_sums(inside, cost, least_spent, most_spent)
            if members > 0 and in_sums and _keeps_minimums(inside, labels, minimums, counts):
                value = max(value, _value(weight, t, v, strength, inside) - shift)
            continue
        if size + 2 > most:
            shut = max(shut, total)
            continue
        pivot = order[0]
        for child in range(2):
            place = spare[spared - 1] if spared > 0 else used
            spared, used = max(spared - 1, 0), used + (spared == 0)
            included[place], opened[place] = inside, free
            if child == 0:
                opened[place, pivot] = False
            else:
                _include(pivot, included[place], opened[place], labels, limits)
                _close_unfitting(included[place], opened[place], cost, most_spent)
            push_entry(keys, entries, size, total, place)
            size += 1
    return max(value, shut, keys[0] if size > 0 else -np.inf)
