"""The compiled climbs of swap search (swap_kernels.py has their moves): starts, perturbations, and a search of many."""

from __future__ import annotations

from typing import Any

import numpy as np

from setwise._types import Array
from setwise.kernels.copy import copy_entries
from setwise.kernels.options import INNER, NO_ITEM, OUTER, njit
from setwise.ranking.screened_moves import screened_move
from setwise.ranking.sum_kernels import add_costs, lacking
from setwise.ranking.swap_kernels import (
    BEST_SIZE,
    CLIMBING,
    EVALUATIONS,
    GROWING,
    IDLE,
    LARGE,
    LEAST_GAIN,
    PHASE,
    SCALE,
    SIZE,
    STARTED,
    VALUE,
    SwapInstance,
    SwapState,
    adopt,
    best_move,
    best_reordering,
    contains,
    may_add,
    value_without,
)


@njit(**INNER)
def draw(random: Any, bound: int) -> int:
    """A pseudo-random whole number below ``bound`` (xorshift)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return np.int64(x % np.uint64(bound))  # type: ignore[return-value]  # compiled, an int64 is an int


@njit(**INNER)
def try_add(problem: SwapInstance, state: SwapState, c: int) -> None:
    """Add candidate c if there is room and no constraint forbids it."""
    size = state.tally[SIZE]
    addable = size < problem.k and problem.free[c] and not contains(state.members, size, c)
    if addable and may_add(problem, state, c, NO_ITEM):
        copy_entries(state.proposal, state.members, size)
        state.proposal[size] = c
        adopt(problem, state, state.proposal, size + 1)


@njit(**INNER)
def perturb(problem: SwapInstance, state: SwapState) -> None:
    """Return to the best set, remove some members at random and add one fewer at random."""
    fixed, size = len(problem.pinned), state.tally[BEST_SIZE]
    copy_entries(state.proposal, state.best, size)
    most = max(1, (size - fixed) // 2)
    if len(problem.cost) and size > LARGE:  # to grow half of a large set again takes long
        most = min(most, LARGE)
    leaving = min(2 + draw(state.random, most), size - fixed)
    for _ in range(leaving):
        removed = fixed + draw(state.random, size - fixed)
        size -= 1
        state.proposal[removed] = state.proposal[size]
    adopt(problem, state, state.proposal, size)
    joining = leaving - 1 if not len(problem.cost) else min(draw(state.random, 4), leaving - 1)
    for _ in range(joining):
        try_add(problem, state, draw(state.random, len(problem.base)))


@njit(**INNER)
def start_climb(problem: SwapInstance, state: SwapState) -> None:
    """Start a climb: from the pinned items, then from them and each start item, then from a perturbed best set."""
    started = state.tally[STARTED]
    state.tally[STARTED] += 1
    state.tally[PHASE] = GROWING
    if len(problem.cost) and started > 0:  # growth at other prices leads to other sets
        state.value[SCALE] = 0.6 + 0.1 * draw(state.random, 9)
    if started > len(problem.start_items):
        perturb(problem, state)
        return
    fixed = len(problem.pinned)
    copy_entries(state.proposal, problem.pinned, fixed)
    adopt(problem, state, state.proposal, fixed)
    if started > 0:
        try_add(problem, state, problem.start_items[started - 1])


@njit(**INNER)
def is_first_growth(state: SwapState) -> bool:
    """Whether the first climb has not grown to its full size yet, or not even started."""
    tally = state.tally
    return bool(tally[STARTED] == 0 or (tally[STARTED] == 1 and tally[PHASE] == GROWING))


@njit(**OUTER)
def advance(problem: SwapInstance, state: SwapState, evaluations: int, whole: bool) -> None:
    """Continue the search until this many sets have been evaluated; if ``whole``, the first growth is finished."""
    tally, value = state.tally, state.value
    while tally[EVALUATIONS] < evaluations or tally[STARTED] == 0 or (whole and is_first_growth(state)):
        if tally[PHASE] == IDLE:
            start_climb(problem, state)
        growing = tally[PHASE] == GROWING
        least = value[VALUE] + LEAST_GAIN * abs(value[VALUE])
        if len(problem.cost) and tally[SIZE] > LARGE and not growing:
            estimate, size = screened_move(problem, state, least)
        else:
            estimate, size = best_move(problem, state, growing)
        if not growing and len(problem.slot) and best_reordering(problem, state, estimate):
            size = tally[SIZE]
        better = size > 0
        if better and not growing:
            proposed = value_without(problem, state.proposal, size, NO_ITEM, state.sums)
            if problem.penalty > 0.0:
                add_costs(problem.cost, state.proposal, size, state.spent)
                proposed -= problem.penalty * lacking(problem.cost, problem.least, state.spent, NO_ITEM, NO_ITEM)
            better = proposed > least
        if better:
            adopt(problem, state, state.proposal, size)
        else:
            tally[PHASE] = CLIMBING if growing else IDLE


@njit(**OUTER)
def end_first_growth(problem: SwapInstance, state: SwapState, order: Array) -> None:
    """End an unfinished first growth at once: add the first candidates in this order, up to k.

    Sets of both sizes count: the one before and the one after.
    """
    if not is_first_growth(state):
        return
    tally, members = state.tally, state.members
    for c in order:
        size = tally[SIZE]
        if size == problem.k:
            break
        if problem.free[c] and not contains(members, size, c) and may_add(problem, state, c, NO_ITEM):
            members[size] = c
            tally[SIZE] += 1
            for r in range(len(problem.cost)):
                state.spent[r] += problem.cost[r, c]
            for group in range(len(problem.limits)):
                if problem.labels[group, c] >= 0:
                    state.counts[group, problem.labels[group, c]] += 1
    copy_entries(state.proposal, members, tally[SIZE])
    adopt(problem, state, state.proposal, tally[SIZE])
    tally[PHASE] = CLIMBING
