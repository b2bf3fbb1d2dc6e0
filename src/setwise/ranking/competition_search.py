"""Search for the best set of a list whose candidates compete (``model/competition.py``).

An exchange of two items updates all sums W_c by two rows of w, which makes this search of one place at a time some ten
times faster than that of ``swap.py``: greedily grown sets are improved place by place, then the best set with some
members left out is grown again, until the work is done.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setwise._types import Rows
from setwise.model.competition import Competition
from setwise.model.constraints import Constraints
from setwise.model.likeness import VectorLikeness
from setwise.model.rewards import Logistic

if TYPE_CHECKING:
    from setwise.ranking.competition_search_kernels import CompetitionArrays, CompetitionState

LEAST_WORK = 120_000  # rewards that a search computes without a budget, at least
CLIMBS = 5  # it computes so many times k² m of them: growing a set and filling each of its places takes about three
SLICE = 250_000  # rewards between two readings of the clock


def search(
    competition: Competition, constraints: Constraints, budget_ms: float | None = None, seed: int = 1
) -> NDArray[np.intp]:
    """The best set that is found in so many milliseconds; without a budget, by work that depends on k and m alone."""
    from setwise.ranking.competition_search_kernels import BEST_SIZE, WORK, advance

    if budget_ms is not None:
        warm_up()
    began = time.perf_counter()
    order, problem = _arrays(competition, constraints)
    state = _state(problem, seed)
    if budget_ms is None:
        advance(problem, state, max(LEAST_WORK, CLIMBS * problem.k**2 * len(order)))
    else:
        while True:
            advance(problem, state, int(state.tally[WORK]) + SLICE)
            if 1000 * (time.perf_counter() - began) >= budget_ms:
                break
    return order[state.best[: state.tally[BEST_SIZE]]]


@functools.cache
def warm_up() -> None:
    """Load (or, the first time on a machine, compile) the search, for a call with a budget."""
    search(Competition(np.array([1.0, 0.0]), VectorLikeness(np.eye(2)), 1.0), Constraints.plain(2, 1))


def _arrays(competition: Competition, constraints: Constraints) -> tuple[Rows, CompetitionArrays]:
    """The candidates that may be chosen, pinned ones first and then by what they may be worth, and their arrays."""
    from setwise.ranking.competition_search_kernels import CompetitionArrays

    potential, factor, reward = competition.alone, competition.factor, competition.reward
    if factor is not None:  # a loss is smallest beside copies
        least = factor * reward.value(competition.argument - competition.strength)
        potential = np.maximum(potential, least)
    assert isinstance(reward, Logistic)  # f(x) = logistic(scale x + bias)
    pinned = constraints.pinned
    key = np.where(constraints.open, -potential, np.inf)
    key[pinned] = -np.inf
    order = key.argsort(kind="stable")[: np.count_nonzero(constraints.open)]
    sums = constraints.sums
    argument = reward.scale * competition.argument[order] + reward.bias
    v = np.ones(len(order)) if factor is None else factor[order]
    free = np.ones(len(order), bool)
    free[: len(pinned)] = False
    return order, CompetitionArrays(
        argument=argument.astype(np.float32),
        weight=competition.likeness.taken(order).weights(),
        factor=v.astype(np.float32),
        exact=np.stack([argument, v]),
        strength=float(reward.scale * competition.strength),
        free=free,
        pinned=np.arange(len(pinned)),
        potential=potential[order],
        labels=np.ascontiguousarray(constraints.labels[:, order]),
        limits=constraints.limits,
        minimums=constraints.minimums,
        cost=np.ascontiguousarray(sums.cost[:, order]) if len(sums) else np.zeros((0, len(order))),
        least=sums.least,
        most=sums.most,
        k=min(constraints.k, len(order)),
    )


def _state(problem: CompetitionArrays, seed: int) -> CompetitionState:
    from setwise.ranking.competition_search_kernels import ACTIVE, CompetitionState

    m, labels = len(problem.argument), max(int(problem.labels.max(initial=0)) + 1, problem.minimums.shape[1])
    tally = np.zeros(6, np.int64)
    tally[ACTIVE] = m
    return CompetitionState(
        members=np.zeros(problem.k, np.int64),
        best=np.zeros(problem.k, np.int64),
        tally=tally,
        value=np.full(2, -np.inf),
        random=np.array([seed * 0x9E3779B97F4A7C15 % 2**64 or 1], np.uint64),
        copies=np.zeros(m, np.float32),
        total=np.zeros(m, np.float32),
        counts=np.zeros((len(problem.labels), labels), np.int64),
        spent=np.zeros(len(problem.most)),
    )
