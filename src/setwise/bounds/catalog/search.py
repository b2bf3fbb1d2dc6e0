"""Compiled best-first search over prefixes, for whole_catalog.py.

Each step pops the entry with the largest upper bound, splits it and bounds the parts.
Items are numbered by cell, from the first item of the first cell on.

The vectors of items are read cell by cell, and may not be at hand (reader.py): a step that needs such a cell stops, and
is taken again from its beginning when the cell is there. The result is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.bounds.catalog.frontier import (
    BEST,
    GROUP,
    HEAP,
    KEY,
    LOST,
    MISSING,
    NODE,
    NODES,
    OPENED,
    ROOT,
    Frontier,
    pop_group,
    push_group,
    record_set,
)
from setwise.bounds.catalog.group_bounds import (
    AFTER,
    BOTH,
    HUGE,
    LEFT,
    MEAN,
    NOW,
    OPEN,
    REWARD,
    SOON,
    GroupBounds,
    Members,
    bound_groups,
    clip_rewards,
    reward_groups,
)
from setwise.bounds.catalog.open_cells import OpenCells, gather_cells, keep_open_cells
from setwise.bounds.catalog.prefix_members import CatalogArrays, column_of, set_member, value_of
from setwise.bounds.catalog.score_order import Order, caps_after, comes_after, place_of
from setwise.bounds.catalog.worths import count_rewards
from setwise.kernels.copy import copy_entries
from setwise.kernels.largest import keep_largest_labelled, keep_largest_repeated
from setwise.kernels.options import INNER, NO, NO_ITEM, OUTER, YES, ZERO, njit

_MOST = 4096  # items bounded one by one for one node; beyond, the bounds of their cells are used


class Workspace(NamedTuple):
    """Scratch space."""

    open: OpenCells
    cells: GroupBounds  # of the open cells
    items: GroupBounds
    limit: Array  # (H, C) upper bound on the scores of an open cell's items after the prefix
    worth: Array  # (C,) by number of the cell
    rest: Array  # (H,) upper bound on the scores of later members
    child: Array  # (n,)
    child_key: Array  # (n,)
    best: Array  # (k,)
    chosen: Array  # (k,) the items of largest ``worth``, and
    chosen_label: Array  # (k,) their labels
    opened: Array  # (C,) whether the items of an open cell were bounded one by one


@njit(**INNER)
def room_for(data: CatalogArrays, members: Members, m: int, i: int) -> int:
    """How many more items of item i's label may be added to the first m members."""
    if not len(data.label) or data.label[i] < 0:
        return len(data.order.rank)
    room = data.most[0]
    for a in range(m):
        room -= 1 if data.label[members.item[a]] == data.label[i] else 0
    return int(room)


@njit(**INNER)
def threshold(order: Order, first: float, level: int, levels: int) -> float:
    """Thresholds of σ: dense just below ``first``, sparse further down."""
    lowest = order.edge[-1] - order.step[0] * (len(order.cap) - len(order.edge) - 1)
    return float(first - (first - lowest) * (level / levels) ** 2)


@njit(**INNER)
def level_of(order: Order, first: float, total: float, levels: int) -> int:
    """The last level that is not below ``total``."""
    level = 0
    while level + 1 < levels and threshold(order, first, level + 1, levels) >= total:
        level += 1
    return level


