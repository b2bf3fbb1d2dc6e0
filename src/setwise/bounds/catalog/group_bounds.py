"""The compiled bounds of whole_catalog.py: what groups of items earn, and leave to others, when they join a beginning.

A *group* is a cell (centre, radii, the largest scores in it) or a single item. Arrays of groups hold a column for each,
(H, d, G), (H, G) or (G,), so that loops over groups run through neighbouring memory and are compiled to vector code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from setwise._types import Array
from setwise.bounds.catalog.score_order import INNER
from setwise.kernels.rewards import FAST, add_rewards
from setwise.kernels.rewards import _exp as fast_exp

HUGE = 1e290  # rewards beyond are taken for this, so that sums of them stay numbers
_LEAST, _MOST = -230.0, 300.0  # exponents beyond are cut off: e^−230 is nothing, e^300 everything
_NOTHING = 1e-100  # times a score it is still a number


class Table(NamedTuple):
    """The reward functions (a ``RewardTable``)."""

    code: Array
    parameter: Array
    first_knot: Array
    knot: Array


class Groups(NamedTuple):
    """Queries and keys of groups, and how far their items may lie from them."""

    query: Array  # (H, d, G)
    key: Array  # (H, d, G)
    query_radius: Array  # (H, G), or (H, 0) for single items
    key_radius: Array
    self_low: Array  # (H, G): q_i · k_i lies between these; (H, 0) for single items
    self_high: Array
    reach: Array  # (H, G): q_i · k_j is no larger, whatever the item j
    reward_class: Array  # (G,)


class Members(NamedTuple):
    """The beginning C of a set: its items in order, and the sums of their rows of attention over C and the sink."""

    item: Array  # (k,)
    query: Array  # (k, H, d)
    key: Array
    score: Array  # (k, H)
    base: Array  # (k,)
    reward_class: Array  # (k,)
    top: Array  # (k, H) the largest logit of the row
    weighted: Array  # (k, H) Σ e^(l − top) s
    weight: Array  # (k, H) Σ e^(l − top)
    reach: Array  # (k, H) the largest logit with any item of the catalogue
    sink_key: Array  # (1, H, d), or (0, H, d) without a sink
    sink_score: Array  # (H,)


class Regarded(NamedTuple):
    """What ``regard`` finds about groups (the last axis), and its scratch space."""

    row: Array  # (6, G): REWARD to PEAK
    head: Array  # (3, H, G): MEAN, LATE, OPEN
    weight: Array  # (2, k + 2, G) scratch: the largest and the least weight of each attended item


# REWARD  the most that an item of the group earns                 LEFT  the most that the members earn beside it
# BOTH    the same together, if it is the next member              NOW, SOON, PEAK  scratch
# MEAN    its average over the members and itself                  LATE  in: what members after it score at most
# OPEN    the most that later members weigh, of all
REWARD, LEFT, BOTH, NOW, SOON, PEAK = range(6)
MEAN, LATE, OPEN = range(3)


@njit(**INNER, fastmath=FAST)
def products(vector: Array, columns: Array, start: int, out: Array) -> None:
    """The products vector · column for the columns (d, G) from ``start`` on, as many as ``out`` takes."""
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
def weigh(logit: Array, peak: Array) -> None:
    """Replace logits by e^(logit − peak), zero where that is nothing."""
    for g in range(len(logit)):
        x = logit[g] - peak[g]
        w = fast_exp(min(max(x, _LEAST), _MOST))
        logit[g] = w if x > _LEAST else 0.0


@njit(**INNER, fastmath=FAST)
def average(found: Regarded, count: int, own: int, attended: Array, score: Array, exact: bool, mean: Array) -> None:
    """The largest Σ w s / Σ w with low ≤ w ≤ high, for each group: what is above it weighs most, the rest least.

    Row j of the weights weighs attended[j], but row ``own`` the group's score. From the average under the
    weights ``high`` on, every round divides the items anew by the average so far, which grows until it stays.
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
            new = weighted[g] / max(weight[g], _NOTHING)
            old = mean[g] if turn else -np.inf
            grown += 1 if new > old else 0
            mean[g] = max(new, old) if weight[g] > 0.0 else old
        if grown == 0:
            return


@njit(**INNER, fastmath=FAST)
def attend(
    groups: Groups, score: Array, members: Members, m: int, h: int, more: int, start: int, size: int, found: Regarded
) -> None:
    """MEAN and OPEN of head h: the largest averages over members, themselves and the sink; the share of later ones."""
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
                left, right = query[e, start : start + size], groups.key[h, e, start : start + size]
                for g in range(size):
                    high[g] += np.float64(left[g]) * np.float64(right[g])
        elif j == own:
            high[:], low[:] = groups.self_high[h, start : start + size], groups.self_low[h, start : start + size]
        else:
            vector = members.key[j, h] if j < m else members.sink_key[0, h]
            attended[j] = members.score[j, h] if j < m else members.sink_score[h]
            products(vector, query, start, high)
            if not exact:
                length, radius = norm(vector), groups.query_radius[h, start : start + size]
                for g in range(size):
                    spread = np.float64(radius[g]) * length
                    low[g] = high[g] - spread
                    high[g] += spread
        for g in range(size):
            peak[g] = max(peak[g], high[g])
    for j in range(count):
        high, low = found.weight[0, j, :size], found.weight[1, j, :size]
        weigh(high, peak)
        if not exact:
            weigh(low, peak)
            for g in range(size):
                high[g] = max(high[g], _NOTHING)
    weight, reach = found.head[OPEN, h, :size], groups.reach[h, start : start + size]
    weight[:] = 0.0
    for j in range(count):
        low = found.weight[0 if exact else 1, j, :size]
        for g in range(size):
            weight[g] += low[g]
    for g in range(size):
        later = more * fast_exp(min(max(np.float64(reach[g]) - peak[g], _LEAST), _MOST))
        weight[g] = later / (weight[g] + later) if later > 0.0 else 0.0
    average(found, count, own, attended, score[h, start : start + size], exact, found.head[MEAN, h, :size])


