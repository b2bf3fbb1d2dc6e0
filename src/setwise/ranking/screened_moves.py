"""Compiled exchanges of large sets, which only limits on sums allow: all pairs are screened, the best few evaluated.

The exact values of all exchanges of one member p for one candidate c take k² m weights a head. To first order an
exchange changes F by what c adds to the set and what p takes from it, less what they are to each other:

    E_c − (r_p(S ∪ c) − r_p(S))  +  r_c(S ∖ p ∪ c)  −  L_p,
    E_c = Σ_{j∈S} (r_j(S ∪ c) − r_j(S)),     L_p = F(S) − F(S ∖ p),

which takes k m weights for all pairs. It is exact where rewards are linear and no item changes the share of others, as
in models of pairs. A move is made only if its exact value is better.
"""

from __future__ import annotations

import numpy as np

from setwise._types import Floats, Ints
from setwise.kernels.copy import copy_cube, copy_entries
from setwise.kernels.options import FAST, INNER, NO_ITEM, OUTER, njit
from setwise.kernels.rewards import add_rewards, table_value
from setwise.ranking.kernels import SMALLEST_WEIGHT, add_attention, averages_with_each, sums_without
from setwise.ranking.sum_kernels import add_costs, lacking
from setwise.ranking.swap_kernels import EVALUATIONS, SIZE, SwapInstance, SwapState, contains, may_add, value_without

TRIED = 8  # moves whose exact values are computed
_CANCELLED = 1e-9  # a denominator of which less than this share is left says nothing


@njit(**INNER)
def _argument_without(base: float, sums: Floats, weight: Floats, score: Floats, p: int) -> float:
    """The argument of an item whose row of weights (H, m) has these sums (2, H), without the attended item p."""
    a = base
    for h in range(len(score)):
        w = weight[h, p]
        n, d = sums[0, h] - w * score[h, p], sums[1, h] - w
        a += n / d if d > _CANCELLED * sums[1, h] else sums[0, h] / max(sums[1, h], SMALLEST_WEIGHT)
    return float(a)


@njit(**INNER, fastmath=FAST)
def _arguments_without(
    base: Floats, front: Floats, received: Floats, own: Floats, score: Floats, p: int, argument: Floats
) -> None:
    """The argument of each candidate beside the members without p (−1: beside all); ``received`` is the row of p."""
    copy_entries(argument, base, len(base))
    for h in range(len(score)):
        of_member = score[h, p] if p >= 0 else 0.0
        share = 1.0 if p >= 0 else 0.0
        for c in range(len(argument)):
            w, d = share * received[h, c], front[1, h, c]
            left = d - w if d - w > _CANCELLED * d else 0.0
            n = front[0, h, c] - w * of_member + own[h, c] * score[h, c]
            argument[c] += n / max(left + own[h, c], SMALLEST_WEIGHT)


@njit(**INNER)
def keep_move(best: Floats, move: Ints, value: float, p: int, c: int) -> None:
    """Put a move in its place among the best, of which the last leaves."""
    at = len(best) - 1
    while at > 0 and best[at - 1] < value:
        best[at], move[at, 0], move[at, 1] = best[at - 1], move[at - 1, 0], move[at - 1, 1]
        at -= 1
    best[at], move[at, 0], move[at, 1] = value, p, c


