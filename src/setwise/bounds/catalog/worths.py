"""What rewards count for: a reward y of item i counts ω_i y + δ_i, with weights ω_i ≥ 0 and offsets δ_i of a request.

Weights are those of the user; offsets are the prices of sums (``bounds/prices.py``). A bound on a reward gives one on
what it counts, as ω_i ≥ 0. For a cell it is the largest over its items,

    V_c(y) = max_{i ∈ c} ω_i y + δ_i,

a convex function of y. V_c is computed at some levels of y. Between two levels it lies below its chord, beyond the last
below the line of the largest weight of the cell, and before the first below that of the least: never too low, and exact
where all items of the cell have one weight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise._types import Array, Floats
from setwise.kernels.options import INNER, njit

LEVELS = 16
_LARGEST = 1e30  # levels of rewards beyond are not needed: the last line goes on


class Worths(NamedTuple):
    """What the rewards of groups count for; all arrays are empty where every reward counts as it is."""

    weight: Array  # (G,) of single items
    offset: Array  # (G,)
    knot: Array  # (J,) levels of rewards, ascending, of cells
    level: Array  # (J, G): V_c at each
    slope: Array  # (2, G): the least and the largest weight of the cell


def as_it_is() -> Worths:
    """Every reward counts as it is."""
    return Worths(np.empty(0), np.empty(0), np.empty(0), np.empty((0, 0)), np.empty((2, 0)))


def worths_of_items(weight: Floats, offset: Floats) -> Worths:
    """The worths of items by place."""
    return as_it_is()._replace(weight=weight, offset=offset)


def worths_of_cells(items: Worths, start: Array, shown: Array, low: float, high: float) -> Worths:
    """Those of cells, whose items begin at ``start`` and count where ``shown``; rewards from ``low`` to ``high``."""
    low = float(np.clip(np.nan_to_num(low), -_LARGEST, _LARGEST))
    high = max(float(np.clip(np.nan_to_num(high), -_LARGEST, _LARGEST)), low + 1e-12 * max(1.0, abs(low)))
    knot = low + (high - low) * np.linspace(0.0, 1.0, LEVELS) ** 2
    knot[-1] = high
    first = np.minimum(start[:-1], max(len(shown) - 1, 0))
    level = np.empty((LEVELS, len(first)))
    for y, row in zip(knot, level, strict=True):
        row[:] = np.maximum.reduceat(np.where(shown, items.weight * y + items.offset, -np.inf), first)
    slope = np.stack(
        [
            np.minimum.reduceat(np.where(shown, items.weight, np.inf), first),
            np.maximum.reduceat(np.where(shown, items.weight, -np.inf), first),
        ]
    )
    empty = ~np.isfinite(slope[0])  # cells of which no item counts are never read
    level[:, empty], slope[:, empty] = 0.0, 0.0
    return as_it_is()._replace(knot=knot, level=level, slope=slope)


@njit(**INNER)
def count_rewards(worths: Worths, start: int, reward: Array) -> None:
    """Replace bounds on the rewards of groups from ``start`` on by bounds on what they count."""
    if len(worths.weight):
        for g in range(len(reward)):
            reward[g] = worths.weight[start + g] * reward[g] + worths.offset[start + g]
    if len(worths.knot) == 0:
        return
    knot, last = worths.knot, len(worths.knot) - 1
    for g in range(len(reward)):
        y, c = reward[g], start + g
        if not y < knot[last]:  # NaN, too, which proves nothing
            reward[g] = worths.level[last, c] + worths.slope[1, c] * (y - knot[last])
        elif y <= knot[0]:
            reward[g] = worths.level[0, c] + worths.slope[0, c] * (y - knot[0])
        else:
            at = 1
            while knot[at] < y:
                at += 1
            share = (y - knot[at - 1]) / (knot[at] - knot[at - 1])
            reward[g] = worths.level[at - 1, c] + share * (worths.level[at, c] - worths.level[at - 1, c])