@njit(**INNER, fastmath=FAST)
def join(
    groups: Groups, score: Array, members: Members, a: int, rest: Array, more: int, start: int, size: int,
    found: Regarded,
) -> None:  # fmt: skip
    """Add to NOW and SOON what member a attends to when a group joins, with later members up to ``rest`` or LATE."""
    exact = groups.query_radius.shape[1] == 0
    logit, now, soon = found.row[PEAK, :size], found.row[NOW, :size], found.row[SOON, :size]
    for h in range(len(rest)):
        vector = members.query[a, h]
        products(vector, groups.key[h], start, logit)
        weight, weighted, top = members.weight[a, h], members.weighted[a, h], members.top[a, h]
        mean, late, cap, scored = weighted / weight, found.head[LATE, h, :size], rest[h], score[h, start : start + size]
        if not exact:
            length, radius = norm(vector), groups.key_radius[h, start : start + size]
            for g in range(size):
                spread = np.float64(radius[g]) * length
                logit[g] += spread if scored[g] > mean else -spread
        later = more * fast_exp(min(max(members.reach[a, h] - top, _LEAST), _MOST))
        for g in range(size):
            w = fast_exp(min(max(logit[g] - top, _LEAST), _MOST))
            new = (weighted + w * scored[g]) / (weight + w)
            opening = later / (later + weight + (w if exact or scored[g] <= mean else 0.0))
            now[g] += new + opening * max(cap - new, 0.0)
            soon[g] += new + opening * max(late[g] - new, 0.0)


@njit(**INNER)
def reward_groups(table: Table, reward_class: Array, argument: Array, out: Array) -> None:
    """Add f(argument) to ``out``, each group having its own function; neighbours of one class are done together."""
    first = 0
    while first < len(out):
        number, stop = reward_class[first], first + 1
        while stop < len(out) and reward_class[stop] == number:
            stop += 1
        knot = table.knot[table.first_knot[number] : table.first_knot[number + 1]]
        add_rewards(table.code[number], table.parameter[number], knot, argument[first:stop], out[first:stop])
        first = stop


@njit(**INNER)
def reward_member(table: Table, number: int, argument: Array, out: Array) -> None:
    """Add f(argument) to ``out`` for the reward class ``number``."""
    knot = table.knot[table.first_knot[number] : table.first_knot[number + 1]]
    add_rewards(table.code[number], table.parameter[number], knot, argument, out)


@njit(**INNER)
def regard(
    table: Table, groups: Groups, score: Array, base: Array, members: Members, m: int, rest: Array, more: int,
    start: int, size: int, found: Regarded,
) -> None:  # fmt: skip
    """Fill reward, left, both and mean for ``size`` groups from ``start`` on, into the first columns of ``found``.

    ``score`` (H, G) and ``base`` (G,) are the groups' from above; after the group there are at most ``more`` members,
    which score at most ``rest``, and at most LATE if the group is the next member.
    """
    now, soon = found.row[NOW, :size], found.row[SOON, :size]
    left, both = found.row[LEFT, :size], found.row[BOTH, :size]
    for h in range(len(rest)):
        attend(groups, score, members, m, h, more, start, size, found)
    now[:] = base[start : start + size]
    soon[:] = now
    for h in range(len(rest)):
        mean, late, opening = found.head[MEAN, h, :size], found.head[LATE, h, :size], found.head[OPEN, h, :size]
        for g in range(size):
            now[g] += mean[g] + opening[g] * max(rest[h] - mean[g], 0.0)
            soon[g] += mean[g] + opening[g] * max(late[g] - mean[g], 0.0)
    found.row[REWARD, :size] = 0.0
    left[:] = 0.0
    both[:] = 0.0
    reward_groups(table, groups.reward_class[start : start + size], now, found.row[REWARD, :size])
    reward_groups(table, groups.reward_class[start : start + size], soon, both)
    for a in range(m):
        now[:] = members.base[a]
        soon[:] = members.base[a]
        join(groups, score, members, a, rest, more, start, size, found)
        reward_member(table, members.reward_class[a], now, left)
        reward_member(table, members.reward_class[a], soon, both)
    tame(found.row[REWARD, :size])
    tame(left)
    tame(both)


@njit(**INNER)
def tame(values: Array) -> None:
    """Keep sums of rewards that overflow numbers; one that is none (∞ − ∞) counts as the largest."""
    for g in range(len(values)):
        values[g] = max(values[g], -HUGE) if values[g] < HUGE else HUGE