@njit(**INNER)
def bound_others(
    data: CatalogArrays, frontier: Frontier, work: Workspace, node: int, first: float, levels: int, q: int, sink: int
) -> None:
    """Fill others[node]: the largest sum of rewards of up to q − 1 members whose σ is below a threshold.

    Without members and a sink, no average exceeds the largest score below the threshold.
    """
    order, heads, count = data.order, len(work.rest), frontier.cells[node]
    argument, reward, best = work.cells.row[NOW, :count], work.cells.row[SOON, :count], work.best[: q - 1]
    alone = frontier.depth[node] == 0 and not sink
    for level in range(levels):
        at = place_of(order.edge, order.step[0], len(order.cap) - 1, threshold(order, first, level, levels))
        copy_entries(argument, work.open.scored.base, count)
        for h in range(heads):
            mean, opening = work.cells.head[MEAN, h], work.cells.head[OPEN, h]
            cap = min(work.rest[h], order.cap[at, h])
            most = cap if alone else np.inf
            for c in range(count):
                argument[c] += min(mean[c] + opening[c] * max(cap - mean[c], 0.0), most)
        reward[:] = 0.0
        reward_groups(data.table, work.open.groups.reward_class, argument, reward)
        count_rewards(work.open.worths, ZERO, reward)
        clip_rewards(reward)
        best[:] = 0.0
        if q > 1:
            for c in range(count):
                if reward[c] > best[q - 2]:
                    keep_largest_repeated(best, reward[c], work.open.size[c])
        frontier.others[node, level] = best.sum()


@njit(**INNER)
def bound_fewer(size: Array, reward: Array, left: Array, count: int, best: Array) -> float:
    """Upper bound if at most len(best) items are added: the sum of the largest rewards, and the largest LEFT."""
    most = -np.inf
    best[:] = -np.inf
    for c in range(count):
        most = max(most, left[c])
        keep_largest_repeated(best, reward[c], size[c])
    total, highest = 0.0, -np.inf
    for place in range(len(best)):
        total += best[place]
        highest = max(highest, total)
    return highest + most


@njit(**INNER)
def expand_cell(
    data: CatalogArrays,
    frontier: Frontier,
    members: Members,
    work: Workspace,
    node: int,
    c: int,
    q: int,
    children: int,
    best: Array,
) -> tuple[int, float, float]:
    """Bound the items of cell c one by one: collect children and fill ``best``.

    Return the number of children so far, and the largest REWARD and LEFT of the cell.
    """
    frontier.tally[OPENED] += 1
    m, start, size = frontier.depth[node], data.start[c], data.start[c + 1] - data.start[c]
    scored, order, found = data.scored_items, data.order, work.items
    last, reward, left = members.item[m - 1] if m else -1, -HUGE, -HUGE
    caps_after(scored, order, YES, work.rest, start, start + size, found.head[AFTER])
    bound_groups(
        data.table, data.items, data.item_worths, scored.score, scored.base, members, m, work.rest, q - 1,
        start, column_of(data, c), size, found,
    )  # fmt: skip
    for g in range(size):
        room = room_for(data, members, m, start + g) if comes_after(order.rank, scored.total, start + g, last) else 0
        if room <= 0:
            continue
        reward, left = max(reward, found.row[REWARD, g]), max(left, found.row[LEFT, g])
        worth, label = found.row[REWARD, g] + found.row[LEFT, g] / q, data.label[start + g] if len(data.label) else -1
        keep_largest_labelled(best, work.chosen, work.chosen_label, worth, start + g, label, room)
        if q == 1:
            members.item[m] = start + g
            record_set(frontier, members, m + 1, found.row[BOTH, g])
        elif found.row[BOTH, g] + frontier.others[node, 0] > frontier.value[BEST]:
            work.child[children], work.child_key[children] = start + g, found.row[BOTH, g]
            children += 1
    return children, reward, left


