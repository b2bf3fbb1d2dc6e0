"""The compiled loops of ``competition_search.py``: places of grown and perturbed sets are filled anew in turn.

With W_c = Σ_{j∈S} w_cj for all candidates c, which an exchange updates by two rows of w, the value of S with candidate
c in the place of member p is

    v_c f(t_c − s ρ(W_c − w_cp))  +  Σ_{i∈S∖p} v_i f(t_i − s ρ(W_i − w_ip + w_ic)),      ρ(W) = W / (1 + W), f logistic

one pass over all candidates for each pair (p, i), which the compiler vectorises. Passes are in single precision; sets
are compared by their values in double precision.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Ints
from setwise.kernels.copy import copy_entries
from setwise.kernels.options import FAST, INNER, NO_ITEM, OUTER, njit
from setwise.kernels.rewards import logistic_32
from setwise.kernels.softmax import ONE
from setwise.ranking.sum_kernels import lacking

SIZE, BEST_SIZE, WORK, STARTED, FEASIBLE, ACTIVE = 0, 1, 2, 3, 4, 5  # entries of CompetitionState.tally
VALUE, BEST_VALUE = 0, 1  # entries of CompetitionState.value
AFRESH = 5  # of so many sets, one has no member of the best
MISSING_SUM = 1e3  # what a least sum that is not reached at all counts against a set
OVERHEAD = 32  # of a pass over the candidates, in rewards
LEAST_GAIN = 1e-12  # relative; a smaller gain is rounding


class CompetitionArrays(NamedTuple):
    """The problem as arrays."""

    argument: Any  # (m,) t in single precision
    weight: Any  # (m, m) w_ij in single precision, symmetric, 0 on the diagonal
    factor: Any  # (m,) v in single precision
    exact: Floats  # (2, m) t and v in double precision
    strength: float
    free: Any  # (m,) may be added and removed
    pinned: Ints
    potential: Floats  # (m,) the largest reward that each candidate can have; pinned ones first, then descending
    labels: Ints  # (G, m)
    limits: Ints  # (G,)
    minimums: Ints  # (G, labels); (0, 0) without lower limits
    cost: Floats  # (R, m) of sums
    least: Floats  # (R,) of a sum; −∞ without a lower limit
    most: Floats  # (R,)
    k: int


class CompetitionState(NamedTuple):
    """The state of a search, and scratch space."""

    members: Ints  # (k,) pinned first
    best: Ints  # (k,)
    tally: Ints  # (6,)
    value: Floats  # (2,) of members and of the best
    random: Any  # (1,) uint64
    copies: Any  # (m,) W_c
    total: Any  # (m,)
    counts: Ints  # (G, labels)
    spent: Floats  # (R,) the sums of the members


@njit(**INNER)
def _random_below(random: Any, bound: int) -> int:
    """A pseudo-random whole number below ``bound`` (xorshift)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return np.int64(x % np.uint64(bound))  # type: ignore[return-value]  # compiled, an int64 is an int


@njit(**INNER, fastmath=FAST)
def _add_reward(t: Any, v: Any, strength: Any, before: Any, weight: Any, total: Any) -> None:
    """Add one member's reward beside each candidate to ``total``."""
    for c in range(len(total)):
        w = before + weight[c]
        total[c] += v * logistic_32(t - strength * (w / (ONE + w)))


@njit(**INNER, fastmath=FAST)
def _own_rewards(t: Any, v: Any, strength: Any, copies: Any, total: Any) -> None:
    """The reward of each candidate beside the set with these sums."""
    for c in range(len(total)):
        w = max(copies[c], np.float32(0))
        total[c] = v[c] * logistic_32(t[c] - strength * (w / (ONE + w)))


@njit(**INNER, fastmath=FAST)
def _add_row(copies: Any, row: Any, sign: Any) -> None:
    """Add a row of w to the sums, or take it away."""
    for c in range(len(copies)):
        copies[c] += sign * row[c]


@njit(**INNER)
def _value(problem: CompetitionArrays, members: Ints, size: int) -> float:
    """F of these members, in double precision."""
    value = 0.0
    for place in range(size):
        i, w = members[place], 0.0
        for other in range(size):
            w += problem.weight[i, members[other]]
        z = problem.exact[0, i] - problem.strength * (w / (1.0 + w))
        small = math.exp(-abs(z))
        value += problem.exact[1, i] * ((1.0 if z >= 0.0 else small) / (1.0 + small))
    return value


