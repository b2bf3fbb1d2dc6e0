"""Compiled prices: how the change of a pair of items (signed_changes.py) is divided between the two.

F(S) ≤ Σ_{i∈S} e_i + Σ_{pairs} T_ij, with T_ij = β_i c_ij + β_j c_ji. Charge any part q_ji of T_ij to j and the rest,
q_ij, to i. A pair of an item and an empty place charges −μ to the item and β_i c_i + μ to the place. So

    worth_j  =  e_j + the k − 1 largest of q_ji over i ≠ j and of −μ, any number of times,

and likewise an empty place is worth the k − 1 largest of β_i c_i + μ and 0. F(S) is at most the sum of the k largest
worths, in which the empty place may occur any number of times. Every choice of charges and of μ gives a bound.

A step lowers the charges that are among the largest of an item of large worth, and raises their counterparts by as
much: a subgradient of the bound, smoothed, as ties are many. It touches few rows. The worth of a row in which charges
were raised is at most the former one and their sum; it is computed again only when it can be among the largest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.bounds.lifts.signed_changes import raised
from setwise.kernels.largest import keep_largest
from setwise.kernels.options import INNER, OUTER, njit

FIRST_STEP, SLOWER = 0.3, 20.0  # the length of the first step, relative to the gap; halved after so many
CHARGES, WORTHS = 0.003, 0.01  # widths of the smoothing


class PriceState(NamedTuple):
    """Worths of the items at the current charges."""

    worth: Array  # (n,) upper bounds; exact where not stale
    stale: Array  # (n,) bool
    threshold: Array  # (n,) between the (k − 1)-th and the k-th largest charge of the row
    weight: Array  # (n,) of the item in a step
    best: Array  # (k + 1,) the largest worths
    row: Array  # (k,) scratch
    tally: Array  # (1,) steps


@njit(**INNER)
def worth_of(charge: Array, reward: float, others: int, floor: float, row: Array) -> float:
    """The worth of an item from its charges; ``row`` keeps the others + 1 largest."""
    row[:] = -np.inf
    last = row[others]
    for j in range(len(charge)):
        if charge[j] > last:
            keep_largest(row, others + 1, charge[j])
            last = row[others]
    for place in range(others):
        reward += max(row[place], floor)
    return reward


@njit(**INNER)
def refresh_worths(
    charge: Array, reward: Array, able: Array, k: int, floor: float, empty: float, state: PriceState
) -> float:
    """Compute the worths that can be among the k + 1 largest, or nearly; return the sum of the k largest."""
    while True:
        state.best[:] = empty
        for i in range(len(reward)):
            if able[i]:
                keep_largest(state.best, k + 1, state.worth[i])
        cut, exact = state.best[k] - WORTHS, True
        for i in range(len(reward)):
            if able[i] and state.stale[i] and state.worth[i] >= cut:
                worth = worth_of(charge[i], reward[i], k - 1, floor, state.row)
                state.worth[i] = min(state.worth[i], worth)
                state.threshold[i] = 0.5 * (state.row[k - 2] + state.row[k - 1])
                state.stale[i] = exact = False
        if exact:
            return float(state.best[:k].sum())


@njit(**INNER)
def move_charges(charge: Array, j: int, low: float, step: float, state: PriceState) -> None:
    """Lower the charges of row j that are above ``low`` by up to ``step``, and raise their counterparts."""
    for i in range(len(charge)):
        before = charge[j, i]
        if before > low:
            charge[j, i] -= np.float32(step * min(1.0, (before - low) / CHARGES))
            gone = np.float64(before) - np.float64(charge[j, i])
            other = charge[i, j]
            charge[i, j] = raised(other + gone)
            state.worth[i] += max(np.float64(charge[i, j]) - np.float64(other), 0.0)
            state.stale[i] = True
    state.stale[j] = True


@njit(**OUTER)
def improve_prices(
    charge: Array, reward: Array, able: Array, k: int, floor: float, empty: float, target: float, steps: int,
    state: PriceState,
) -> float:  # fmt: skip
    """Take so many steps; return the least bound seen."""
    least: float = np.inf
    for _ in range(steps):
        bound = refresh_worths(charge, reward, able, k, floor, empty, state)
        least = min(least, bound)
        if bound <= target:
            return float(least)
        middle = 0.5 * (state.best[k - 1] + state.best[k])
        for i in range(len(reward)):
            state.weight[i] = 0.0
            if able[i] and not state.stale[i]:
                state.weight[i] = min(1.0, max(0.0, (state.worth[i] - middle) / WORTHS + 0.5))
        step = FIRST_STEP / (1.0 + state.tally[0] / SLOWER) * (bound - target) / (k * (k - 1))
        for i in range(len(reward)):
            if state.weight[i] > 0.0:
                low = max(state.threshold[i] - 0.5 * CHARGES, floor)
                move_charges(charge, i, low, step * state.weight[i], state)
        state.tally[0] += 1
    return float(min(least, refresh_worths(charge, reward, able, k, floor, empty, state)))