@njit(**INNER)
def bound_by_items(
    data: CatalogArrays, frontier: Frontier, members: Members, work: Workspace, node: int, q: int, best: Array
) -> tuple[float, int]:
    """The sum of the q largest (REWARD + LEFT / q) after the prefix; cells that may be among them are opened.

    If one of them is not at hand, it is stored as MISSING, and the result means nothing.
    """
    children, opened, worth, count = ZERO, 0, work.worth, frontier.cells[node]
    size, number, row = work.open.size, work.open.number, work.cells.row
    worth[:] = -np.inf
    best[:] = -np.inf
    for c in range(count):
        worth[number[c]] = row[REWARD, c] + row[LEFT, c] / q
        keep_largest_repeated(best, worth[number[c]], size[c])
    if best.sum() <= frontier.value[BEST]:
        return float(best.sum()), children
    best[:] = -np.inf
    while opened < _MOST:
        chosen, most = NO_ITEM, best[q - 1]
        for c in range(count):
            if not work.opened[c] and worth[number[c]] > most:
                chosen, most = c, worth[number[c]]
        if chosen < 0:
            try_completion(data, frontier, members, work, frontier.depth[node], q, best[q - 1])
            return float(best.sum()), children
        if column_of(data, number[chosen]) < 0:
            frontier.tally[MISSING] = number[chosen]
            return 0.0, children
        work.opened[chosen] = True
        opened += size[chosen]
        children, row[REWARD, chosen], row[LEFT, chosen] = expand_cell(
            data, frontier, members, work, node, number[chosen], q, children, best
        )
    for c in range(count):
        if not work.opened[c]:
            keep_largest_repeated(best, worth[number[c]], size[c])
    return float(best.sum()), children


@njit(**INNER)
def caps_of_rest(data: CatalogArrays, members: Members, m: int, work: Workspace) -> None:
    """Fill work.rest: the largest score after the prefix in each head; −∞ if no item follows."""
    copy_entries(work.rest, data.order.cap[0], len(work.rest))
    if m:
        last = members.item[m - 1]
        caps_after(data.scored_items, data.order, YES, work.rest, last, last + 1, work.items.head[AFTER])
        copy_entries(work.rest, work.items.head[AFTER, :, 0], len(work.rest))


@njit(**INNER)
def expand_prefix(
    data: CatalogArrays, frontier: Frontier, members: Members, work: Workspace, node: int, q: int, key: float
) -> None:
    """Bound the sets that start with the prefix ``node`` and have up to q more items; push its children."""
    m, order, cells = frontier.depth[node], data.order, work.open
    caps_of_rest(data, members, m, work)
    if work.rest[0] == -np.inf:
        return
    count = gather_cells(data, frontier, node, cells)
    for h in range(len(work.rest)):
        for c in range(count):
            work.limit[h, c] = min(cells.scored.score[h, c], work.rest[h])
    caps_after(cells.scored, order, NO, work.rest, ZERO, count, work.cells.head[AFTER])
    bound_groups(
        data.table, cells.groups, cells.worths, work.limit, cells.scored.base, members, m, work.rest, q - 1,
        ZERO, ZERO, count, work.cells,
    )  # fmt: skip
    work.opened[:count] = False
    total = data.scored_items.total
    first, levels = (total[members.item[m - 1]], frontier.levels[1]) if m else (order.edge[0], frontier.levels[0])
    bound_others(data, frontier, work, node, first, levels, q, len(members.sink_key))
    bound, children = bound_by_items(data, frontier, members, work, node, q, np.empty(q))
    if frontier.tally[MISSING] >= 0:
        return
    best = work.best[: q - 1]
    if q > 1:
        bound = max(bound, bound_fewer(cells.size, work.cells.row[REWARD], work.cells.row[LEFT], count, best))
        together = 0.0
        for place in range(q - 1):
            together += max(best[place], 0.0)
        for level in range(levels):
            frontier.others[node, level] = min(frontier.others[node, level], together)
    key = min(key, bound)
    push_items(data, frontier, work, node, children, key)
    if key <= frontier.value[BEST]:
        return
    for c in range(count):
        if not work.opened[c] and work.cells.row[BOTH, c] + frontier.others[node, 0] > frontier.value[BEST]:
            level = level_of(order, first, min(first, cells.scored.total[c]), levels)
            mine = min(key, work.cells.row[BOTH, c] + frontier.others[node, level])
            if mine > frontier.value[BEST]:
                push_group(frontier, mine, node, -2 - cells.number[c])
    keep_open_cells(frontier, cells, work.cells, node, q, best)