@njit(**OUTER)
def screened_move(problem: SwapInstance, state: SwapState, enough: float) -> tuple[float, int]:
    """The best of the few moves that promise most, into state.proposal: its value and size; (−∞, 0) if none is better.

    As in ``best_move``, member number p is removed (p = size: none) and candidate c is added (c = m: none).
    """
    size, fixed, m, heads = state.tally[SIZE], len(problem.pinned), len(problem.base), len(problem.score)
    members, score, weight, base, total = state.members, problem.score, problem.weight, problem.base, state.total
    code, parameter, first_knot, knot = problem.code, problem.parameter, problem.first_knot, problem.knot
    kind, height, free = problem.reward_class, problem.reward_weight, problem.free
    cost, most, grouped = problem.cost, problem.most, len(problem.limits) > 0
    sums, reward, loss = np.empty((size, 2, heads)), np.empty(size), np.zeros(size)
    beside, added = np.empty((size, m)), np.zeros(m)
    copy_cube(state.front, problem.sink)
    for place in range(size):
        i = members[place]
        f = kind[i]
        add_attention(problem.received, score, i, state.front)
        sums_without(weight, score, problem.sink, i, members, size, NO_ITEM, sums[place])
        a = base[i]
        for h in range(heads):
            a += sums[place, 0, h] / max(sums[place, 1, h], SMALLEST_WEIGHT)
        reward[place] = height[i] * table_value(code, parameter, first_knot, knot, f, a)
        averages_with_each(weight, i, score, base[i], sums[place], state.argument)
        beside[place] = -reward[place]
        knots = knot[first_knot[f] : first_knot[f + 1]]
        add_rewards(code[f], parameter[f], knots, height[i], state.argument, beside[place])
        added += beside[place]
        for other in range(size):
            loss[other] += reward[place]
            if other != place:
                a = _argument_without(base[i], sums[place], weight[i], score, members[other])
                loss[other] -= height[i] * table_value(code, parameter, first_knot, knot, f, a)
    now = reward.sum()
    best, move = np.full(TRIED, -np.inf), np.zeros((TRIED, 2), np.int64)
    for p in range(fixed, size + (size < problem.k)):
        leaving = members[p] if p < size else NO_ITEM
        _arguments_without(base, state.front, problem.received[leaving], problem.own, score, leaving, state.argument)
        copy_entries(total, added, m)
        if len(code) == 1 and not problem.weighted:
            add_rewards(code[0], parameter[0], knot, 1.0, state.argument, total)
        else:
            for c in range(m):
                total[c] += height[c] * table_value(code, parameter, first_knot, knot, kind[c], state.argument[c])
        total += now
        if p < size:
            total -= beside[p]
            total -= loss[p]
            if size > max(1, fixed) and now - loss[p] > best[TRIED - 1]:
                keep_move(best, move, now - loss[p], p, m)
        for place in range(size):
            total[members[place]] = np.nan
        for r in range(len(cost)):
            room = most[r] - state.spent[r] + (cost[r, leaving] if p < size else 0.0)
            for c in range(m):
                total[c] = total[c] if cost[r, c] <= room else np.nan
        for c in range(m):
            able = total[c] > best[TRIED - 1] and free[c]
            if able and (not grouped or may_add(problem, state, c, p if p < size else NO_ITEM)):
                keep_move(best, move, total[c], p, c)
    state.tally[EVALUATIONS] += m * 2 + TRIED * size
    return _best_exact(problem, state, best, move, enough)  # type: ignore[no-any-return]


@njit(**INNER)
def _exact_value(problem: SwapInstance, state: SwapState, members: Ints, size: int) -> float:
    """The value of these members, less what they lack of the least sums; −∞ beyond the upper limits."""
    add_costs(problem.cost, members, size, state.spent)
    for r in range(len(problem.cost)):
        if state.spent[r] > problem.most[r]:
            return -np.inf
    value = value_without(problem, members, size, NO_ITEM, state.sums)
    if problem.penalty > 0.0:
        value -= problem.penalty * lacking(problem.cost, problem.least, state.spent, NO_ITEM, NO_ITEM)
    return float(value)


@njit(**INNER)
def _best_exact(problem: SwapInstance, state: SwapState, best: Floats, move: Ints, enough: float) -> tuple[float, int]:
    """The first of these moves that is better than ``enough``, with further exchanges that better it.

    The set is written into state.proposal. Limits of groups are checked for single moves only.
    """
    size, m = state.tally[SIZE], len(problem.base)
    value, after, grouped = enough, 0, len(problem.limits) > 0
    for at in range(TRIED):
        p, c = move[at]
        if best[at] == -np.inf or (after and (grouped or p >= size or c == m)):
            continue
        copy_entries(state.trial, state.proposal if after else state.members, after if after else size)
        if after and (state.trial[p] != state.members[p] or contains(state.trial, after, c)):
            continue
        length = size
        if c == m:
            state.trial[p] = state.members[size - 1]
            length = size - 1
        else:
            state.trial[p] = c
            length = max(after, p + 1, size)
        found = _exact_value(problem, state, state.trial, length)
        if found > value:
            value, after = found, length
            copy_entries(state.proposal, state.trial, length)
            if c == m:
                break
    add_costs(problem.cost, state.members, size, state.spent)
    return (value, after) if after else (-np.inf, 0)