@njit(**INNER)
def _deficit(problem: CompetitionArrays, counts: Ints, c: int) -> int:
    """The members that are missing to lower limits in the worst group, with candidate c (−1: none) added."""
    largest = 0
    for group in range(len(problem.minimums)):
        added = problem.labels[group, c] if c >= 0 else -1
        deficit = 0
        for label in range(problem.minimums.shape[1]):
            missing = problem.minimums[group, label]
            if missing > 0:
                deficit += max(missing - (label == added) - counts[group, label], 0)
        largest = max(largest, deficit)
    return largest


@njit(**INNER)
def _admits(problem: CompetitionArrays, counts: Ints, spent: Floats, c: int, slack: int) -> bool:
    """Whether the limits allow candidate c; ``slack`` members may be missing to lower limits then."""
    for r in range(len(spent)):
        if spent[r] + problem.cost[r, c] > problem.most[r]:
            return False
    for group in range(len(problem.limits)):
        label = problem.labels[group, c]
        if label >= 0 and counts[group, label] >= problem.limits[group]:
            return False
    return bool(_deficit(problem, counts, c) <= slack)


@njit(**INNER)
def _count(problem: CompetitionArrays, state: CompetitionState, item: int, sign: int) -> None:
    """Count ``item`` in (1) or out (−1)."""
    _add_row(state.copies[: state.tally[ACTIVE]], problem.weight[item], np.float32(sign))
    for group in range(len(problem.labels)):
        if problem.labels[group, item] >= 0:
            state.counts[group, problem.labels[group, item]] += sign
    for r in range(len(state.spent)):
        state.spent[r] += sign * problem.cost[r, item]


@njit(**INNER)
def _append(problem: CompetitionArrays, state: CompetitionState, item: int) -> None:
    state.members[state.tally[SIZE]] = item
    state.tally[SIZE] += 1
    _count(problem, state, item, 1)


@njit(**INNER)
def _remove(problem: CompetitionArrays, state: CompetitionState, place: int) -> None:
    item = state.members[place]
    state.tally[SIZE] -= 1
    for at in range(place, state.tally[SIZE]):
        state.members[at] = state.members[at + 1]
    _count(problem, state, item, -1)


@njit(**INNER)
def _refill(problem: CompetitionArrays, state: CompetitionState, members: Ints, size: int) -> None:
    """Make these the members, with sums that have no rounding of earlier changes."""
    state.tally[SIZE] = 0
    state.copies[:] = np.float32(0)
    state.counts[:] = 0
    state.spent[:] = 0.0
    for place in range(size):
        _append(problem, state, members[place])


@njit(**INNER)
def _best_addition(problem: CompetitionArrays, state: CompetitionState, slack: int) -> int:
    """The candidate that is best to add to the members; −1 if the limits allow none."""
    total, size, strength = state.total[: state.tally[ACTIVE]], state.tally[SIZE], np.float32(problem.strength)
    _own_rewards(problem.argument, problem.factor, strength, state.copies, total)
    for place in range(size):
        i = state.members[place]
        before = max(state.copies[i], np.float32(0))
        _add_reward(problem.argument[i], problem.factor[i], strength, before, problem.weight[i], total)
    state.tally[WORK] += (len(total) + OVERHEAD) * (size + 1)
    best, value = NO_ITEM, -np.inf
    for place in range(size):
        total[state.members[place]] = np.float32(-np.inf)
    for c in range(len(total)):
        worth = np.float64(total[c])
        if len(problem.least) and worth > -np.inf:
            worth -= MISSING_SUM * lacking(problem.cost, problem.least, state.spent, c, NO_ITEM)
        if worth > value and problem.free[c] and _admits(problem, state.counts, state.spent, c, slack):
            best, value = np.int64(c), worth
    return best  # type: ignore[no-any-return]  # compiled, an int64 is an int


@njit(**INNER)
def _lack(problem: CompetitionArrays, state: CompetitionState) -> float:
    """What the members lack of the least sums, as a share of them."""
    return lacking(problem.cost, problem.least, state.spent, NO_ITEM, NO_ITEM) if len(problem.least) else 0.0


@njit(**INNER)
def _keep_best(problem: CompetitionArrays, state: CompetitionState) -> None:
    """Keep the members if they are the best set so far; a feasible one is better than any other.

    Candidates that are in no better set are put aside: F is at most the sum of the largest rewards.
    """
    tally, value = state.tally, state.value
    feasible = 1 if _deficit(problem, state.counts, NO_ITEM) == 0 and _lack(problem, state) <= 0.0 else 0
    better = feasible > tally[FEASIBLE] or (feasible == tally[FEASIBLE] and value[VALUE] > value[BEST_VALUE])
    if tally[SIZE] == 0 or not (tally[BEST_SIZE] == 0 or better):
        return
    copy_entries(state.best, state.members, tally[SIZE])
    tally[BEST_SIZE], tally[FEASIBLE], value[BEST_VALUE] = tally[SIZE], feasible, value[VALUE]
    if feasible:
        others = 0.0
        for place in range(min(problem.k - 1, len(problem.potential))):
            others += max(problem.potential[place], 0.0) if place >= len(problem.pinned) else problem.potential[place]
        least = value[BEST_VALUE] - others
        while tally[ACTIVE] > problem.k and problem.potential[tally[ACTIVE] - 1] < least:
            tally[ACTIVE] -= 1


