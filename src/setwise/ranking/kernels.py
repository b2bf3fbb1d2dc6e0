"""The compiled inner loops of the rankers.

Reward functions are passed as a ``RewardTable``: a code, three parameters, knots. Attention sums are those of a
streaming softmax: for each chosen item i and head h a running maximum M, D = Σ_j e^(l_ij − M) and
N = Σ_j e^(l_ij − M) s_j, rescaled for every larger logit. So sums over any subset are right for logits of any size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from setwise._types import Floats, Ints
from setwise.kernels.copy import copy_entries
from setwise.kernels.options import FAST, INNER, NO_ITEM, OUTER, ZERO, njit
from setwise.kernels.rewards import logistic_32, table_value
from setwise.kernels.softmax import ONE, add_weight

SMALLEST_WEIGHT = 1e-305  # below every positive weight: makes 0/0, no attention at all, 0
LARGEST_RATIO = np.float32(1e30)


@njit(**OUTER)
def _add_member(
    state: Floats, path: Ints, depth: int, logit: Floats, score: Floats, sink_logit: Floats, sink_score: Floats
) -> None:
    """state[depth + 1]: the sums of the first ``depth + 1`` members of the path, from those of the first ``depth``."""
    member = path[depth]
    for h in range(score.shape[0]):
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


@njit(**OUTER)
def _averages(state: Floats, path: Ints, depth: int, base: Floats, average: Floats) -> None:
    """a_i of the first ``depth`` members of the path, into ``average``."""
    for place in range(depth):
        average[place] = base[path[place]]
        for h in range(state.shape[2]):
            if state[depth, place, h, 2] > 0:
                average[place] += state[depth, place, h, 1] / state[depth, place, h, 2]


@njit(**OUTER)
def _next_member(
    open_rows: Any, cursor: Ints, depth: int, labels: Ints, limits: Ints, counts: Ints, cost: Floats, most: Floats,
    spent: Floats,
) -> int:  # fmt: skip
    """The next open candidate at this depth that keeps every upper limit, or −1."""
    while cursor[depth] < len(open_rows):
        candidate = open_rows[cursor[depth]]
        cursor[depth] += 1
        allowed = True
        for group in range(len(labels)):
            label = labels[group, candidate]
            allowed = allowed and not (label >= 0 and counts[group, label] >= limits[group])
        for r in range(len(cost)):
            allowed = allowed and spent[depth, r] + cost[r, candidate] <= most[r]
        if allowed:
            return candidate  # type: ignore[no-any-return]  # compiled, an int64 is an int
    return -1


@njit(**OUTER)
def _count_member(labels: Ints, counts: Ints, member: int, change: int) -> None:
    """Add ``change`` to the counts of the member's labels."""
    for group in range(len(labels)):
        if labels[group, member] >= 0:
            counts[group, labels[group, member]] += change


@njit(**OUTER)
def _keeps_minimums(minimums: Ints, counts: Ints) -> bool:
    """Whether the counts reach every lower limit."""
    for group in range(len(minimums)):
        for label in range(minimums.shape[1]):
            if counts[group, label] < minimums[group, label]:
                return False
    return True


@njit(**OUTER)
def best_subset(
    logit: Floats,
    score: Floats,
    base: Floats,
    sink_logit: Floats,
    sink_score: Floats,
    code: Ints,
    parameter: Floats,
    first_knot: Ints,
    knot: Floats,
    reward_class: Any,
    reward_weight: Floats,
    pinned: Any,
    open_rows: Any,
    labels: Ints,
    limits: Ints,
    minimums: Ints,
    cost: Floats,
    least: Floats,
    most: Floats,
    counts: Ints,
    k: int,
) -> tuple[Any, int, bool]:
    """Evaluate every feasible set once, depth first: the best, their number, and whether all values were finite.

    state[d] holds, for the set of the first d members of the path, the sums of each member: adding a member copies
    them and updates d of them, so one set costs O(H d). ``path`` holds the members; ``cursor[d]`` is the place in
    ``open_rows`` to try next at depth d. ``counts`` (G, labels) is scratch space, zero on entry.
    """
    fixed, depth = len(pinned), ZERO
    state, average = np.empty((k + 1, k, score.shape[0], 3)), np.empty(k)
    path, best, spent = np.empty(k, np.int64), np.empty(k, np.int64), np.zeros((k + 1, len(cost)))
    cursor = np.zeros(k + 1, np.int64)
    best_value, best_size, visited, finite = -np.inf, 0, 0, True
    while True:
        # Descend: the next member is a pinned one, or the next open candidate that keeps every limit.
        member = NO_ITEM
        if depth < fixed:
            member = pinned[depth]
        elif depth < k:
            member = _next_member(open_rows, cursor, depth, labels, limits, counts, cost, most, spent)
        if member < 0:
            depth -= 1
            if depth < fixed:
                break
            _count_member(labels, counts, path[depth], -1)
            continue
        path[depth] = member
        _count_member(labels, counts, member, 1)
        _add_member(state, path, depth, logit, score, sink_logit, sink_score)
        reached = True
        for r in range(len(cost)):
            spent[depth + 1, r] = spent[depth, r] + cost[r, member]
            reached = reached and spent[depth + 1, r] >= least[r]
        depth += 1
        cursor[depth] = cursor[depth - 1] if depth > fixed else 0
        if depth < fixed or not reached or not _keeps_minimums(minimums, counts):
            continue
        value = 0.0
        _averages(state, path, depth, base, average)
        for place in range(depth):
            reward = table_value(code, parameter, first_knot, knot, reward_class[path[place]], average[place])
            value += reward_weight[path[place]] * reward
        visited += 1
        finite = finite and math.isfinite(value)
        if value > best_value or best_size == 0:  # NaN is never greater
            best_value, best_size = value, depth
            copy_entries(best, path, depth)
    return best[:best_size], visited, finite


