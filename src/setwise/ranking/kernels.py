"""The compiled inner loops of the rankers.

Reward functions arrive as a ``RewardTable``: a code, three parameters, knots. Attention is summed the way a streaming
softmax is: for each chosen item i and head h a running maximum M, D = Σ_j e^(l_ij − M) and N = Σ_j e^(l_ij − M) s_j,
rescaled when a larger logit arrives. So sums over any subset are right for logits of any size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

LARGEST_EXPONENT = 709.782712893384  # e to it is the largest double

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@njit(cache=True, error_model="numpy")
def reward_value(code: int, parameter: Floats, knot: Floats, x: float) -> float:
    """f(x) for one function of a ``RewardTable``; the codes are those of rewards.py."""
    if code == 8:
        return float(parameter[0])
    if code == 7:
        if x <= knot[0, 0]:
            return float(knot[0, 1])
        for right in range(1, len(knot)):
            if x < knot[right, 0]:
                slope = (knot[right, 1] - knot[right - 1, 1]) / (knot[right, 0] - knot[right - 1, 0])
                return float(knot[right - 1, 1] + slope * (x - knot[right - 1, 0]))
        return float(knot[-1, 1])
    z = parameter[0] * x + parameter[1]
    if code == 0:
        small = math.exp(-abs(z))
        return (1.0 if z >= 0.0 else small) / (1.0 + small)
    if code == 1:
        return float(z)
    if code == 2:
        return float(max(z, 0.0))
    if code == 3:
        return float(z if z >= 0 else parameter[2] * z)
    if code == 4:
        return math.tanh(z)
    if code == 5:
        return float(max(z, 0.0)) + math.log1p(math.exp(-abs(z)))
    grown = np.inf if z > LARGEST_EXPONENT else math.exp(z)
    return float(grown if parameter[0] > 0 else -grown)


@njit(cache=True, error_model="numpy")
def add_weight(state: Floats, logit: float, score: float) -> None:
    """Add one attended item to state = (maximum, numerator, denominator)."""
    if logit == -np.inf:
        return
    if logit > state[0]:
        scale = math.exp(state[0] - logit)
        state[0] = logit
        state[1] = state[1] * scale + score
        state[2] = state[2] * scale + 1.0
    else:
        weight = math.exp(logit - state[0])
        state[1] += weight * score
        state[2] += weight


@njit(cache=True, error_model="numpy")
def best_subset(
    logit: Floats,
    score: Floats,
    base: Floats,
    sink_logit: Floats,
    sink_score: Floats,
    code: Integers,
    parameter: Floats,
    first_knot: Integers,
    knot: Floats,
    reward_class: Any,
    pinned: Any,
    open_rows: Any,
    labels: Integers,
    limits: Integers,
    counts: Integers,
    k: int,
) -> tuple[Any, int, bool]:
    """Visit every feasible set once, depth first: the best, how many there were, and whether all values were finite.

    state[d] holds, for the set of the first d members of the path, the sums of each member: adding a member copies
    them and updates d of them, so one set costs O(H d). ``path`` holds the members; ``cursor[d]`` is the place in
    ``open_rows`` to try next at depth d. ``counts`` (G, labels) is scratch space, zero on entry.
    """
    heads, groups, fixed = score.shape[0], labels.shape[0], len(pinned)
    state = np.empty((k + 1, k, heads, 3))
    path = np.empty(k, np.int64)
    cursor = np.zeros(k + 1, np.int64)
    best_value, best_size, visited, tame = -np.inf, 0, 0, True
    best = np.empty(k, np.int64)
    depth = 0
    while True:
        # Descend: the next member is a pinned one, or the next open candidate that keeps every limit.
        member = -1
        if depth < fixed:
            member = pinned[depth]
        elif depth < k:
            while cursor[depth] < len(open_rows) and member < 0:
                candidate = open_rows[cursor[depth]]
                cursor[depth] += 1
                member = candidate
                for group in range(groups):
                    label = labels[group, candidate]
                    if label >= 0 and counts[group, label] >= limits[group]:
                        member = -1
        if member < 0:
            depth -= 1
            if depth < fixed:
                break
            for group in range(groups):
                if labels[group, path[depth]] >= 0:
                    counts[group, labels[group, path[depth]]] -= 1
            continue
        path[depth] = member
        for group in range(groups):
            if labels[group, member] >= 0:
                counts[group, labels[group, member]] += 1
        for h in range(heads):
            for place in range(depth):
                i = path[place]
                state[depth + 1, place, h] = state[depth, place, h]
                add_weight(state[depth + 1, place, h], logit[h, i, member], score[h, member])
            own = state[depth + 1, depth, h]
            own[0], own[1], own[2] = sink_logit[h, member], sink_score[h], 1.0
            if sink_logit[h, member] == -np.inf:
                own[1], own[2] = 0.0, 0.0
            for place in range(depth + 1):
                add_weight(own, logit[h, member, path[place]], score[h, path[place]])
        depth += 1
        cursor[depth] = cursor[depth - 1] if depth > fixed else 0
        if depth < fixed:
            continue
        value = 0.0
        for place in range(depth):
            i = path[place]
            a = base[i]
            for h in range(heads):
                if state[depth, place, h, 2] > 0:
                    a += state[depth, place, h, 1] / state[depth, place, h, 2]
            c = reward_class[i]
            value += reward_value(code[c], parameter[c], knot[first_knot[c] : first_knot[c + 1]], a)
        visited += 1
        tame = tame and math.isfinite(value)
        if value > best_value or best_size == 0:  # NaN is never greater
            best_value, best_size = value, depth
            best[:depth] = path[:depth]
    return best[:best_size], visited, tame
