"""The compiled loops of swap search: the values of a neighbourhood and the best move in it (climbs: swap_climbs.py).

For a set S the sums of every member i without one member p are computed anew (k² numbers), not by subtraction, which
would cancel under sharp attention:

    N_i = z_i s_0 + Σ_{j∈S∖p} w_ij s_j      D_i = z_i + Σ_{j∈S∖p} w_ij

With a candidate c in p's place the average of item i is (N_i + w_ic s_c) / (D_i + w_ic): one pass over all candidates
for each pair (p, i), which the compiler vectorises. For the candidates themselves the sums over S∖p are running sums
from the front and from the back. Weights are those of ``Instance.weight``. No evaluation allocates memory.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Ints
from setwise.kernels.copy import copy_cube, copy_entries
from setwise.kernels.options import INNER, NO_ITEM, OUTER, ZERO, njit
from setwise.kernels.rewards import add_rewards, has_fast_path, table_value
from setwise.ranking.kernels import (
    SMALLEST_WEIGHT,
    add_attention,
    averages_with_each,
    candidate_averages,
    logistics_with_each,
    sums_without,
)
from setwise.ranking.sum_kernels import add_costs, count_sums, fits, lacking

IDLE, GROWING, CLIMBING = 0, 1, 2
SIZE, BEST_SIZE, EVALUATIONS, STARTED, PHASE, BEST_FEASIBLE = 0, 1, 2, 3, 4, 5  # entries of SwapState.tally
LARGE = 16  # members beyond which, with limits on sums, exchanges are screened (screened_moves.py)
LEAST_GAIN = 1e-13  # relative; a smaller gain is rounding
VALUE, BEST_VALUE, SCALE = 0, 1, 2  # entries of SwapState.value: the last scales the prices of sums


class SwapInstance(NamedTuple):
    """An instance and its constraints as arrays."""

    weight: Floats  # (m, H, m) w_ij
    received: Floats  # (m, H, m) w_ji: row i is the attention that i receives
    weight_32: Any  # (m, H, m) w_ij in single precision; (0, H, m) where that is out of range
    score_32: Any  # (H, m)
    own: Floats  # (H, m) w_ii
    score: Floats  # (H, m)
    base: Floats  # (m,)
    sink: Floats  # (2, H, m) z_i s_0 and z_i
    code: Ints  # the RewardTable
    parameter: Floats
    first_knot: Ints
    knot: Floats
    reward_class: Ints  # (m,)
    reward_weight: Floats  # (m,)
    free: Any  # (m,) may be added and removed
    pinned: Ints
    labels: Ints  # (G, m)
    limits: Ints  # (G,)
    minimums: Ints  # (G, labels); (0, 0) without lower limits
    cost: Floats  # (R, m) numbers whose sums are limited
    least: Floats  # (R,)
    most: Floats  # (R,)
    offset: Floats  # (m,) what each candidate counts less while a set grows, as the sums have prices
    penalty: float  # for what a set lacks of the least sums, as a share of them
    slot: Ints  # (m, 2) item and place in an ordered slate; (0, 2) in a set
    pair_at: Ints  # (items, places) the candidate that is this item in this place, or −1
    start_items: Ints  # candidates, one for each of the first climbs
    k: int
    weighted: bool  # whether a weight is not 1


class SwapState(NamedTuple):
    """The state of a search and its scratch space: allocated once, resumable."""

    members: Ints  # (k,) the current set, pinned first
    best: Ints  # (k,)
    proposal: Ints  # (k,)
    counts: Ints  # (G, labels) members by label
    spent: Floats  # (R,) the sums of the members
    tally: Ints  # (6,)
    value: Floats  # (3,)
    random: Any  # (1,) uint64
    trial: Ints  # (k,)
    order: Ints  # (k,)
    total: Floats  # (m,) the value of the set with each candidate added
    argument: Floats  # (m,) a_i with each candidate added
    argument_32: Any  # (m,) the same in single precision, kept at zero between uses
    sums: Floats  # (2, H)
    front: Floats  # (2, H, m) each candidate's sums over the members before the leaving one
    back: Floats  # (k + 2, 2, H, m) and over those after it


@njit(**OUTER)
def promises(problem: SwapInstance, anchors: Ints, alone: Floats) -> Floats:
    """What each candidate promises as an anchor p, −∞ for others than ``anchors``.

    This is ω_p f_p(a_p({p})) and the k − 1 largest positive ω_i f_i(a_i({i, p})) of free candidates i. A reward does
    not decrease: if there is only one and no item weighs more than others, the largest are those of the largest
    arguments.
    """
    code, parameter, first_knot, knot = problem.code, problem.parameter, problem.first_knot, problem.knot
    several = len(code) > 1 or problem.weighted
    promise, measure, largest = np.full(len(alone), -np.inf), np.empty(len(alone)), np.empty(max(problem.k - 1, 0))
    for p in anchors:
        promise[p] = alone[p]
        if len(largest) == 0:
            continue
        copy_entries(measure, problem.base, len(alone))
        for h in range(len(problem.score)):
            first, second = problem.sink[0, h], problem.sink[1, h]
            _add_averages(first, second, problem.own[h], problem.score[h], problem.received[p, h], p, measure)
        largest[:] = -np.inf
        for i in range(len(alone)):
            if several:
                reward = table_value(code, parameter, first_knot, knot, problem.reward_class[i], measure[i])
                measure[i] = problem.reward_weight[i] * reward
            if measure[i] > largest[0] and problem.free[i] and i != p:
                place = 1
                while place < len(largest) and measure[i] > largest[place]:  # in ascending order; the smallest leaves
                    largest[place - 1] = largest[place]
                    place += 1
                largest[place - 1] = measure[i]
        for x in largest:
            if x > -np.inf:
                reward = x if several else table_value(code, parameter, first_knot, knot, ZERO, x)
                promise[p] += max(reward, 0.0)
    return promise


@njit(**INNER)
def _add_averages(
    first: Floats, second: Floats, own: Floats, score: Floats, received: Floats, p: int, total: Floats
) -> None:
    """Add what one head gives each item i beside p: (z_i s_0 + w_ii s_i + w_ip s_p) / (z_i + w_ii + w_ip)."""
    of_anchor = score[p]
    for i in range(len(total)):
        numerator = first[i] + own[i] * score[i] + received[i] * of_anchor
        total[i] += numerator / max(second[i] + own[i] + received[i], SMALLEST_WEIGHT)


@njit(**INNER)
def value_without(problem: SwapInstance, members: Ints, size: int, leaving: int, sums: Floats) -> float:
    """F of the members without number ``leaving`` (−1: of all members)."""
    weight, score, sink, base = problem.weight, problem.score, problem.sink, problem.base
    code, parameter, first_knot, knot = problem.code, problem.parameter, problem.first_knot, problem.knot
    value = 0.0
    for place in range(size):
        if place != leaving:
            i = members[place]
            sums_without(weight, score, sink, i, members, size, leaving, sums)
            a = base[i]
            for h in range(len(score)):
                a += sums[0, h] / max(sums[1, h], SMALLEST_WEIGHT)
            f = problem.reward_class[i]
            value += problem.reward_weight[i] * table_value(code, parameter, first_knot, knot, f, a)
    return -np.inf if math.isnan(value) else value


@njit(**INNER)
def values_with_each(problem: SwapInstance, state: SwapState, leaving: int) -> None:
    """F(S ∖ leaving ∪ {c}) for every candidate c at once, into state.total (meaningless for members)."""
    members, size, total, argument, sums = state.members, state.tally[SIZE], state.total, state.argument, state.sums
    weight, score, sink, base = problem.weight, problem.score, problem.sink, problem.base
    code, parameter, first_knot, knot = problem.code, problem.parameter, problem.first_knot, problem.knot
    weight_32, score_32 = problem.weight_32, problem.score_32
    first = state.tally[STARTED] == 1 and state.tally[PHASE] == GROWING  # greedy, in double precision
    fast = len(weight_32) > 0 and not first
    total[:] = 0.0
    for place in range(size):
        if place != leaving:
            i = members[place]
            sums_without(weight, score, sink, i, members, size, leaving, sums)
            f = problem.reward_class[i]
            if fast and has_fast_path(code[f]):
                scale, bias = parameter[f, 0], parameter[f, 1] + parameter[f, 0] * base[i]
                height = problem.reward_weight[i]
                logistics_with_each(weight_32, i, score_32, scale, bias, height, sums, state.argument_32, total)
            else:
                averages_with_each(weight, i, score, base[i], sums, argument)
                knots = knot[first_knot[f] : first_knot[f + 1]]
                add_rewards(code[f], parameter[f], knots, problem.reward_weight[i], argument, total)
    copy_entries(argument, base, len(base))
    candidate_averages(state.front, state.back, leaving + 1, problem.own, score, argument)
    if len(code) == 1 and not problem.weighted:
        add_rewards(code[0], parameter[0], knot, 1.0, argument, total)
    else:
        for c in range(len(total)):
            reward = table_value(code, parameter, first_knot, knot, problem.reward_class[c], argument[c])
            total[c] += problem.reward_weight[c] * reward


@njit(**INNER)
def may_add(problem: SwapInstance, state: SwapState, c: int, leaving: int) -> bool:
    """Whether the limits allow adding candidate c when member number ``leaving`` (−1: none) is removed."""
    for group in range(len(problem.limits)):
        label = problem.labels[group, c]
        if label >= 0:
            count = state.counts[group, label]
            if leaving >= 0 and problem.labels[group, state.members[leaving]] == label:
                count -= 1
            if count >= problem.limits[group]:
                return False
    left = state.members[leaving] if leaving >= 0 else NO_ITEM
    if len(problem.cost) and not fits(problem.cost, problem.most, state.spent, c, left):
        return False
    size = state.tally[SIZE] + 1 - (leaving >= 0)
    slack = problem.k - size if state.tally[PHASE] == GROWING else 0
    return bool(largest_deficit(problem, state, c, leaving) <= slack)


@njit(**INNER)
def largest_deficit(problem: SwapInstance, state: SwapState, c: int, leaving: int) -> int:
    """The members missing to the lower limits, in the worst group: candidate c added, number ``leaving`` removed.

    −1 stands for none added or none removed.
    """
    largest = 0
    for group in range(len(problem.minimums)):
        added = problem.labels[group, c] if c >= 0 else -1
        removed = problem.labels[group, state.members[leaving]] if leaving >= 0 else -1
        deficit = 0
        for label in range(problem.minimums.shape[1]):
            missing = problem.minimums[group, label]
            if missing > 0:
                missing += (label == removed) - (label == added) - state.counts[group, label]
                deficit += max(missing, 0)
        largest = max(largest, deficit)
    return largest


@njit(**INNER)
def count_labels(problem: SwapInstance, state: SwapState) -> None:
    """Count the members by label, and their sums."""
    add_costs(problem.cost, state.members, state.tally[SIZE], state.spent)
    state.counts[:] = 0
    for group in range(len(problem.limits)):
        for place in range(state.tally[SIZE]):
            label = problem.labels[group, state.members[place]]
            if label >= 0:
                state.counts[group, label] += 1


@njit(**INNER)
def contains(members: Ints, size: int, c: int) -> bool:
    """Whether c is a member."""
    found = False
    for place in range(size):
        found = found or members[place] == c
    return found


@njit(**OUTER)
def best_move(problem: SwapInstance, state: SwapState, only_add: bool) -> tuple[float, int]:
    """The best set one exchange, addition or removal away, into state.proposal: its value and size (0: none).

    Member number p is removed (p = size: none) and candidate c is added (c = m: none).
    """
    size, fixed, m = state.tally[SIZE], len(problem.pinned), len(problem.base)
    copy_cube(state.front, problem.sink)
    state.back[size : size + 2] = 0.0
    for place in range(size - 1, size if only_add else fixed, -1):  # with all members in front, nothing is behind
        copy_cube(state.back[place], state.back[place + 1])
        add_attention(problem.received, problem.score, state.members[place], state.back[place])
    total, free, members = state.total, problem.free, state.members
    best_value, best_p, best_c = -np.inf, -1, -1
    for p in range(size + (size < problem.k)):
        if p >= fixed and (p == size or not only_add):
            leaving = p if p < size else -1
            values_with_each(problem, state, p)
            for place in range(size):
                total[members[place]] = np.nan
            if len(problem.cost):
                scale, left = state.value[SCALE] if only_add else 0.0, members[p] if p < size else NO_ITEM
                count_sums(
                    problem.cost, problem.least, state.spent, problem.offset, scale, problem.penalty, left, total
                )
            for c in range(m):
                better = total[c] > best_value or (best_p < 0 and not math.isnan(total[c]))
                if better and free[c] and may_add(problem, state, c, leaving):
                    best_value, best_p, best_c = total[c], p, c
            state.tally[EVALUATIONS] += m  # members included: the loop evaluates them too
            if leaving >= 0 and size > max(1, fixed):
                state.tally[EVALUATIONS] += 1
                value = value_without(problem, state.members, size, p, state.sums)
                if problem.penalty > 0.0:
                    value -= problem.penalty * lacking(problem.cost, problem.least, state.spent, NO_ITEM, members[p])
                if value > best_value and largest_deficit(problem, state, NO_ITEM, p) == 0:
                    best_value, best_p, best_c = value, p, m
        if p < size:
            add_attention(problem.received, problem.score, state.members[p], state.front)
    if best_p < 0:
        state.tally[EVALUATIONS] += 1  # so that a search without possible moves ends
        return -np.inf, 0
    copy_entries(state.proposal, state.members, size)
    if best_c < m:
        state.proposal[best_p] = best_c
        return best_value, max(size, best_p + 1)
    state.proposal[best_p] = state.members[size - 1]
    return best_value, size - 1


@njit(**INNER)
def keeps_limits(problem: SwapInstance, members: Ints, size: int) -> bool:
    """Whether these members keep every group's limit."""
    for group in range(len(problem.limits)):
        for place in range(size):
            label, count = problem.labels[group, members[place]], 0
            for other in range(size):
                count += problem.labels[group, members[other]] == label
            if label >= 0 and count > problem.limits[group]:
                return False
    return True


