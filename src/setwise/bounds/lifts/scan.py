"""Compiled scan of a whole catalogue: which items can be in a set better than the best one known.

With the levels of node_bounds.py, worth_j of an item j that is not listed is its reward at the shared level plus its
largest lifts of the rows, the shared one included. So

    F(S)  ≤  worth_x + (the k − 1 largest worths of other items)      for every set S that contains x,

and x is dropped if that does not exceed the best value known. The items of a cell are bounded together: a lift grows
with the weight and with the score, so the largest logit and the largest score of the cell bound it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.bounds.catalog.group_bounds import HUGE, Groups, RewardArrays, norm, products, reward_groups
from setwise.bounds.lifts.node_bounds import RAISED, WIDEST, LiftItems, LiftNode, logit_of
from setwise.kernels.heap import pop_top, push_entry
from setwise.kernels.largest import keep_largest
from setwise.kernels.options import FAST, INNER, NO, NO_ITEM, OUTER, YES, ZERO, njit
from setwise.kernels.reward_slopes import table_slope
from setwise.kernels.softmax import fast_exp


class ScanWork(NamedTuple):
    """Scratch space, and the worths found."""

    free: Array  # (n,) the largest reward of every item that is eligible and not listed, else −∞
    worth: Array  # (n,) the worth of every such item of an opened cell, else −∞
    cell: Array  # (C,) upper bound on the worths of a cell
    heap_key: Array  # (C,)
    heap_cell: Array  # (C,)
    high: Array  # (H,) the largest scores of the groups at hand
    logit: Array  # (G,)
    gain: Array  # (G,)
    lift: Array  # (G, k)
    best: Array  # (k,) the largest worths


@njit(**OUTER)
def rewards_at_level(
    table: RewardArrays, reward_class: Array, score: Array, base: Array, total: Array, level: Array, cap: Array,
    free: Array,
) -> float:  # fmt: skip
    """Fill ``free`` for the eligible items: the reward with every head at the level or the own score.

    Returns the steepest slope from there to the largest argument, of items whose ``free`` is not −∞ before.
    """
    most, low, high = 0.0, np.full(len(table.code), np.inf), np.full(len(table.code), -np.inf)
    for h in range(len(cap)):
        most += cap[h]
    argument = np.empty(len(base))
    for i in range(len(base)):
        argument[i] = x = base[i]
        if total[i] > -np.inf and free[i] > -np.inf:
            for h in range(len(cap)):
                x += max(level[h], score[h, i])
            argument[i], number = x, reward_class[i]
            low[number], high[number] = min(low[number], x), max(high[number], max(x, base[i] + most))
            free[i] = 0.0
        else:
            free[i] = -np.inf
    reward_groups(table, reward_class, argument, free)
    for i in range(len(base)):
        if free[i] != -np.inf:
            raised = free[i] + RAISED * abs(free[i])
            free[i] = max(raised, -HUGE) if raised < HUGE else HUGE
    steep = 0.0
    for number in range(len(low)):
        if low[number] <= high[number]:
            slope = table_slope(
                table.code, table.parameter, table.first_knot, table.knot, number, low[number], high[number]
            )
            steep = max(steep, slope)
    return steep


@njit(**OUTER, fastmath=FAST)
def fill_weights(items: LiftItems, columns: Array) -> None:
    """Fill ``weight`` and ``sink`` of all rows from the keys as columns (H, d, L); a row that is too wide loses them.

    Weights below e^−230 are raised to it.
    """
    heads, listed = items.score.shape
    logit = np.empty(listed)
    for row in range(len(items.row_item)):
        i, wide = items.row_item[row], False
        for h in range(heads):
            query = items.query[i, h]
            own = logit_of(query, items.key[i, h])
            products(query, columns[h], ZERO, logit)
            for j in range(listed):
                wide = wide or logit[j] - own > WIDEST
                items.weight[row, h, j] = fast_exp(min(max(logit[j] - own, -WIDEST), WIDEST))
            items.sink[row, h] = 0.0
            if len(items.sink_key):
                exponent = logit_of(query, items.sink_key[0, h]) - own
                wide = wide or exponent > WIDEST
                items.sink[row, h] = fast_exp(min(max(exponent, -WIDEST), WIDEST))
        if wide:
            items.row_of[i] = -1


@njit(**OUTER)
def fill_given_weights(items: LiftItems) -> None:
    """``fill_weights`` where logits are given."""
    heads, listed = items.score.shape
    for row in range(len(items.row_item)):
        i, wide = items.row_item[row], False
        for h in range(heads):
            own = items.logit[h, i, i]
            for j in range(listed):
                exponent = items.logit[h, i, j] - own
                wide = wide or exponent > WIDEST
                items.weight[row, h, j] = fast_exp(min(max(exponent, -WIDEST), WIDEST))
            items.sink[row, h] = 0.0
            if len(items.sink_key):
                exponent = items.sink_logit[h, i] - own
                wide = wide or exponent > WIDEST
                items.sink[row, h] = fast_exp(min(max(exponent, -WIDEST), WIDEST))
        if wide:
            items.row_of[i] = -1


@njit(**INNER, fastmath=FAST)
def add_group_lifts(
    logit: Array, score: Array, start: int, level: float, total: float, slack: float, gain: Array
) -> None:
    """Add the lift by each group to ``gain``; beyond e^230 a weight counts as infinite."""
    for g in range(len(gain)):
        rise = score[start + g] - level
        w = fast_exp(min(max(logit[g], -WIDEST), WIDEST))
        some = max(0.0, w * rise - slack) / (total + w)
        gain[g] += some if logit[g] <= WIDEST else max(0.0, rise)


@njit(**INNER)
def lift_groups(
    items: LiftItems, node: LiftNode, rows: int, groups: Groups, score: Array, start: int, at: int, size: int,
    single: bool, others: int, work: ScanWork,
) -> None:  # fmt: skip
    """Fill gain[:size]: the sum of the ``others`` largest lifts by an item of each group from ``at`` on.

    Their scores are those from ``start`` on.
    """
    gain, logit, lift = work.gain[:size], work.logit[:size], work.lift
    for h in range(len(node.cap)):
        work.high[h] = -np.inf
        for g in range(size):
            work.high[h] = max(work.high[h], score[h, start + g])
    for g in range(size):
        rise = 0.0
        for h in range(len(node.cap)):
            rise += max(0.0, score[h, start + g] - node.level[rows, h])
        for place in range(others):
            lift[g, place] = node.steep[rows] * rise if rise > 0.0 else 0.0
    for t in range(rows if others else 0):
        i = node.row[t]
        gain[:] = 0.0
        for h in range(len(node.cap)):
            level, total = node.level[t, h], node.total[t, h]
            if level >= work.high[h]:
                continue
            query = items.query[i, h]
            products(query, groups.key[h], at, logit)
            own, length = logit_of(query, items.key[i, h]), 0.0 if single else norm(query)
            for g in range(size):
                logit[g] += (0.0 if single else length * groups.key_radius[h, at + g]) - own
            slack = total * (level - node.own[t, h]) / others
            add_group_lifts(logit, score[h], start, level, total, slack, gain)
        steep = node.steep[t]
        for g in range(size):
            if gain[g] > 0.0 and steep * gain[g] > lift[g, others - 1]:
                keep_largest(lift[g], others, steep * gain[g])
    for g in range(size):
        gain[g] = 0.0
        for place in range(others):
            gain[g] += lift[g, place]


@njit(**INNER)
def sum_with(best: Array, worth: float, places: int) -> float:
    """The sum of the ``places`` largest of ``best`` and any number of items of this worth."""
    total = 0.0
    for place in range(places):
        total += max(best[place], worth)
    return total


@njit(**OUTER)
def scan_catalog(
    items: LiftItems, node: LiftNode, rows: int, cells: Groups, singles: Groups, start: Array, column: Array,
    cell_score: Array, item_score: Array, k: int, cut: float, most: int, work: ScanWork,
) -> tuple[float, float, int]:  # fmt: skip
    """Fill ``worth`` of the items of cells that can matter; open at most about ``most`` items.

    Returns the sum of the k − 1 largest worths; an upper bound on F of sets with an item of a cell that was not opened
    though it can matter, −∞ if there is none; and the number of items opened. ``column`` is where the items of a cell
    begin in ``singles``; if one is needed that is not there, the number is −1, and the result means nothing.
    """
    n_cells, best, open_cells = len(start) - 1, work.best[: max(k - 1, 1)], ZERO
    lift_groups(items, node, rows, cells, cell_score, ZERO, ZERO, n_cells, NO, k - 1, work)
    for c in range(n_cells):
        work.cell[c] = -np.inf
        for i in range(start[c], start[c + 1]):
            work.worth[i] = -np.inf
            work.cell[c] = max(work.cell[c], work.free[i])
        if work.cell[c] > -np.inf:
            work.cell[c] += work.gain[c]
            push_entry(work.heap_key, work.heap_cell, open_cells, work.cell[c], c)
            open_cells += 1
    best[:] = 0.0
    for c in range(len(items.base)):
        keep_largest(best, len(best), node.worth[c])
    opened = ZERO
    while open_cells > 0:
        key, c = work.heap_key[0], work.heap_cell[0]
        reached = key + sum_with(best, key, k - 1)  # with items of this cell, or others that are not opened
        if reached <= cut or opened >= most:
            return best[: k - 1].sum(), (reached if reached > cut else -np.inf), opened
        at = column[c] if len(column) else start[c]
        if at < 0:
            return reached, reached, NO_ITEM
        open_cells -= 1
        pop_top(work.heap_key, work.heap_cell, open_cells)
        size = start[c + 1] - start[c]
        opened += size
        lift_groups(items, node, rows, singles, item_score, start[c], at, size, YES, k - 1, work)
        for g in range(size):
            i = start[c] + g
            if work.free[i] > -np.inf:
                work.worth[i] = work.free[i] + work.gain[g]
                keep_largest(best, len(best), work.worth[i])
    return best[: k - 1].sum(), -np.inf, opened
