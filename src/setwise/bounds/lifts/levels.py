"""Compiled search for good levels of a node (node_bounds.py).

The bound is piecewise smooth in z: if i is among the q best, raising z_i^h costs λ_i, and saves λ_i (w_ij + D/r) /
(D + w_ij) for every j among the q best that lifts i. ``improve_levels`` takes steps against this subgradient, of the
length (bound − cut) / ‖subgradient‖² (Polyak), and keeps the best levels.
"""

from __future__ import annotations

import numpy as np

from setwise.bounds.catalog.group_bounds import HUGE
from setwise.bounds.lifts.node_bounds import BOUND, MEMBERS, LiftItems, LiftNode, bound_worths
from setwise.kernels.largest import keep_largest
from setwise.kernels.options import INNER, ZERO, njit


@njit(**INNER)
def find_slopes(items: LiftItems, node: LiftNode, m: int, a: int, q: int, rows: int) -> None:
    """Fill the subgradient of the bound with respect to the levels.

    In one function, because a call that passes a node costs more than a lift.
    """
    heads, slope, steep, lift = len(node.cap), node.slope, node.steep, node.lift
    level, total, own, spare, score = node.level, node.total, node.own, node.spare, node.score
    for t in range(rows):
        others, taken = (q, True) if t < m else (q - 1, False)
        for place in range(q):
            taken = taken or (node.chosen[place] >= 0 and node.chosen[place] == node.column[t])
        for h in range(heads):
            slope[t, h] = steep[t] if taken else 0.0
        for place in range(q if others else 0):
            j = node.chosen[place]
            if j < 0:
                continue
            gain = 0.0
            for h in range(heads):
                rise, slack = score[h, j] - level[t, h], total[t, h] * (level[t, h] - own[t, h]) / others
                gain += max(0.0, rise - spare[t, h, j] * (total[t, h] * rise + slack))
            # Of rows that are candidates the q − 1 largest lifts count.
            if gain <= 0.0 or (t >= m and steep[t] * gain < lift[j, q - 2] * (1.0 - 1e-9)):
                continue
            for h in range(heads):
                rise, slack = score[h, j] - level[t, h], total[t, h] * (level[t, h] - own[t, h]) / others
                if rise > spare[t, h, j] * (total[t, h] * rise + slack):
                    slope[t, h] -= steep[t] * (1.0 - spare[t, h, j] * total[t, h] * (1.0 - 1.0 / others))
    for h in range(heads):
        slope[rows, h] = 0.0
    for place in range(q):
        if node.chosen[place] >= 0:
            add_shared_slopes(node, node.chosen[place], q, rows)


@njit(**INNER)
def add_shared_slopes(node: LiftNode, j: int, q: int, rows: int) -> None:
    """Add what candidate j, one of the q best, has to do with the level of the shared row."""
    steep, times = node.steep[rows], 0
    for place in range(q - 1):
        times += 1 if node.lift[j, place] == node.shared[j] else 0
    for h in range(len(node.cap)):
        level, score = node.level[rows, h], node.score[h, j]
        if node.row_at[j] < 0 and level > score:
            node.slope[rows, h] += steep
        if score > level and node.shared[j] > 0.0:
            node.slope[rows, h] -= steep * times


@njit(**INNER)
def keep_levels(node: LiftNode, a: int, rows: int) -> None:
    """Keep the present levels and worths as the best ones."""
    for t in range(rows + 1):
        for h in range(len(node.cap)):
            node.kept_level[t, h] = node.level[t, h]
    for c in range(a):
        node.kept_worth[c] = node.worth[c]


@njit(**INNER)
def move_levels(node: LiftNode, rows: int, excess: float) -> bool:
    """Take a step that would remove ``excess`` if the bound were linear; False if the subgradient is 0."""
    square = 0.0
    for t in range(rows + 1):
        for h in range(len(node.cap)):
            square += node.slope[t, h] ** 2
    if square <= 0.0:
        return False
    step = excess / square
    for t in range(rows + 1):
        for h in range(len(node.cap)):
            moved = node.level[t, h] - step * node.slope[t, h]
            node.level[t, h] = max(node.own[t, h], min(moved, node.cap[h]))
    return True


