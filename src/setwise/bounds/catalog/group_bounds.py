"""Compiled bounds of whole_catalog.py: the rewards of a group and of the prefix members when the group is added.

A *group* is a cell (centre, radii, the largest scores in it) or a single item. Arrays hold one column for each group,
(H, d, G), (H, G) or (G,), so that loops over groups read neighbouring memory and vectorise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.bounds.catalog.worths import Worths, count_rewards
from setwise.kernels.copy import copy_entries
from setwise.kernels.options import FAST, INNER, njit
from setwise.kernels.rewards import add_rewards
from setwise.kernels.softmax import fast_exp

HUGE = 1e290  # rewards are clipped to ±HUGE, so that their sums stay finite
_LEAST, _MOST = -230.0, 300.0  # exponents are clipped to these: the weight e^−230 counts as 0
_TINY = 1e-100  # a positive weight whose product with a score does not underflow
TOP, NUMERATOR, DENOMINATOR = range(3)  # columns of Members.sums


class RewardArrays(NamedTuple):
    """The arrays of a ``RewardTable``."""

    code: Array
    parameter: Array
    first_knot: Array
    knot: Array


class Groups(NamedTuple):
    """Queries and keys of groups, and the radii within which the vectors of their items lie."""

    query: Array  # (H, d, G)
    key: Array  # (H, d, G)
    query_radius: Array  # (H, G), or (H, 0) for single items
    key_radius: Array
    self_low: Array  # (H, G): lower and upper bound on q_i · k_i; (H, 0) for single items
    self_high: Array
    reach: Array  # (H, G): upper bound on q_i · k_j over all items j
    reward_class: Array  # (G,)


class Members(NamedTuple):
    """The prefix C of a set: its items in order, and the softmax sums of their rows over C and the sink."""

    item: Array  # (k,)
    query: Array  # (k, H, d)
    key: Array
    score: Array  # (k, H)
    base: Array  # (k,)
    reward_class: Array  # (k,)
    worth: Array  # (k, 2): ω_i and δ_i, what a reward of the member counts for (worths.py)
    sums: Array  # (k, H, 3) the largest logit M of the row, Σ e^(l − M) s and Σ e^(l − M)
    reach: Array  # (k, H) upper bound on the logits with all items of the catalogue
    sink_key: Array  # (1, H, d), or (0, H, d) without a sink
    sink_score: Array  # (H,)


class GroupBounds(NamedTuple):
    """The results of ``bound_groups``, one column for each group, and its scratch arrays."""

    row: Array  # (6, G): REWARD to PEAK
    head: Array  # (3, H, G): MEAN, AFTER, OPEN
    weight: Array  # (2, k + 2, G) scratch: the largest and the least weight of each attended item


# REWARD  upper bound on the reward of an item of the group
# LEFT    upper bound on the rewards of the prefix members when the group is added
# BOTH    the sum of both if the group is the next member
# MEAN    the largest average over the members and itself
# AFTER   input: upper bound on the scores of members after the group
# OPEN    the largest share of weight that later members can have
# NOW, SOON, PEAK  scratch
REWARD, LEFT, BOTH, NOW, SOON, PEAK = range(6)
MEAN, AFTER, OPEN = range(3)


@njit(**INNER, fastmath=FAST)
def products(vector: Array, columns: Array, start: int, out: Array) -> None:
    """The products vector · column for len(out) columns of (d, G) from ``start`` on."""
    out[:] = 0.0
    for e in range(len(vector)):
        factor, row = vector[e], columns[e, start : start + len(out)]
        for g in range(len(out)):
            out[g] += factor * np.float64(row[g])


@njit(**INNER)
def norm(vector: Array) -> float:
    """‖vector‖."""
    square = 0.0
    for e in range(len(vector)):
        square += vector[e] * vector[e]
    return math.sqrt(square)


@njit(**INNER, fastmath=FAST)
def exponentiate(logit: Array, peak: Array) -> None:
    """Replace logits by e^(logit − peak), and by 0 below e^−230."""
    for g in range(len(logit)):
        x = logit[g] - peak[g]
        w = fast_exp(min(max(x, _LEAST), _MOST))
        logit[g] = w if x > _LEAST else 0.0


@njit(**INNER, fastmath=FAST)
def largest_average(
    found: GroupBounds, count: int, own: int, attended: Array, score: Array, exact: bool, mean: Array
) -> None:
    """The largest Σ w s / Σ w with low ≤ w ≤ high, for each group: scores above it have weight high, the others low.

    Row j of the weights belongs to the score attended[j], row ``own`` to the group's score. The first round uses the
    weights ``high``. Every further round splits the scores by the average so far, which grows up to the maximum.
    """
    size = len(mean)
    weight, weighted = found.row[NOW, :size], found.row[SOON, :size]
    for turn in range(1 if exact else count + 2):
        weight[:] = 0.0
        weighted[:] = 0.0
        for j in range(count):
            high, low, constant = found.weight[0, j], found.weight[1, j], attended[j]
            for g in range(size):
                s = score[g] if j == own else constant
                w = high[g] if turn == 0 or s > mean[g] else low[g]
                weight[g] += w
                weighted[g] += w * s
        grown = 0
        for g in range(size):
            new = weighted[g] / max(weight[g], _TINY)
            old = mean[g] if turn else -np.inf
            grown += 1 if new > old else 0
            mean[g] = max(new, old) if weight[g] > 0.0 else old
        if grown == 0:
            return


@njit(**INNER, fastmath=FAST)
def bound_averages(
    groups: Groups, score: Array, members: Members, m: int, h: int, more: int, start: int, at: int, size: int,
    found: GroupBounds,
) -> None:  # fmt: skip
    """Compute MEAN and OPEN of head h: averages over members, the group and the sink; the share of later members."""
    exact = groups.query_radius.shape[1] == 0
    own, count = m, m + 1 + (1 if len(members.sink_key) else 0)
    query, peak = groups.query[h], found.row[PEAK, :size]
    attended = np.zeros(count)
    peak[:] = -np.inf
    for j in range(count):
        high, low = found.weight[0, j, :size], found.weight[1, j, :size]
        if j == own and exact:
            high[:] = 0.0
            for e in range(len(query)):
                left, right = query[e, at : at + size], groups.key[h, e, at : at + size]
                for g in range(size):
                    high[g] += np.float64(left[g]) * np.float64(right[g])
        elif j == own:
            copy_entries(high, groups.self_high[h, at:], size)
            copy_entries(low, groups.self_low[h, at:], size)
        else:
            vector = members.key[j, h] if j < m else members.sink_key[0, h]
            attended[j] = members.score[j, h] if j < m else members.sink_score[h]
            products(vector, query, at, high)
            if not exact:
                length, radius = norm(vector), groups.query_radius[h, at : at + size]
                for g in range(size):
                    spread = np.float64(radius[g]) * length
                    low[g] = high[g] - spread
                    high[g] += spread
        for g in range(size):
            peak[g] = max(peak[g], high[g])
    for j in range(count):
        high, low = found.weight[0, j, :size], found.weight[1, j, :size]
        exponentiate(high, peak)
        if not exact:
            exponentiate(low, peak)
            for g in range(size):
                high[g] = max(high[g], _TINY)
    weight, reach = found.head[OPEN, h, :size], groups.reach[h, at : at + size]
    weight[:] = 0.0
    for j in range(count):
        low = found.weight[0 if exact else 1, j, :size]
        for g in range(size):
            weight[g] += low[g]
    for g in range(size):
        later = more * fast_exp(min(max(np.float64(reach[g]) - peak[g], _LEAST), _MOST))
        weight[g] = later / (weight[g] + later) if later > 0.0 else 0.0
    largest_average(found, count, own, attended, score[h, start : start + size], exact, found.head[MEAN, h, :size])


@njit(**INNER, fastmath=FAST)
def add_member_averages(
    groups: Groups, score: Array, members: Members, a: int, rest: Array, more: int, start: int, at: int, size: int,
    found: GroupBounds,
) -> None:  # fmt: skip
    """Add member a's largest average with each group to NOW and SOON; later members score up to ``rest`` or AFTER."""
    exact = groups.query_radius.shape[1] == 0
    logit, now, soon = found.row[PEAK, :size], found.row[NOW, :size], found.row[SOON, :size]
    for h in range(len(rest)):
        vector = members.query[a, h]
        products(vector, groups.key[h], at, logit)
        weight, weighted = members.sums[a, h, DENOMINATOR], members.sums[a, h, NUMERATOR]
        top = members.sums[a, h, TOP]
        mean, after, cap, scored = (
            weighted / weight,
            found.head[AFTER, h, :size],
            rest[h],
            score[h, start : start + size],
        )
        if not exact:
            length, radius = norm(vector), groups.key_radius[h, at : at + size]
            for g in range(size):
                spread = np.float64(radius[g]) * length
                logit[g] += spread if scored[g] > mean else -spread
        later = more * fast_exp(min(max(members.reach[a, h] - top, _LEAST), _MOST))
        # If both weights, of later members and of the group, are clipped, their ratio says nothing.
        least = 1.0 if more > 0 and members.reach[a, h] - top > _MOST else 0.0
        for g in range(size):
            w = fast_exp(min(max(logit[g] - top, _LEAST), _MOST))
            new = (weighted + w * scored[g]) / (weight + w)
            opening = max(least, later / (later + weight + (w if exact or scored[g] <= mean else 0.0)))
            now[g] += new + opening * max(cap - new, 0.0)
            soon[g] += new + opening * max(after[g] - new, 0.0)


