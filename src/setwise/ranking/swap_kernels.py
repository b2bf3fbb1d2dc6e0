"""The compiled loops of swap search: a neighbourhood, a climb, a search of many climbs.

For a chosen set S the sums of every member i without one member p are added up afresh (k² numbers), never found by
subtraction, which would cancel under sharp attention:

    N_i = z_i s_0 + Σ_{j∈S∖p} w_ij s_j      D_i = z_i + Σ_{j∈S∖p} w_ij

With a newcomer c in p's place item i gets (N_i + w_ic s_c) / (D_i + w_ic): one pass over all candidates for each pair
(p, i), which the compiler vectorises. For the newcomers themselves the sums over S∖p are running sums from the front
and from the back. Weights are those of ``Instance.weight``. No evaluation allocates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from setwise._types import Floats, Ints
from setwise.kernels.rewards import LOGISTIC, add_rewards, table_value
from setwise.ranking.kernels import (
    SMALLEST_WEIGHT,
    averages_with_each,
    lend,
    logistics_with_each,
    newcomer_averages,
    sums_without,
)

LEAST_GAIN = 1e-13  # relative; below it is rounding

IDLE, GROWING, CLIMBING = 0, 1, 2
SIZE, BEST_SIZE, EVALUATIONS, STARTED, PHASE = 0, 1, 2, 3, 4  # entries of Search.tally
VALUE, BEST_VALUE = 0, 1  # entries of Search.value


class Problem(NamedTuple):
    """An instance and its constraints as arrays."""

    weight: Floats  # (m, H, m) w_ij
    received: Floats  # (m, H, m) w_ji: row i is what i receives
    weight_32: Any  # (m, H, m) w_ij in single precision; (0, H, m) where that would not do
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
    free: Any  # (m,) may be chosen and may be dropped
    pinned: Ints
    labels: Ints  # (G, m)
    limits: Ints  # (G,)
    slot: Ints  # (m, 2) item and place in an ordered slate; (0, 2) in a set
    pair_at: Ints  # (items, places) the candidate that is this item in this place, or −1
    anchors: Ints  # where climbs start
    k: int


class Search(NamedTuple):
    """The state of a search and its scratch space: allocated once, resumable."""

    members: Ints  # (k,) the current set, pinned first
    best: Ints  # (k,)
    proposal: Ints  # (k,)
    counts: Ints  # (G, labels) members by label
    tally: Ints  # (5,)
    value: Floats  # (2,)
    random: Any  # (1,) uint64
    trial: Ints  # (k,)
    order: Ints  # (k,)
    total: Floats  # (m,) the value of the set with each newcomer
    argument: Floats  # (m,) a_i with each newcomer
    total_32: Any  # (m,) the same in single precision
    argument_32: Any  # (m,) kept at zero between uses
    sums: Floats  # (2, H)
    front: Floats  # (2, H, m) sums over the members before the leaving one, for each newcomer
    back: Floats  # (k + 2, 2, H, m) and over those after it


@njit(cache=True, nogil=True, error_model="numpy")
def value_without(problem: Problem, members: Ints, size: int, leaving: int, sums: Floats) -> float:
    """F of the members but the leaving one (−1: nobody leaves)."""
    weight, score, sink, base, reward_class = (
        problem.weight,
        problem.score,
        problem.sink,
        problem.base,
        problem.reward_class,
    )
    code, parameter, first_knot, knot = problem.code, problem.parameter, problem.first_knot, problem.knot
    value = 0.0
    for place in range(size):
        if place != leaving:
            i = members[place]
            sums_without(weight, score, sink, i, members, size, leaving, sums)
            a = base[i]
            for h in range(len(score)):
                a += sums[0, h] / max(sums[1, h], SMALLEST_WEIGHT)
            f = reward_class[i]
            value += table_value(code, parameter, first_knot, knot, f, a)
    return -np.inf if math.isnan(value) else value


@njit(cache=True, nogil=True, error_model="numpy")
def values_with_each(problem: Problem, search: Search, leaving: int) -> None:
    """F(S ∖ leaving ∪ {c}) for every candidate c at once, into search.total (meaningless for members)."""
    members, size, total, argument, sums = (
        search.members,
        search.tally[SIZE],
        search.total,
        search.argument,
        search.sums,
    )
    weight, score, sink, base, reward_class = (
        problem.weight,
        problem.score,
        problem.sink,
        problem.base,
        problem.reward_class,
    )
    code, parameter, first_knot, knot = problem.code, problem.parameter, problem.first_knot, problem.knot
    weight_32, score_32, total_32 = problem.weight_32, problem.score_32, search.total_32
    first = search.tally[STARTED] == 1 and search.tally[PHASE] == GROWING  # greedy to the last digit
    fast = len(weight_32) > 0 and not first
    total[:] = 0.0
    total_32[:] = 0.0
    for place in range(size):
        if place != leaving:
            i = members[place]
            sums_without(weight, score, sink, i, members, size, leaving, sums)
            f = reward_class[i]
            if fast and code[f] == LOGISTIC:
                scale, bias = parameter[f, 0], parameter[f, 1] + parameter[f, 0] * base[i]
                logistics_with_each(weight_32, i, score_32, scale, bias, sums, search.argument_32, total)
            else:
                averages_with_each(weight, i, score, base[i], sums, argument)
                add_rewards(code[f], parameter[f], knot[first_knot[f] : first_knot[f + 1]], argument, total)
    total += total_32
    argument[:] = base
    newcomer_averages(search.front, search.back, leaving + 1, problem.own, score, argument)
    if len(code) == 1:
        add_rewards(code[0], parameter[0], knot, argument, total)
    else:
        for c in range(len(total)):
            total[c] += table_value(code, parameter, first_knot, knot, reward_class[c], argument[c])


@njit(cache=True, nogil=True, error_model="numpy")
def may_join(problem: Problem, search: Search, c: int, leaving: int) -> bool:
    """Whether limits allow candidate c in when member number ``leaving`` (−1: nobody) goes."""
    for group in range(len(problem.limits)):
        label = problem.labels[group, c]
        if label >= 0:
            taken = search.counts[group, label]
            if leaving >= 0 and problem.labels[group, search.members[leaving]] == label:
                taken -= 1
            if taken >= problem.limits[group]:
                return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def recount(problem: Problem, search: Search) -> None:
    """Count the members by label."""
    search.counts[:] = 0
    for group in range(len(problem.limits)):
        for place in range(search.tally[SIZE]):
            label = problem.labels[group, search.members[place]]
            if label >= 0:
                search.counts[group, label] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def holds(members: Ints, size: int, c: int) -> bool:
    """Whether c is a member."""
    found = False
    for place in range(size):
        found = found or members[place] == c
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def best_exchange(problem: Problem, search: Search, only_add: bool) -> tuple[float, int]:
    """The best set one exchange, newcomer or departure away, into search.proposal: its value and size (0: none).

    Member number p leaves (p = size: nobody) and candidate c comes (c = m: nobody).
    """
    size, fixed, m = search.tally[SIZE], len(problem.pinned), len(problem.base)
    search.front[:] = problem.sink
    search.back[size : size + 2] = 0.0
    for place in range(size - 1, fixed, -1):
        search.back[place] = search.back[place + 1]
        lend(problem.received, problem.score, search.members[place], search.back[place])
    total, free, members = search.total, problem.free, search.members
    best_value, best_p, best_c = -np.inf, -1, -1
    for p in range(size + (size < problem.k)):
        if p >= fixed and (p == size or not only_add):
            leaving = p if p < size else -1
            values_with_each(problem, search, p)
            for place in range(size):
                total[members[place]] = np.nan
            for c in range(m):
                better = total[c] > best_value or (best_p < 0 and not math.isnan(total[c]))
                if better and free[c] and may_join(problem, search, c, leaving):
                    best_value, best_p, best_c = total[c], p, c
            search.tally[EVALUATIONS] += m  # members are valued in passing: what costs time is counted
            if leaving >= 0 and size > max(1, fixed):
                search.tally[EVALUATIONS] += 1
                value = value_without(problem, search.members, size, p, search.sums)
                if value > best_value:
                    best_value, best_p, best_c = value, p, m
        if p < size:
            lend(problem.received, problem.score, search.members[p], search.front)
    if best_p < 0:
        search.tally[EVALUATIONS] += 1  # looking costs as well: a search with nothing to do must end
        return -np.inf, 0
    search.proposal[:size] = search.members[:size]
    if best_c < m:
        search.proposal[best_p] = best_c
        return best_value, max(size, best_p + 1)
    search.proposal[best_p] = search.members[size - 1]
    return best_value, size - 1


@njit(cache=True, nogil=True, error_model="numpy")
def keeps_limits(problem: Problem, members: Ints, size: int) -> bool:
    """Whether no group has too many of these members."""
    for group in range(len(problem.limits)):
        for place in range(size):
            label, alike = problem.labels[group, members[place]], 0
            for other in range(size):
                alike += problem.labels[group, members[other]] == label
            if label >= 0 and alike > problem.limits[group]:
                return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def best_reordering(problem: Problem, search: Search, least: float) -> bool:
    """The best way to let two items of an ordered slate exchange places, or one move and the ones between shift.

    Into search.proposal if its value is above ``least``; whether it was.
    """
    found = False
    size, trial, order = search.tally[SIZE], search.trial, search.order
    by_place = np.argsort(problem.slot[search.members[:size], 1])
    for first in range(size):
        for last in range(size):
            for shift in range(2):
                if first == last or (shift == 0 and first > last) or (shift == 1 and abs(first - last) == 1):
                    continue
                order[:size] = by_place
                if shift == 0:
                    order[first], order[last] = by_place[last], by_place[first]
                else:
                    step = 1 if first < last else -1
                    for x in range(first, last, step):
                        order[x] = by_place[x + step]
                    order[last] = by_place[first]
                possible = True
                for x in range(size):  # the item of member order[x] goes to the x-th place in use
                    old, place = search.members[order[x]], problem.slot[search.members[by_place[x]], 1]
                    new = problem.pair_at[problem.slot[old, 0], place]
                    possible = possible and (new == old or (new >= 0 and problem.free[new] and problem.free[old]))
                    trial[order[x]] = new
                if possible and keeps_limits(problem, trial, size):
                    search.tally[EVALUATIONS] += 1
                    value = value_without(problem, trial, size, -1, search.sums)
                    if value > least:
                        least, found = value, True
                        search.proposal[:size] = trial[:size]
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def adopt(problem: Problem, search: Search, members: Ints, size: int) -> None:
    """Make these the current set, and the best one if it is."""
    search.members[:size] = members[:size]
    search.tally[SIZE] = size
    recount(problem, search)
    search.value[VALUE] = value_without(problem, members, size, -1, search.sums)
    if size > 0 and (search.value[VALUE] > search.value[BEST_VALUE] or search.tally[BEST_SIZE] == 0):
        search.value[BEST_VALUE], search.tally[BEST_SIZE] = search.value[VALUE], size
        search.best[:size] = members[:size]


@njit(cache=True, nogil=True, error_model="numpy")
def draw(random: Any, bound: int) -> int:
    """A pseudo-random whole number below ``bound`` (xorshift)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return np.int64(x % np.uint64(bound))  # type: ignore[return-value]  # compiled, an int64 is an int