@njit(**INNER)
def improve_levels(
    items: LiftItems, node: LiftNode, m: int, a: int, q: int, rows: int, cut: float, rounds: int
) -> float:
    """Bound the node up to ``rounds`` times, with a step after each; keep the best levels and their worths.

    It stops as soon as the bound is at most ``cut``. Without progress steps become shorter.
    """
    least, length, members, stalled = np.inf, 1.0, 0.0, ZERO
    for turn in range(rounds):
        bound = bound_worths(items, node, m, a, q, rows)
        if bound < least:
            stalled = ZERO if bound < least - 1e-3 * abs(least - cut) else stalled + 1
            least, members = bound, node.limit[MEMBERS]
            keep_levels(node, a, rows)
        else:
            stalled += 1
            length *= 0.6
        if bound <= cut or turn == rounds - 1 or stalled > 3 or bound >= HUGE:
            break
        find_slopes(items, node, m, a, q, rows)
        excess = bound - cut if cut > -HUGE else 0.1 * abs(bound)  # nothing known: a tenth
        if not move_levels(node, rows, length * excess):
            break
    node.limit[BOUND], node.limit[MEMBERS] = least, members
    return least


@njit(**INNER)
def restore_levels(node: LiftNode, rows: int) -> None:
    """Return to the best levels."""
    for t in range(rows + 1):
        for h in range(len(node.cap)):
            node.level[t, h] = node.kept_level[t, h]


@njit(**INNER)
def shift_levels(items: LiftItems, node: LiftNode, a: int, q: int, rows: int, rounds: int) -> None:
    """Move the levels of a node without members together: bisection on a common shift, by the sign of the slope.

    Each item lifts only a few of the rows; those that are not lifted now will be as soon as the others have moved. So
    steps by the subgradient, which moves the lifted rows alone, would be slow at first.
    """
    heads, low, high, least = len(node.cap), -1.0, 1.0, np.inf
    size = np.zeros(heads)
    for t in range(rows + 1):
        for h in range(heads):
            size[h] += (node.level[t, h] - node.own[t, h]) / rows if t < rows else 0.0
            node.start[t, h] = node.level[t, h]
    shift = 0.0
    for _ in range(rounds):
        for t in range(rows + 1):
            for h in range(heads):
                moved = node.start[t, h] + shift * size[h]
                node.level[t, h] = max(node.own[t, h], min(moved, node.cap[h]))
        bound = bound_worths(items, node, ZERO, a, q, rows)
        if bound < least:
            least = bound
            keep_levels(node, a, rows)
        find_slopes(items, node, ZERO, a, q, rows)
        slope = 0.0
        for t in range(rows + 1):
            for h in range(heads):
                slope += node.slope[t, h] * size[h]
        if slope > 0.0:
            high = shift
        else:
            low = shift
        shift = 0.5 * (low + high)
    restore_levels(node, rows)


@njit(**INNER)
def start_levels(items: LiftItems, node: LiftNode, a: int, q: int, rows: int) -> None:
    """Start a node without members at the averages beside the candidate that gives q − 1 rows the largest arguments."""
    heads, best, most, chosen = len(node.cap), node.best[:q], -np.inf, ZERO
    total, own, spare, score, base = node.total, node.own, node.spare, node.score, items.base
    for j in range(a):
        best[:] = -np.inf
        for t in range(rows):
            x = base[node.row[t]]
            for h in range(heads):
                share = spare[t, h, j] * total[t, h]
                x += share * own[t, h] + (1.0 - share) * score[h, j]
            if x > best[q - 1] and node.column[t] != j:
                keep_largest(best, q, x)
        together = 0.0
        for place in range(min(q - 1, rows - 1)):
            together += best[place]
        if together > most:
            most, chosen = together, j
    for t in range(rows):
        for h in range(heads):
            share = spare[t, h, chosen] * total[t, h]
            node.level[t, h] = max(own[t, h], share * own[t, h] + (1.0 - share) * score[h, chosen])
    for h in range(heads):
        node.level[rows, h] = score[h, chosen]
