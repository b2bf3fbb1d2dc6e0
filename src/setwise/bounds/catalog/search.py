"""The search of whole_catalog.py: take the family of sets with the largest bound, divide it, bound the parts.

Items are numbered by cell, from the first of the first cell on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from setwise._types import Array
from setwise.bounds.catalog.frontier import (
    BEST,
    HEAP,
    LOST,
    NODES,
    OPENED,
    Tree,
    insert,
    insert_item,
    note_set,
    pop,
    push,
)
from setwise.bounds.catalog.group_bounds import (
    BOTH,
    HUGE,
    LATE,
    LEFT,
    MEAN,
    NOW,
    OPEN,
    REWARD,
    SOON,
    Groups,
    Members,
    Regarded,
    Table,
    regard,
    reward_groups,
    reward_member,
    tame,
)
from setwise.bounds.catalog.score_order import INNER, OUTER, Order, Scored, late_caps, place_in

_MOST = 4096  # items regarded one by one to sharpen the bound of one node; beyond, cells stand for theirs


class Problem(NamedTuple):
    """The catalogue in cells, and what the user makes of it."""

    table: Table
    cells: Groups
    items: Groups
    start: Array  # (C + 1,): the items of cell c are start[c] to start[c + 1]
    scored_cells: Scored
    scored_items: Scored
    size: Array  # (C,) how many items of the cell may be shown
    order: Order


class Work(NamedTuple):
    """Scratch space."""

    cells: Regarded
    items: Regarded
    limit: Array  # (H, C) what items of a cell score at most, given what came before
    worth: Array  # (C,)
    rest: Array  # (H,) what later members score at most
    child: Array  # (n,)
    child_key: Array  # (n,)
    best: Array  # (k,)
    chosen: Array  # (k,) the items of largest worth
    opened: Array  # (C,)


@njit(**INNER)
def comes_after(rank: Array, total: Array, i: int, last: int) -> bool:
    """Whether item i may be shown and follows ``last`` in the order: listed items by rank, then the others by σ."""
    if total[i] == -np.inf:
        return False
    if last < 0:
        return True
    if rank[last] >= 0:
        return bool(rank[i] < 0 or rank[i] > rank[last])
    if rank[i] >= 0 or total[i] > total[last]:
        return False
    return bool(total[i] < total[last] or i > last)


@njit(**INNER)
def threshold(order: Order, first: float, level: int, levels: int) -> float:
    """Thresholds of σ: close together below ``first``, wide apart farther down."""
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
def bound_others(problem: Problem, tree: Tree, work: Work, node: int, first: float, levels: int, q: int) -> None:
    """others[node]: what up to q − 1 members add at most if their σ is below a threshold."""
    order, heads = problem.order, len(work.rest)
    argument, reward, best = work.cells.row[NOW], work.cells.row[SOON], work.best[: q - 1]
    for level in range(levels):
        at = place_in(order.edge, order.step[0], len(order.cap) - 1, threshold(order, first, level, levels))
        argument[:] = problem.scored_cells.base
        for h in range(heads):
            mean, opening = work.cells.head[MEAN, h], work.cells.head[OPEN, h]
            cap = min(work.rest[h], order.cap[at, h])
            for c in range(len(argument)):
                argument[c] += mean[c] + opening[c] * max(cap - mean[c], 0.0)
        reward[:] = 0.0
        reward_groups(problem.table, problem.cells.reward_class, argument, reward)
        tame(reward)
        best[:] = 0.0
        if q > 1:
            for c in range(len(reward)):
                if reward[c] > best[q - 2]:
                    insert(best, reward[c], problem.size[c])
        tree.others[node, level] = best.sum()


@njit(**INNER)
def bound_smaller(size: Array, reward: Array, left: Array, best: Array) -> float:
    """At most this, if no more join than ``best`` has room for: the rewards it receives, and the most they leave."""
    most = -np.inf
    best[:] = -np.inf
    for c in range(len(size)):
        if size[c]:
            most = max(most, left[c])
            insert(best, reward[c], size[c])
    total, highest = 0.0, -np.inf
    for place in range(len(best)):
        total += best[place]
        highest = max(highest, total)
    return highest + most


@njit(**INNER)
def open_cell(
    problem: Problem, tree: Tree, members: Members, work: Work, node: int, c: int, q: int, children: int, best: Array
) -> int:
    """Regard the items of cell c one by one: children, their worth into ``best``, and the bounds of the cell anew."""
    tree.number[OPENED] += 1
    m, start, size = tree.depth[node], problem.start[c], problem.start[c + 1] - problem.start[c]
    scored, order, found = problem.scored_items, problem.order, work.items
    last, reward, left = members.item[m - 1] if m else -1, -HUGE, -HUGE
    late_caps(scored, order, True, work.rest, start, start + size, found.head[LATE])
    regard(problem.table, problem.items, scored.score, scored.base, members, m, work.rest, q - 1, start, size, found)
    for g in range(size):
        if not comes_after(order.rank, scored.total, start + g, last):
            continue
        reward, left = max(reward, found.row[REWARD, g]), max(left, found.row[LEFT, g])
        insert_item(best, work.chosen, found.row[REWARD, g] + found.row[LEFT, g] / q, start + g)
        if q == 1:
            members.item[m] = start + g
            note_set(tree, members, m + 1, found.row[BOTH, g])
        elif found.row[BOTH, g] + tree.others[node, 0] > tree.value[BEST]:
            work.child[children], work.child_key[children] = start + g, found.row[BOTH, g]
            children += 1
    work.cells.row[REWARD, c], work.cells.row[LEFT, c] = reward, left
    return children


@njit(**INNER)
def bound_exactly(
    problem: Problem, tree: Tree, members: Members, work: Work, node: int, q: int, best: Array
) -> tuple[float, int]:
    """The sum of the q largest (reward + left / q) after the members; cells are opened until no other can matter."""
    children: Any = np.int64(0)  # literals would be compiled apart
    opened, size, worth = 0, problem.size, work.worth
    for c in range(len(size)):
        worth[c] = work.cells.row[REWARD, c] + work.cells.row[LEFT, c] / q if size[c] else -np.inf
    best[:] = -np.inf
    for c in range(len(size)):
        insert(best, worth[c], size[c])
    if best.sum() <= tree.value[BEST]:
        return float(best.sum()), children
    best[:] = -np.inf
    while opened < _MOST:
        chosen: Any = np.int64(-1)
        most = best[q - 1]
        for c in range(len(size)):
            if worth[c] > most and not work.opened[c]:
                chosen, most = c, worth[c]
        if chosen < 0:
            complete(problem, tree, members, work, tree.depth[node], q, best[q - 1])
            return float(best.sum()), children
        work.opened[chosen] = True
        opened += size[chosen]
        children = open_cell(problem, tree, members, work, node, chosen, q, children, best)
    for c in range(len(size)):
        if not work.opened[c]:
            insert(best, worth[c], size[c])
    return float(best.sum()), children


@njit(**INNER)
def caps(problem: Problem, members: Members, m: int, work: Work) -> None:
    """work.rest: what comes after the members scores at most, in each head; −∞ if nothing does."""
    work.rest[:] = problem.order.cap[0]
    if m:
        last = members.item[m - 1]
        late_caps(problem.scored_items, problem.order, True, work.rest, last, last + 1, work.items.head[LATE])
        work.rest[:] = work.items.head[LATE][:, 0]


@njit(**INNER)
def divide(problem: Problem, tree: Tree, members: Members, work: Work, node: int, q: int, key: float) -> None:
    """Bound the sets that begin like ``node`` and go on with up to q items, and put its children into the heap."""
    m, size, order = tree.depth[node], problem.size, problem.order
    caps(problem, members, m, work)
    if work.rest[0] == -np.inf:
        return
    for h in range(len(work.rest)):
        work.limit[h] = np.minimum(problem.scored_cells.score[h], work.rest[h])
    late_caps(problem.scored_cells, order, False, work.rest, np.int64(0), len(size), work.cells.head[LATE])
    regard(
        problem.table, problem.cells, work.limit, problem.scored_cells.base, members, m, work.rest, q - 1,
        np.int64(0), len(size), work.cells,
    )  # fmt: skip
    work.opened[:] = False
    total = problem.scored_items.total
    first, levels = (total[members.item[m - 1]], tree.levels[1]) if m else (order.edge[0], tree.levels[0])
    bound_others(problem, tree, work, node, first, levels, q)
    bound, children = bound_exactly(problem, tree, members, work, node, q, np.empty(q))
    if q > 1:
        best = work.best[: q - 1]
        bound = max(bound, bound_smaller(size, work.cells.row[REWARD], work.cells.row[LEFT], best))
        tree.others[node, :levels] = np.minimum(tree.others[node, :levels], np.maximum(best, 0.0).sum())
    key = min(key, bound)
    push_items(problem, tree, work, node, children, key)
    if key <= tree.value[BEST]:
        return
    for c in range(len(size)):
        if size[c] and not work.opened[c] and work.cells.row[BOTH, c] + tree.others[node, 0] > tree.value[BEST]:
            level = level_of(order, first, min(first, problem.scored_cells.total[c]), levels)
            mine = min(key, work.cells.row[BOTH, c] + tree.others[node, level])
            if mine > tree.value[BEST]:
                push(tree, mine, node, -2 - c)


@njit(**INNER)
def push_items(problem: Problem, tree: Tree, work: Work, node: int, children: int, key: float) -> None:
    """Put the children into the heap that could be better than the best set."""
    order, total, m = problem.order, problem.scored_items.total, tree.depth[node]
    first, levels = (total[tree.item[node]], tree.levels[1]) if m else (order.edge[0], tree.levels[0])
    for place in range(children):
        level = level_of(order, first, total[work.child[place]], levels)
        mine = min(key, work.child_key[place] + tree.others[node, level])
        if mine > tree.value[BEST]:
            push(tree, mine, node, work.child[place])


@njit(**INNER)
def load(problem: Problem, members: Members, a: int, i: int) -> None:
    """Make item i member a."""
    members.item[a], members.base[a] = i, problem.scored_items.base[i]
    members.reward_class[a] = problem.items.reward_class[i]
    for h in range(members.query.shape[1]):
        members.reach[a, h] = problem.items.reach[h, i]
        members.score[a, h] = problem.scored_items.score[h, i]
        for e in range(members.query.shape[2]):
            members.query[a, h, e], members.key[a, h, e] = problem.items.query[h, e, i], problem.items.key[h, e, i]


@njit(**INNER)
def value_of(problem: Problem, members: Members, m: int) -> float:
    """Sum the rows of attention of the first m members, and return their value as a set."""
    value, argument = np.zeros(1), np.empty(1)
    for a in range(m):
        argument[0] = members.base[a]
        for h in range(members.query.shape[1]):
            argument[0] += sum_row(members, m, a, h)
        reward_member(problem.table, members.reward_class[a], argument, value)
    tame(value)
    return float(value[0])


@njit(**INNER)
def complete(problem: Problem, tree: Tree, members: Members, work: Work, m: int, q: int, least: float) -> None:
    """Try the m members and the q items of largest worth as a set, if there are so many."""
    if least > -np.inf:
        for place in range(q):
            load(problem, members, m + place, work.chosen[place])
        note_set(tree, members, m + q, value_of(problem, members, m + q))


@njit(**INNER)
def sum_row(members: Members, m: int, a: int, h: int) -> float:
    """Fill top, weighted and weight of member a in head h; return its average over the members and the sink."""
    top, weighted, weight, query = -np.inf, 0.0, 0.0, members.query[a, h]
    for b in range(m + len(members.sink_key)):
        key, score = (
            (members.key[b, h], members.score[b, h]) if b < m else (members.sink_key[0, h], members.sink_score[h])
        )
        logit = 0.0
        for e in range(len(query)):
            logit += query[e] * key[e]
        before, top = top, max(top, logit)
        shrink, w = math.exp(before - top), math.exp(logit - top)
        weighted, weight = weighted * shrink + w * score, weight * shrink + w
    members.top[a, h], members.weighted[a, h], members.weight[a, h] = top, weighted, weight
    return float(weighted / weight)


@njit(**OUTER)
def search(problem: Problem, tree: Tree, members: Members, work: Work, k: int, steps: int) -> bool:
    """Take so many steps; true when nothing is left that could be better than the best set met."""
    for _ in range(steps):
        if not tree.number[HEAP] or tree.key[0] <= tree.value[BEST]:
            return True
        key, node, what = pop(tree)
        if what >= 0:  # the beginning of the node and then this item: a node of its own
            if tree.number[NODES] == len(tree.parent):
                tree.value[LOST] = max(tree.value[LOST], key)
                continue
            parent, node = node, tree.number[NODES]
            tree.number[NODES] += 1
            tree.parent[node], tree.item[node], tree.depth[node] = parent, what, tree.depth[parent] + 1
        m, at = tree.depth[node], node
        for a in range(m - 1, -1, -1):
            load(problem, members, a, tree.item[at])
            at = tree.parent[at]
        value = value_of(problem, members, m)
        if what >= 0:
            note_set(tree, members, m, value)
        if m == k:
            continue
        if what >= -1:
            divide(problem, tree, members, work, node, k - m, key)
            continue
        caps(problem, members, m, work)
        children = open_cell(problem, tree, members, work, node, -2 - what, k - m, np.int64(0), work.best[:1])
        push_items(problem, tree, work, node, children, key)
    return not tree.number[HEAP] or bool(tree.key[0] <= tree.value[BEST])
