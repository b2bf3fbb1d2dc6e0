"""Compiled upper bounds on the attention average and the reward of one item in a node of the search.

A node has members P, candidates C and q places to fill: it stands for the sets S = P ∪ R with R ⊂ C, |R| = q. For an
item i of P ∪ C, let T ⊂ C be the other added items. Their number e is q if i is a member, q − 1 if i is a candidate.
In one head

    a_i = (N + Σ_{j∈T} w_ij s_j) / (D + Σ_{j∈T} w_ij),     N, D: the sums over P ∪ {i} and the sink,

and a_i ≤ α for every T  ⟺  h(α) = N − αD + (sum of the e largest w_ij (s_j − α)) ≤ 0. Dinkelbach's method raises α
until h(α) ≤ 0. That last test proves the bound, whatever rounding occurred before it. Heads are bounded separately and
added.

Weights are those of ``Instance.weight``. A row of logits that spans more than 600 is *wide*: doubles cannot represent
all its weights, and its average is bounded by the largest score that the row may attend to.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Ints, Mask
from setwise.kernels.largest import keep_largest
from setwise.kernels.options import INNER, njit
from setwise.kernels.rewards import family_value

NUMERATOR, DENOMINATOR, PEAK = 0, 1, 2  # columns of Node.sums
SINK, LEAST, PAD, SHARE = 0, 1, 2, 3  # columns of InstanceArrays.head
HUGE, LOWEST = 1e290, -1e280  # rewards are clipped to these: a sum with one HUGE term stays above HUGE / 2
INTERPOLATION = 1e-14  # relative upward rounding of interpolated rewards


class InstanceArrays(NamedTuple):
    """An instance and its group limits as arrays, all read-only and in row order."""

    logit: Floats  # (H, m, m)
    weight: Floats  # (H, m, m)
    score: Floats  # (H, m)
    sink_logit: Floats  # (H, m), −∞ without a sink
    sink_weight: Floats  # (H, m)
    wide: Mask  # (H, m)
    head: Floats  # (H, 4): the sink's score, the smallest possible average, upward rounding: absolute and relative
    base: Floats  # (m, 2): the self term, and its upward rounding
    reward: Floats  # (τ, 7): code, three parameters, first knot and the one after the last, relative upward rounding
    knot: Floats  # (knots, 2)
    reward_class: Ints  # (m,)
    worth: Floats  # (m, 3): ω_i, δ_i and its upward rounding: a reward y of item i counts ω_i y + δ_i
    labels: Ints  # (G, m)
    limits: Ints  # (G,)
    cost: Floats  # (R, m) numbers whose sums are limited
    ends: Floats  # (4, R): least and most of sets that keep a limit for certain; of those that may keep it
    constant: Floats  # (1,) F(S) ≤ what the members of S count and this constant, for every S that keeps the sums
    heads_in_order: Ints  # (H,) the heads whose highest member is branched on, in this order


class NodeWorkspace(NamedTuple):
    """Scratch arrays for one node; its rows r are the members, then the candidates."""

    item: Ints  # (R,) the candidate of the instance in each row
    weight: Floats  # (R, H, m)
    score: Floats  # (H, m)
    sums: Floats  # (R, H, 3): N, D and the bound on the average
    single: Floats  # (R,) bound on the reward
    fresh: Mask  # (R,) whether the row's bound was computed in this node
    ceiling: Floats  # (H,) the highest score in the node
    local: Ints  # (m,) the row of a candidate of the instance, −1: none
    known: Floats  # (k + 1, m, H + 1) for each set size, bounds of the root: ``single`` and the averages
    known_order: Ints  # (k + 1, m) the candidates by known ``single``, largest first
    pair: Floats  # (R, m) bound on the reward of row r with candidate c in the set
    key: Floats  # (m,) sort keys
    given_candidate: Floats  # (m, 5): bounds for sets with candidate c; columns in pair_bounds.py
    alive: Mask  # (m,)
    best: Floats  # (4, k + 1): three scratch rows, and the q largest ``single``
    who: Ints  # (k + 1,)
    chord: Floats  # (3, KNOTS): values of α, h with the e best, h with the e − 1 best
    order: Ints  # (m,) candidates in the order they are branched on
    by_single: Ints  # (m,) candidates by ``single``, best first
    place: Ints  # (m,) index of a candidate in ``order``


@njit(**INNER)
def reward_upper(reward: Floats, knot: Floats, c: int, x: float) -> float:
    """f(x) for function c of the table, rounded upwards by more than its own error and that of a sum of k rewards.

    z = scale·x + bias is rounded in the direction that raises f: downwards for a negative scale, where f falls with z.
    NaN, the value of an unknown code, is returned as HUGE, so that nothing is proven.
    """
    scaled, bias = reward[c, 1] * x, reward[c, 2]
    error = 1e-15 * (abs(scaled) + abs(bias))
    z = scaled + bias + (error if reward[c, 1] >= 0.0 else -error)
    value = family_value(
        np.int64(reward[c, 0]), reward[c, 1], bias, reward[c, 3], knot, np.int64(reward[c, 4]), np.int64(reward[c, 5]),
        x, z, INTERPOLATION,
    )  # fmt: skip
    raised = value + reward[c, 6] * abs(value)
    return float(max(LOWEST, raised)) if raised < HUGE else HUGE


@njit(**INNER)
def worth_upper(data: Any, i: int, x: float) -> float:
    """ω_i f_i(x) + δ_i, rounded upwards likewise."""
    value = reward_upper(data.reward, data.knot, data.reward_class[i], x)
    counted = data.worth[i, 0] * value + data.worth[i, 1] + data.worth[i, 2]
    return float(max(LOWEST, counted)) if value < HUGE and counted < HUGE else HUGE


@njit(**INNER)
def argument_below(data: Any, i: int, low: float, high: float, need: float) -> float:
    """An x in [low, high] at which item i counts at most ``need``, close to the largest; ``low`` if there is none."""
    if not worth_upper(data, i, low) <= need:
        return low
    top = high
    for _ in range(100):
        if high - low <= 0.01 * (top - high):
            break
        middle = 0.5 * (low + high)
        if worth_upper(data, i, middle) <= need:
            low = middle
        else:
            high = middle
    return low


@njit(**INNER)
def padded(x: float, head: Floats, h: int) -> float:
    """An average of head h, rounded upwards."""
    return float(x + 3.0 * (head[h, PAD] + head[h, SHARE] * abs(x)))


@njit(**INNER)
def set_value(data: Any, chosen: Any, size: int) -> tuple[float, float]:
    """F of the first ``size`` of ``chosen`` and Σ |ω_i f_i|, computed from the logits; δ does not count."""
    value, magnitude = 0.0, 0.0
    for place in range(size):
        i = chosen[place]
        a = data.base[i, 0]
        for h in range(data.score.shape[0]):
            top = data.sink_logit[h, i]
            for other in range(size):
                top = max(top, data.logit[h, i, chosen[other]])
            if top == -np.inf:
                continue
            denominator = math.exp(data.sink_logit[h, i] - top)
            numerator = denominator * data.head[h, SINK]
            for other in range(size):
                weight = math.exp(data.logit[h, i, chosen[other]] - top)
                numerator += weight * data.score[h, chosen[other]]
                denominator += weight
            a += numerator / denominator
        reward = data.worth[i, 0] * reward_upper(data.reward, data.knot, data.reward_class[i], a)
        value += reward
        magnitude += abs(reward)
    return value, magnitude


@njit(**INNER)
def top_terms(
    weight: Floats, score: Floats, n: int, skip: int, alpha: float, e: int, best: Floats, who: Any, again: bool
) -> None:
    """Write the e largest w_j (s_j − α), j ≠ skip, to ``best`` in descending order, and their indices j to ``who``.

    ``again``: ``who`` holds the indices for another α. The smallest of their terms at this α is a threshold that saves
    most insertions.
    """
    if e == 0:
        return
    least = np.inf if again else -np.inf
    for place in range(e):
        if again:
            least = min(least, weight[who[place]] * (score[who[place]] - alpha))
        best[place] = -np.inf
    threshold = least
    for j in range(n):
        term = weight[j] * (score[j] - alpha)
        if term >= threshold and term > best[e - 1] and j != skip:
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
    """An α with h(α) ≤ 0: no e candidates raise the average above it. At most ``ceiling``."""
    numerator, denominator, growth = sums[NUMERATOR], sums[DENOMINATOR], 1.0
    alpha = numerator / denominator if denominator > 0 else 0.0  # an item that attends to nothing has average 0
    if e > 0 and denominator > 0:  # where attention is sharp, one added item nearly reaches the maximum
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
def bound_item(data: Any, node: Any, p: int, n: int, q: int, r: int) -> None:
    """Compute ``weight``, ``sums`` and ``single`` of row r, never above the bounds known from the root."""
    i, known = node.item[r], node.known[p + q, node.item[r]]
    a = data.base[i, 0] + data.base[i, 1]
    e, skip = (q, -1) if r < p else (q - 1, r - p)
    for h in range(data.score.shape[0]):
        row, weight = data.weight[h, i], node.weight[r, h]
        for c in range(n):
            weight[c] = row[node.item[p + c]]
        below = data.sink_weight[h, i]
        above = below * data.head[h, SINK]
        for other in range(p):
            below += row[node.item[other]]
            above += row[node.item[other]] * data.score[h, node.item[other]]
        if r >= p:
            below += row[i]
            above += row[i] * data.score[h, i]
        sums = node.sums[r, h]
        sums[NUMERATOR], sums[DENOMINATOR] = above, below
        peak = node.ceiling[h] if below > 0 else max(node.ceiling[h], 0.0)
        if not data.wide[h, i]:
            peak = highest_average(weight, node.score[h], n, skip, sums, e, peak, data.head, h, node.best[1], node.who)
        sums[PEAK] = min(padded(peak, data.head, h), known[h + 1])
        a += sums[PEAK]
    node.single[r] = min(worth_upper(data, i, a), known[0])
    node.fresh[r] = True


@njit(**INNER)
def gather_scores(data: Any, node: Any, p: int, n: int) -> None:
    """Copy the candidates' scores to ``score``, and the highest score of the node in each head to ``ceiling``."""
    item, ceiling = node.item, node.ceiling
    for h in range(data.score.shape[0]):
        ceiling[h] = -np.inf
        for r in range(p + n):
            ceiling[h] = max(ceiling[h], data.score[h, item[r]])
            if data.sink_weight[h, item[r]] > 0:
                ceiling[h] = max(ceiling[h], data.head[h, SINK])
        for c in range(n):
            node.score[h, c] = data.score[h, item[p + c]]