@njit(**INNER)
def reward_groups(table: RewardArrays, reward_class: Array, argument: Array, out: Array) -> None:
    """Add f(argument) to ``out`` with each group's own function; neighbours of one class share a call."""
    first = 0
    while first < len(out):
        number, stop = reward_class[first], first + 1
        while stop < len(out) and reward_class[stop] == number:
            stop += 1
        knot = table.knot[table.first_knot[number] : table.first_knot[number + 1]]
        add_rewards(table.code[number], table.parameter[number], knot, 1.0, argument[first:stop], out[first:stop])
        first = stop


@njit(**INNER)
def reward_member(table: RewardArrays, number: int, weight: float, argument: Array, out: Array) -> None:
    """Add weight · f(argument) to ``out`` for the reward class ``number``."""
    knot = table.knot[table.first_knot[number] : table.first_knot[number + 1]]
    add_rewards(table.code[number], table.parameter[number], knot, weight, argument, out)


@njit(**INNER)
def bound_groups(
    table: RewardArrays, groups: Groups, worths: Worths, score: Array, base: Array, members: Members, m: int,
    rest: Array, more: int, start: int, at: int, size: int, found: GroupBounds,
) -> None:  # fmt: skip
    """Compute REWARD, LEFT, BOTH and MEAN for ``size`` groups from ``at`` on, in the first columns of ``found``.

    ``score`` (H, ·) and ``base`` (·,) are upper bounds, and ``worths`` those, of the groups from ``start`` on. At most
    ``more`` members follow the group. They score at most ``rest``, and at most AFTER if the group is the next member.
    """
    now, soon = found.row[NOW, :size], found.row[SOON, :size]
    left, both = found.row[LEFT, :size], found.row[BOTH, :size]
    for h in range(len(rest)):
        bound_averages(groups, score, members, m, h, more, start, at, size, found)
    copy_entries(now, base[start:], size)
    copy_entries(soon, now, size)
    for h in range(len(rest)):
        mean, after, opening = found.head[MEAN, h, :size], found.head[AFTER, h, :size], found.head[OPEN, h, :size]
        for g in range(size):
            now[g] += mean[g] + opening[g] * max(rest[h] - mean[g], 0.0)
            soon[g] += mean[g] + opening[g] * max(after[g] - mean[g], 0.0)
    found.row[REWARD, :size] = 0.0
    left[:] = 0.0
    both[:] = 0.0
    reward_groups(table, groups.reward_class[at : at + size], now, found.row[REWARD, :size])
    reward_groups(table, groups.reward_class[at : at + size], soon, both)
    count_rewards(worths, start, found.row[REWARD, :size])
    count_rewards(worths, start, both)
    for a in range(m):
        left += members.worth[a, 1]
        both += members.worth[a, 1]
        now[:] = members.base[a]
        soon[:] = members.base[a]
        add_member_averages(groups, score, members, a, rest, more, start, at, size, found)
        reward_member(table, members.reward_class[a], members.worth[a, 0], now, left)
        reward_member(table, members.reward_class[a], members.worth[a, 0], soon, both)
    clip_rewards(found.row[REWARD, :size])
    clip_rewards(left)
    clip_rewards(both)


@njit(**INNER)
def clip_rewards(values: Array) -> None:
    """Clip sums of rewards to ±HUGE; NaN (∞ − ∞, or an unknown reward code) becomes HUGE, which proves nothing."""
    for g in range(len(values)):
        values[g] = max(values[g], -HUGE) if values[g] < HUGE else HUGE