@njit(**INNER)
def sort_by_place(slot: Ints, members: Ints, by_place: Ints) -> None:
    """Write the numbers of the members to ``by_place``, first place first, by insertion: slates are short."""
    for number in range(len(by_place)):
        at = number
        while at > 0 and slot[members[by_place[at - 1]], 1] > slot[members[number], 1]:
            by_place[at] = by_place[at - 1]
            at -= 1
        by_place[at] = number


@njit(**OUTER)
def best_reordering(problem: SwapInstance, state: SwapState, least: float) -> bool:
    """Find the best exchange of two places of an ordered slate, or shift of one item past others.

    Writes it into state.proposal if its value is above ``least``; returns whether it is.
    """
    found = False
    size, trial, order = state.tally[SIZE], state.trial, state.order
    by_place = np.empty(size, np.int64)
    sort_by_place(problem.slot, state.members, by_place)
    for first in range(size):
        for last in range(size):
            for shift in range(2):
                if first == last or (shift == 0 and first > last) or (shift == 1 and abs(first - last) == 1):
                    continue
                copy_entries(order, by_place, size)
                if shift == 0:
                    order[first], order[last] = by_place[last], by_place[first]
                else:
                    step = 1 if first < last else -1
                    for x in range(first, last, step):
                        order[x] = by_place[x + step]
                    order[last] = by_place[first]
                possible = True
                for x in range(size):  # the item of member order[x] goes to the x-th place in use
                    old, place = state.members[order[x]], problem.slot[state.members[by_place[x]], 1]
                    new = problem.pair_at[problem.slot[old, 0], place]
                    possible = possible and (new == old or (new >= 0 and problem.free[new] and problem.free[old]))
                    trial[order[x]] = new
                if possible and keeps_limits(problem, trial, size):
                    state.tally[EVALUATIONS] += 1
                    value = value_without(problem, trial, size, NO_ITEM, state.sums)
                    if value > least:
                        least, found = value, True
                        copy_entries(state.proposal, trial, size)
    return found


@njit(**OUTER)
def adopt(problem: SwapInstance, state: SwapState, members: Ints, size: int) -> None:
    """Make these members the current set, and the best set if no better one is known."""
    copy_entries(state.members, members, size)
    state.tally[SIZE] = size
    count_labels(problem, state)
    state.value[VALUE] = value_without(problem, members, size, NO_ITEM, state.sums)
    feasible = largest_deficit(problem, state, NO_ITEM, NO_ITEM) == 0
    if problem.penalty > 0.0:
        lacks = lacking(problem.cost, problem.least, state.spent, NO_ITEM, NO_ITEM)
        state.value[VALUE] -= problem.penalty * lacks
        feasible = feasible and lacks == 0.0
    better = state.value[VALUE] > state.value[BEST_VALUE] and feasible >= state.tally[BEST_FEASIBLE]
    if size > 0 and (better or state.tally[BEST_SIZE] == 0 or feasible > state.tally[BEST_FEASIBLE]):
        state.value[BEST_VALUE], state.tally[BEST_SIZE] = state.value[VALUE], size
        state.tally[BEST_FEASIBLE] = feasible
        copy_entries(state.best, members, size)