@njit(**INNER)
def bound_items(data: Any, node: Any, p: int, n: int, q: int) -> None:
    """Bound the members and the candidates that may be among the q best; the others keep the bound of the root.

    The q largest ``single`` are the same as if all rows had been bounded: candidates are visited in the order of their
    root bound, until that falls below the q-th best found.
    """
    gather_scores(data, node, p, n)
    for i in range(data.score.shape[1]):
        node.local[i] = -1
    for c in range(n):
        node.local[node.item[p + c]] = c
    for r in range(p):
        bound_item(data, node, p, n, q, r)
    best, order = node.best[3], node.known_order[p + q]
    for place in range(q):
        best[place] = -np.inf
    for at in range(data.score.shape[1]):
        i = order[at]
        if node.local[i] < 0:
            continue
        r = p + node.local[i]
        known = node.known[p + q, i]
        if known[0] > best[q - 1]:
            bound_item(data, node, p, n, q, r)
            keep_largest(best, q, node.single[r])
            continue
        node.single[r], node.fresh[r] = known[0], False
        for h in range(data.score.shape[0]):
            node.sums[r, h, PEAK] = known[h + 1]
            node.sums[r, h, DENOMINATOR] = 0.0


@njit(**INNER)
def store_root_bounds(node: Any, p: int, n: int, q: int, heads: int) -> None:
    """Store the bounds of a root in ``known``: they hold for every node below it, that is for sets of the same size."""
    for c in range(n):
        known = node.known[p + q, node.item[p + c]]
        known[0] = node.single[p + c]
        for h in range(heads):
            known[h + 1] = node.sums[p + c, h, PEAK]


@njit(**INNER)
def bound_of_others(single: Floats, best: Floats, p: int, q: int, r: int) -> float:
    """Upper bound on the rewards of all others when row r is in the set: a sum, because a difference loses digits."""
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