# --- one set and all its neighbours, for swap search: weights are those of ``Instance.weight`` ---
# These take arrays, not the tuples of swap_kernels.py: passing thirty arrays costs more than the loops themselves.


@njit(**INNER)
def sums_without(
    weight: Floats, score: Floats, sink: Floats, i: int, members: Ints, size: int, leaving: int, sums: Floats
) -> None:
    """N_i and D_i over the members without number ``leaving``, into sums (2, H)."""
    for h in range(len(score)):
        n, d = sink[0, h, i], sink[1, h, i]
        for place in range(size):
            if place != leaving:
                w = weight[i, h, members[place]]
                n += w * score[h, members[place]]
                d += w
        sums[0, h], sums[1, h] = n, d


@njit(**INNER, fastmath=FAST, inline="always")
def _average(n: float, d: float, weight: float, score: float) -> float:
    """(N + w s) / (D + w)."""
    return (n + weight * score) / max(d + weight, SMALLEST_WEIGHT)


@njit(**INNER, fastmath=FAST)
def averages_with_each(weight: Floats, i: int, score: Floats, base: float, sums: Floats, argument: Floats) -> None:
    """a_i of member i with each candidate added, into ``argument``."""
    argument[:] = base
    for h in range(len(score)):
        n, d, w, s = sums[0, h], sums[1, h], weight[i, h], score[h]
        for c in range(len(argument)):
            argument[c] += _average(n, d, w[c], s[c])


@njit(**INNER, fastmath=FAST)
def logistics_with_each(
    weight: Any, i: int, score: Any, scale: float, bias: float, height: float, sums: Floats, argument: Any, total: Any
) -> None:
    """Add member i's logistic reward times ``height`` with each candidate added to ``total``, in single precision.

    With r = w / D the average becomes A + (s − A) r / (1 + r), A = N / D: safe for any D. Arguments of up to 60 in size
    are right within about 1e-6. The chosen set is valued again in double precision: a smaller improvement may be
    missed, but no wrong value is returned. ``argument`` is zero on entry and on return.
    """
    last = len(score) - 1
    for h in range(last):
        average, inverse, w, s = average_32(sums, h), inverse_32(sums, h), weight[i, h], score[h]
        for c in range(len(total)):
            r = min(w[c] * inverse, LARGEST_RATIO)
            argument[c] += average + (s[c] - average) * (r / (ONE + r))
    average, inverse, w, s = average_32(sums, last), inverse_32(sums, last), weight[i, last], score[last]
    slope, offset, most = np.float32(scale), np.float32(bias), np.float32(height)
    for c in range(len(total)):
        r = min(w[c] * inverse, LARGEST_RATIO)
        a = argument[c] + average + (s[c] - average) * (r / (ONE + r))
        total[c] += most * logistic_32(slope * a + offset)
    if last > 0:
        argument[:] = 0.0


@njit(**INNER)
def average_32(sums: Floats, h: int) -> Any:
    """N / D in single precision."""
    return np.float32(sums[0, h] / max(sums[1, h], SMALLEST_WEIGHT))


@njit(**INNER)
def inverse_32(sums: Floats, h: int) -> Any:
    """1 / D in single precision, at most ``LARGEST_RATIO``."""
    return np.float32(min(1.0 / max(sums[1, h], SMALLEST_WEIGHT), float(LARGEST_RATIO)))


@njit(**INNER, fastmath=FAST)
def candidate_averages(front: Floats, back: Floats, after: int, own: Floats, score: Floats, argument: Floats) -> None:
    """Add each candidate's average over the members before and after the leaving one and itself to ``argument``."""
    for h in range(len(score)):
        front_n, front_d, back_n, back_d = front[0, h], front[1, h], back[after, 0, h], back[after, 1, h]
        w, s = own[h], score[h]
        for c in range(len(argument)):
            argument[c] += _average(front_n[c] + back_n[c], front_d[c] + back_d[c], w[c], s[c])


@njit(**INNER, fastmath=FAST)
def add_attention(received: Floats, score: Floats, j: int, sums: Floats) -> None:
    """Add the attention of every candidate to member j to sums (2, H, m) of numerators and denominators."""
    for h in range(len(score)):
        numerator, denominator, w, s = sums[0, h], sums[1, h], received[j, h], score[h, j]
        for c in range(len(w)):
            numerator[c] += w[c] * s
            denominator[c] += w[c]
