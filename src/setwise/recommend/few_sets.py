"""Where there are few feasible sets, evaluating all of them is the proof.

A model of some dozens of items, such as the parts of a product or a portfolio of solvers, has fewer feasible sets than
branch and bound visits nodes. Let n be the number of free items and q the places that are left. There are at most

    Σ_{s ≤ q} C(n, s)        sets by their size, and
    Π_labels Σ_{t ≤ u} C(n_label, t)        by a group whose labels may have u members each,

and the smallest of these numbers counts. A set of k items has k² weights a head.
"""

from __future__ import annotations

import math

import numpy as np

from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.exhaustive import MAX_SETS, count_sets

SET_MS, WEIGHT_MS = 3e-4, 6e-5  # one set, and one weight of it; measured on GB1: 160,000 sets of 160 weights in 1.6 s
MOST = 10**9  # counting ends there


def most_sets(instance: Instance, constraints: Constraints) -> int:
    """At least the number of feasible sets; ``MOST`` if there may be more than that."""
    free = constraints.open.copy()
    free[constraints.pinned] = False
    places = min(constraints.k - len(constraints.pinned), int(free.sum()))
    counts = [_sets_up_to(int(free.sum()), places)]
    for labels, limit in zip(constraints.labels, constraints.limits, strict=True):
        _, sizes = np.unique(labels[free], return_counts=True)
        if (labels[free] >= 0).all():
            counts.append(_product([_sets_up_to(int(size), min(int(limit), places)) for size in sizes]))
    return min(counts)


def enumeration_ms(instance: Instance, constraints: Constraints) -> float:
    """About how long it takes to evaluate all feasible sets; infinite where exhaustive search refuses to."""
    if count_sets(constraints, int(constraints.open.sum()) - len(constraints.pinned)) > MAX_SETS:
        return math.inf
    weights = instance.heads * min(constraints.k, instance.m) ** 2
    return most_sets(instance, constraints) * (SET_MS + WEIGHT_MS * weights)


def _sets_up_to(n: int, size: int) -> int:
    """Σ_{s ≤ size} C(n, s), at most ``MOST``."""
    total = 0
    for s in range(min(size, n) + 1):
        total += math.comb(n, s)
        if total >= MOST:
            return MOST
    return total


def _product(numbers: list[int]) -> int:
    """The product, at most ``MOST``."""
    total = 1
    for number in numbers:
        total = min(total * number, MOST)
    return total