@njit(cache=True, nogil=True, error_model="numpy")
def invite(problem: Problem, search: Search, c: int) -> None:
    """Let candidate c join if there is room and nothing forbids it."""
    size = search.tally[SIZE]
    welcome = size < problem.k and problem.free[c] and not holds(search.members, size, c)
    if welcome and may_join(problem, search, c, -1):
        search.proposal[:size] = search.members[:size]
        search.proposal[size] = c
        adopt(problem, search, search.proposal, size + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def kick(problem: Problem, search: Search) -> None:
    """Go back to the best set, take some members out at random and let one fewer in at random."""
    fixed, size = len(problem.pinned), search.tally[BEST_SIZE]
    search.proposal[:size] = search.best[:size]
    leaving = min(2 + draw(search.random, max(1, (size - fixed) // 2)), size - fixed)
    for _ in range(leaving):
        gone = fixed + draw(search.random, size - fixed)
        size -= 1
        search.proposal[gone] = search.proposal[size]
    adopt(problem, search, search.proposal, size)
    for _ in range(leaving - 1):
        invite(problem, search, draw(search.random, len(problem.base)))


@njit(cache=True, nogil=True, error_model="numpy")
def begin(problem: Problem, search: Search) -> None:
    """Begin a climb: from the pinned alone, then beside each anchor, then from the best set with a kick."""
    started = search.tally[STARTED]
    search.tally[STARTED] += 1
    search.tally[PHASE] = GROWING
    if started > len(problem.anchors):
        kick(problem, search)
        return
    adopt(problem, search, problem.pinned, len(problem.pinned))
    if started > 0:
        invite(problem, search, problem.anchors[started - 1])


@njit(cache=True, nogil=True, error_model="numpy")
def advance(problem: Problem, search: Search, evaluations: int) -> None:
    """Search on until so many sets have been evaluated; the first growth is always finished."""
    tally, value = search.tally, search.value
    while tally[EVALUATIONS] < evaluations or tally[STARTED] == 0 or (tally[STARTED] == 1 and tally[PHASE] == GROWING):
        if tally[PHASE] == IDLE:
            begin(problem, search)
        growing = tally[PHASE] == GROWING
        estimate, size = best_exchange(problem, search, growing)
        if not growing and len(problem.slot) and best_reordering(problem, search, estimate):
            size = tally[SIZE]
        better = size > 0
        if better and not growing:
            better = value_without(problem, search.proposal, size, -1, search.sums) > value[VALUE] + LEAST_GAIN * abs(
                value[VALUE]
            )
        if better:
            adopt(problem, search, search.proposal, size)
        else:
            tally[PHASE] = CLIMBING if growing else IDLE