@njit(**INNER)
def push_items(data: CatalogArrays, frontier: Frontier, work: Workspace, node: int, children: int, key: float) -> None:
    """Push the children that could be better than the best set."""
    order, total, m = data.order, data.scored_items.total, frontier.depth[node]
    first, levels = (total[frontier.item[node]], frontier.levels[1]) if m else (order.edge[0], frontier.levels[0])
    for place in range(children):
        level = level_of(order, first, total[work.child[place]], levels)
        mine = min(key, work.child_key[place] + frontier.others[node, level])
        if mine > frontier.value[BEST]:
            push_group(frontier, mine, node, work.child[place])


@njit(**INNER)
def try_completion(
    data: CatalogArrays, frontier: Frontier, members: Members, work: Workspace, m: int, q: int, least: float
) -> None:
    """Evaluate the set of the m members and the q items of largest ``worth``, if there are q."""
    if least > -np.inf:
        for place in range(q):
            set_member(data, members, m + place, work.chosen[place])
        record_set(frontier, members, m + q, value_of(data, members, m + q))


@njit(**INNER)
def next_entry(frontier: Frontier) -> tuple[float, int, int]:
    """The entry that waits for a cell, or that of the largest bound: the bound, the node, and ROOT or a cell's code.

    The node is −1 if there is no room for it.
    """
    if frontier.tally[NODE] >= 0:
        key, node, group = frontier.value[KEY], frontier.tally[NODE], frontier.tally[GROUP]
        frontier.tally[NODE] = frontier.tally[MISSING] = NO_ITEM
        return key, node, group
    key, node, group = pop_group(frontier)
    if group < 0:
        return key, node, group
    if frontier.tally[NODES] == len(frontier.parent):  # the prefix and then this item: a new node
        frontier.value[LOST] = max(frontier.value[LOST], key)
        return key, NO_ITEM, group
    parent, node = node, frontier.tally[NODES]
    frontier.tally[NODES] += 1
    frontier.parent[node], frontier.item[node], frontier.depth[node] = parent, group, frontier.depth[parent] + 1
    frontier.first_cell[node], frontier.cells[node] = frontier.first_cell[parent], frontier.cells[parent]
    return key, node, NO_ITEM  # ROOT


@njit(**OUTER)
def search_prefixes(
    data: CatalogArrays, frontier: Frontier, members: Members, work: Workspace, k: int, steps: int
) -> bool:
    """Take ``steps`` steps; return whether no open entry could be better than the best set found.

    A step that needs a cell that is not at hand is the last one, and the first of the next call.
    """
    for _ in range(steps):
        if frontier.tally[NODE] < 0 and (not frontier.tally[HEAP] or frontier.key[0] <= frontier.value[BEST]):
            return True
        opened = frontier.tally[OPENED]
        key, node, group = next_entry(frontier)
        if node < 0:
            continue
        m, at = frontier.depth[node], node
        for a in range(m - 1, -1, -1):
            set_member(data, members, a, frontier.item[at])
            at = frontier.parent[at]
        value = value_of(data, members, m)
        if m:
            record_set(frontier, members, m, value)
        if m == k:
            continue
        if group == ROOT:  # a prefix: the root, or the new node
            expand_prefix(data, frontier, members, work, node, k - m, key)
        elif column_of(data, -2 - group) < 0:
            frontier.tally[MISSING] = -2 - group
        else:
            caps_of_rest(data, members, m, work)
            children, _, _ = expand_cell(data, frontier, members, work, node, -2 - group, k - m, ZERO, work.best[:1])
            push_items(data, frontier, work, node, children, key)
        if frontier.tally[MISSING] >= 0:
            frontier.value[KEY], frontier.tally[NODE], frontier.tally[GROUP] = key, node, group
            frontier.tally[OPENED] = opened
            return False
    return not frontier.tally[HEAP] or bool(frontier.key[0] <= frontier.value[BEST])
