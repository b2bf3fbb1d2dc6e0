"""The compiled bounds of one item: how high its average can rise, given who is in and who may join.

A node of the search has members P, candidates C and q places to fill, so that |S| = |P| + q exactly. For an item i of
P ∪ C the company T ⊂ C is free but for its size e (q for a member, q − 1 for a candidate). In one head

    a_i = (N + Σ_{j∈T} w_ij s_j) / (D + Σ_{j∈T} w_ij),     N, D: the sums over P ∪ {i} and the sink,

and a_i ≤ α for every T  ⟺  h(α) = N − αD + (sum of the e largest w_ij (s_j − α)) ≤ 0. Dinkelbach's method raises α
until h(α) ≤ 0; that last test is the certificate, whatever rounding did on the way. Heads are bounded one by one and
added.

Weights are those of ``Instance.weight``. A row of logits that spans more than e^600 is *wide*: its weights are not all
told apart in doubles, and its average is bounded by the largest score it may meet.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from setwise._types import Floats, Ints, Mask

LARGEST_EXPONENT = 709.782712893384  # e to it is the largest double
NUMERATOR, DENOMINATOR, PEAK = 0, 1, 2  # columns of Node.sums
SINK, LEAST, PAD, SHARE = 0, 1, 2, 3  # columns of Problem.head
HUGE, ABYSS = 1e290, -1e280  # rewards beyond these count as these: a sum that holds a HUGE one stays beyond HUGE / 2

# For functions that only compiled ones call: no door for Python, which would take longer to compile than they do.
INNER: dict[str, Any] = {
    "cache": True, "nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip


class Problem(NamedTuple):
    """An instance and its group limits as arrays, all read-only and in row order."""

    logit: Floats  # (H, m, m)
    weight: Floats  # (H, m, m)
    score: Floats  # (H, m)
    sink_logit: Floats  # (H, m), −∞ without a sink
    sink_weight: Floats  # (H, m)
    wide: Mask  # (H, m)
    head: Floats  # (H, 4): the sink's score, the least average there can be, outward rounding: absolute and relative
    base: Floats  # (m, 2): the self term, and its outward rounding
    reward: Floats  # (τ, 7): code, three parameters, first knot and the one after the last, relative outward rounding
    knot: Floats  # (knots, 2)
    reward_class: Ints  # (m,)
    labels: Ints  # (G, m)
    limits: Ints  # (G,)
    heads_in_order: Ints  # (H,) the heads whose highest member is branched on, in this order


class Node(NamedTuple):
    """Space to work on one node; its rows r are the members, then the candidates."""

    item: Ints  # (R,) the candidate of the instance in each row
    weight: Floats  # (R, H, m)
    score: Floats  # (H, m)
    sums: Floats  # (R, H, 3): N, D and the bound on the average
    single: Floats  # (R,) bound on the reward
    fresh: Mask  # (R,) whether the row was bounded in this node
    ceiling: Floats  # (H,) the highest score in the node
    local: Ints  # (m,) the row of a candidate of the instance, −1: none
    known: Floats  # (k + 1, m, H + 1) for each size of set what holds everywhere: ``single`` and the averages
    known_order: Ints  # (k + 1, m) by that, largest first
    pair: Floats  # (R, m) bound on the reward of row r with candidate c in the set
    key: Floats  # (m,) to sort by
    about: Floats  # (m, 5): what is known of a candidate, see pair_kernels.py
    alive: Mask  # (m,)
    best: Floats  # (4, k + 1): three to work with, and the q largest ``single``
    who: Ints  # (k + 1,)
    chord: Floats  # (3, KNOTS): values of α, h with the e best, h with the e − 1 best
    order: Ints  # (m,) candidates in the order they are branched on
    by_single: Ints  # (m,) candidates by ``single``, best first
    place: Ints  # (m,) where in ``order`` a candidate stands


@njit(**INNER)
def reward_above(reward: Floats, knot: Floats, c: int, x: float) -> float:
    """f(x) for function c of the table, rounded upwards: by more than its own error and that of a sum of k rewards."""
    code, scaled, bias = int(reward[c, 0]), reward[c, 1] * x, reward[c, 2]
    z = scaled + bias + 1e-15 * (abs(scaled) + abs(bias))
    if code == 0:
        small = math.exp(-abs(z))
        value = (1.0 if z >= 0.0 else small) / (1.0 + small)
    elif code == 1:
        value = z
    elif code == 2:
        value = max(z, 0.0)
    elif code == 3:
        value = z if z >= 0 else reward[c, 3] * z
    elif code == 4:
        value = math.tanh(z)
    elif code == 5:
        value = max(z, 0.0) + math.log1p(math.exp(-abs(z)))
    elif code == 6:
        value = np.inf if z > LARGEST_EXPONENT else math.exp(z)
        if reward[c, 1] < 0:
            value = -value
    elif code == 7:
        value = _interpolated(knot, int(reward[c, 4]), int(reward[c, 5]), x)
    else:
        value = reward[c, 1]
    return float(max(ABYSS, min(HUGE, value + reward[c, 6] * abs(value))))


@njit(**INNER)
def _interpolated(knot: Floats, first: int, last: int, x: float) -> float:
    if x <= knot[first, 0]:
        return float(knot[first, 1])
    for right in range(first + 1, last):
        if x < knot[right, 0]:
            low, high = knot[right - 1, 1], knot[right, 1]
            share = (x - knot[right - 1, 0]) / (knot[right, 0] - knot[right - 1, 0])
            return float(min(low + share * (high - low) + 1e-14 * (abs(low) + abs(high)), high))
    return float(knot[last - 1, 1])


@njit(**INNER)
def argument_below(reward: Floats, knot: Floats, c: int, low: float, high: float, need: float) -> float:
    """An x in [low, high] with f(x) ≤ need, nearly as large as there is; low where there is none."""
    if not reward_above(reward, knot, c, low) <= need:
        return low
    top = high
    for _ in range(100):
        if high - low <= 0.01 * (top - high):
            break
        middle = 0.5 * (low + high)
        if reward_above(reward, knot, c, middle) <= need:
            low = middle
        else:
            high = middle
    return low


@njit(**INNER)
def padded(x: float, head: Floats, h: int) -> float:
    """An average of head h, rounded outwards."""
    return float(x + 3.0 * (head[h, PAD] + head[h, SHARE] * abs(x)))


@njit(**INNER)
def set_value(problem: Any, chosen: Any, size: int) -> tuple[float, float]:
    """F of the first ``size`` of ``chosen`` and Σ |f_i|, from the logits themselves."""
    value, magnitude = 0.0, 0.0
    for place in range(size):
        i = chosen[place]
        a = problem.base[i, 0]
        for h in range(problem.score.shape[0]):
            top = problem.sink_logit[h, i]
            for other in range(size):
                top = max(top, problem.logit[h, i, chosen[other]])
            if top == -np.inf:
                continue
            denominator = math.exp(problem.sink_logit[h, i] - top)
            numerator = denominator * problem.head[h, SINK]
            for other in range(size):
                weight = math.exp(problem.logit[h, i, chosen[other]] - top)
                numerator += weight * problem.score[h, chosen[other]]
                denominator += weight
            a += numerator / denominator
        reward = reward_above(problem.reward, problem.knot, problem.reward_class[i], a)
        value += reward
        magnitude += abs(reward)
    return value, magnitude


@njit(**INNER)
def top_terms(
    weight: Floats, score: Floats, n: int, skip: int, alpha: float, e: int, best: Floats, who: Any, again: bool
) -> None:
    """The e largest w_j (s_j − α), j ≠ skip, into ``best`` in falling order, and whose they are into ``who``.

    ``again``: ``who`` holds the winners at another α. The least of their terms now is a bar that saves most insertions.
    """
    if e == 0:
        return
    least = np.inf if again else -np.inf
    for place in range(e):
        if again:
            least = min(least, weight[who[place]] * (score[who[place]] - alpha))
        best[place] = -np.inf
    bar = least
    for j in range(n):
        term = weight[j] * (score[j] - alpha)
        if term >= bar and term > best[e - 1] and j != skip:
            place = e - 1
            while place > 0 and best[place - 1] < term:
                best[place] = best[place - 1]
                who[place] = who[place - 1]
                place -= 1
            best[place] = term
            who[place] = j


@njit(**INNER)
def highest_average(
    weight: Floats, score: Floats, n: int, skip: int, sums: Floats, e: int, ceiling: float, head: Floats, h: int,
    best: Floats, who: Any,
) -> float:  # fmt: skip
    """An α with h(α) ≤ 0: no company of e candidates lifts the average above it. At most ``ceiling``."""
    numerator, denominator, growth = sums[NUMERATOR], sums[DENOMINATOR], 1.0
    alpha = numerator / denominator if denominator > 0 else 0.0  # who attends to nothing averages 0
    if e > 0 and denominator > 0:  # one good companion is most of the way where attention is sharp
        for j in range(n):
            if j != skip:
                alpha = max(alpha, (numerator + weight[j] * score[j]) / (denominator + weight[j]))
    for step in range(60):
        if alpha >= ceiling:
            break
        top_terms(weight, score, n, skip, alpha, e, best, who, step > 0)
        excess = numerator - alpha * denominator
        above, below = numerator, denominator
        for place in range(e):
            excess += best[place]
            above += weight[who[place]] * score[who[place]]
            below += weight[who[place]]
        if excess <= 0.0 and (step > 0 or denominator <= 0):
            return alpha
        reached = above / below
        if step > 0:  # the first guess may have been too high
            reached = max(reached, alpha)
        alpha = reached + growth * (head[h, PAD] + head[h, SHARE] * abs(reached))
        growth *= 2.0
    return ceiling


@njit(**INNER)
def insert(best: Floats, e: int, value: float) -> None:
    """Keep the e largest values in falling order."""
    if value > best[e - 1]:
        place = e - 1
        while place > 0 and best[place - 1] < value:
            best[place] = best[place - 1]
            place -= 1
        best[place] = value


@njit(**INNER)
def bound_item(problem: Any, node: Any, p: int, n: int, q: int, r: int) -> None:
    """Fill ``weight``, ``sums`` and ``single`` of row r, by no more than is known of it already."""
    i, known = node.item[r], node.known[p + q, node.item[r]]
    a = problem.base[i, 0] + problem.base[i, 1]
    e, skip = (q, -1) if r < p else (q - 1, r - p)
    for h in range(problem.score.shape[0]):
        row, weight = problem.weight[h, i], node.weight[r, h]
        for c in range(n):
            weight[c] = row[node.item[p + c]]
        below = problem.sink_weight[h, i]
        above = below * problem.head[h, SINK]
        for other in range(p):
            below += row[node.item[other]]
            above += row[node.item[other]] * problem.score[h, node.item[other]]
        if r >= p:
            below += row[i]
            above += row[i] * problem.score[h, i]
        sums = node.sums[r, h]
        sums[NUMERATOR], sums[DENOMINATOR] = above, below
        peak = node.ceiling[h] if below > 0 else max(node.ceiling[h], 0.0)
        if not problem.wide[h, i]:
            peak = highest_average(
                weight, node.score[h], n, skip, sums, e, peak, problem.head, h, node.best[1], node.who
            )
        sums[PEAK] = min(padded(peak, problem.head, h), known[h + 1])
        a += sums[PEAK]
    node.single[r] = min(reward_above(problem.reward, problem.knot, problem.reward_class[i], a), known[0])
    node.fresh[r] = True


@njit(**INNER)
def gather(problem: Any, node: Any, p: int, n: int) -> None:
    """The scores of the candidates side by side, and the highest score anybody may meet in each head."""
    item, ceiling = node.item, node.ceiling
    for h in range(problem.score.shape[0]):
        ceiling[h] = -np.inf
        for r in range(p + n):
            ceiling[h] = max(ceiling[h], problem.score[h, item[r]])
            if problem.sink_weight[h, item[r]] > 0:
                ceiling[h] = max(ceiling[h], problem.head[h, SINK])
        for c in range(n):
            node.score[h, c] = problem.score[h, item[p + c]]


@njit(**INNER)
def bound_items(problem: Any, node: Any, p: int, n: int, q: int) -> None:
    """Bound the members and those candidates that may be among the q best; of the others what is known will do.

    The q largest ``single`` are the same as if all had been bounded: candidates are taken in the order of what is
    known, until that falls below the q-th best found.
    """
    gather(problem, node, p, n)
    for i in range(problem.score.shape[1]):
        node.local[i] = -1
    for c in range(n):
        node.local[node.item[p + c]] = c
    for r in range(p):
        bound_item(problem, node, p, n, q, r)
    best, order = node.best[3], node.known_order[p + q]
    for place in range(q):
        best[place] = -np.inf
    for at in range(problem.score.shape[1]):
        i = order[at]
        if node.local[i] < 0:
            continue
        r = p + node.local[i]
        known = node.known[p + q, i]
        if known[0] > best[q - 1]:
            bound_item(problem, node, p, n, q, r)
            insert(best, q, node.single[r])
            continue
        node.single[r], node.fresh[r] = known[0], False
        for h in range(problem.score.shape[0]):
            node.sums[r, h, PEAK] = known[h + 1]
            node.sums[r, h, DENOMINATOR] = 0.0


@njit(**INNER)
def remember(node: Any, p: int, n: int, q: int, heads: int) -> None:
    """What was found at the root holds for every node below it: those of the same size."""
    for c in range(n):
        known = node.known[p + q, node.item[p + c]]
        known[0] = node.single[p + c]
        for h in range(heads):
            known[h + 1] = node.sums[p + c, h, PEAK]


@njit(**INNER)
def rest_without(single: Floats, best: Floats, p: int, q: int, r: int) -> float:
    """What all others add at most when row r is in the set: added up, for a difference would lose digits."""
    total, skipped = 0.0, r < p
    for other in range(p):
        if other != r:
            total += single[other]
    for place in range(q):
        if not skipped and (place == q - 1 or best[place] == single[r]):
            skipped = True
        else:
            total += best[place]
    return total