@njit(**INNER)
def _step(problem: CompetitionArrays, state: CompetitionState, leaving: int) -> bool:
    """Make the best change of one place, if it is better: exchange or remove a member, or add one (−1)."""
    least = state.value[VALUE] + LEAST_GAIN * abs(state.value[VALUE])
    slack, lack, removed = _deficit(problem, state.counts, NO_ITEM), _lack(problem, state), NO_ITEM
    if leaving >= 0:
        removed = state.members[leaving]
        _remove(problem, state, leaving)
    size = state.tally[SIZE]
    alone = _value(problem, state.members, size) if size > 0 else -np.inf
    lacks = _deficit(problem, state.counts, NO_ITEM) > slack or _lack(problem, state) > lack
    c = _best_addition(problem, state, slack)
    if c >= 0 and c != removed:
        _append(problem, state, c)
        value = _value(problem, state.members, state.tally[SIZE])
        deficit, left = _deficit(problem, state.counts, NO_ITEM), _lack(problem, state)
        repairs = deficit < slack or (deficit == slack and left < lack)
        if repairs or (value > least and left <= lack and (value > alone or lacks)):
            state.value[VALUE] = value
            return True
        _remove(problem, state, size)
    if removed >= 0 and alone > least and size > 0 and not lacks:
        state.value[VALUE] = alone
        return True
    if removed >= 0:
        _append(problem, state, removed)
    return False


@njit(**INNER)
def _climb(problem: CompetitionArrays, state: CompetitionState) -> None:
    """Fill each place anew in turn until no change of one place is better; the oldest member is the next to leave."""
    fixed, unchanged = len(problem.pinned), 0
    state.value[VALUE] = _value(problem, state.members, state.tally[SIZE])
    while unchanged < max(state.tally[SIZE] - fixed, 1):
        changed = state.tally[SIZE] < problem.k and _step(problem, state, NO_ITEM)
        if state.tally[SIZE] > fixed:
            changed = _step(problem, state, fixed) or changed
        unchanged = 0 if changed else unchanged + 1
    _keep_best(problem, state)


@njit(**INNER)
def _start(problem: CompetitionArrays, state: CompetitionState) -> None:
    """Grow a set: the first one from the pinned items, others from the best one with some members left out."""
    tally, fixed, each = state.tally, len(problem.pinned), True  # whether smaller sets on the way count
    if tally[STARTED] == 0:
        _refill(problem, state, problem.pinned, fixed)
    else:
        _refill(problem, state, state.best, tally[BEST_SIZE])
        others = tally[SIZE] - fixed
        leaving, kept, each = min(2 + _random_below(state.random, max(1, others // 2)), others), 1, False
        if _random_below(state.random, AFRESH) == 0:  # from one or two at random
            leaving, kept, each = others, max(others - 2, 1), True
        for _ in range(leaving):
            _remove(problem, state, fixed + _random_below(state.random, tally[SIZE] - fixed))
        for _ in range(max(leaving - kept, 1)):
            c = _random_below(state.random, 1 + _random_below(state.random, tally[ACTIVE]))  # rather a good one
            member = False
            for place in range(tally[SIZE]):
                member = member or state.members[place] == c
            room = problem.k - tally[SIZE] - 1
            if room >= 0 and not member and problem.free[c] and _admits(problem, state.counts, state.spent, c, room):
                _append(problem, state, c)
    tally[STARTED] += 1
    while tally[SIZE] < problem.k:
        c = _best_addition(problem, state, problem.k - tally[SIZE] - 1)
        if c < 0:
            break
        _append(problem, state, c)
        if each:
            state.value[VALUE] = _value(problem, state.members, tally[SIZE])
            _keep_best(problem, state)


@njit(**OUTER)
def advance(problem: CompetitionArrays, state: CompetitionState, work: int) -> None:
    """Continue the search until so many rewards have been computed; the first climb is always finished."""
    while state.tally[WORK] < work or state.tally[STARTED] == 0:
        before = state.tally[WORK]
        _start(problem, state)
        _climb(problem, state)
        if state.tally[WORK] == before:
            break
