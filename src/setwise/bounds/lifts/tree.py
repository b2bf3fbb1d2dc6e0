"""Compiled best-first search over listed items with the bounds of node_bounds.py.

A node stands for the sets that contain its members C and up to q of its candidates. Its candidates are sorted by worth;
the t-th child contains the t-th candidate and none of those before it. Before the child is bounded itself, its bound is
that of the parent with the t-th worth and the next q − 1 worths: F(S) ≤ Σ_C f_c + Σ_{j∈R} worth_j holds for every R.
Likewise a later candidate j is dropped from the child if the members, the t-th, j and the q − 2 best between them are
not worth more than the best set known. With one place left every set is evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.bounds.lifts.levels import improve_levels, shift_levels, start_levels
from setwise.bounds.lifts.node_bounds import (
    MEMBERS,
    LiftItems,
    LiftNode,
    bound_worths,
    gather_node,
    logit_between,
    logit_to_sink,
    reward_above,
    room_for,
)
from setwise.kernels.heap import pop_top, push_entry
from setwise.kernels.options import INNER, OUTER, ZERO, njit
from setwise.kernels.softmax import add_weight

OPEN, NODES, SIZE, WORK = range(4)  # places in LiftTree.tally
BEST, LOST = range(2)  # places in LiftTree.value
SHIFT = 20  # an entry of the heap is node · 2^20 + the number of the child


class LiftTree(NamedTuple):
    """The bounded nodes, and a heap of their children that are not bounded yet."""

    tally: Array  # (4,): open children, nodes, size of the best set, work so far
    value: Array  # (2,): of the best set, and the largest bound dropped for want of memory
    found: Array  # (k,) the best set
    key: Array  # the heap: bounds
    entry: Array
    member: Array  # (nodes, k)
    depth: Array  # (nodes,)
    size: Array  # (nodes,) candidates
    order: Array  # (nodes, L) the candidates by worth, largest first
    worth: Array  # (nodes, L)
    given: Array  # (nodes,) the sum of the members' rewards
    level: Array  # (nodes, R + 1, H) the levels of all rows, that of the shared row last


@njit(**INNER)
def set_value(items: LiftItems, member: Array, m: int) -> float:
    """F of the first m members, with raised scores."""
    value, state = 0.0, np.empty(3)
    for a in range(m):
        i = member[a]
        x = items.base[i]
        for h in range(items.score.shape[0]):
            state[0], state[1], state[2] = -np.inf, 0.0, 0.0
            for b in range(m):
                add_weight(state, logit_between(items, h, i, member[b]), items.score[h, member[b]])
            if len(items.sink_key):
                add_weight(state, logit_to_sink(items, h, i), items.sink_score[h])
            x += state[1] / state[2]
        value += reward_above(items.table, items.reward_class[i], x)
    return value


@njit(**INNER)
def record_members(items: LiftItems, tree: LiftTree, member: Array, m: int) -> None:
    """Store the first m members if they are the best set so far."""
    value = set_value(items, member, m)
    if value > tree.value[BEST]:
        tree.value[BEST], tree.tally[SIZE] = value, m
        for a in range(m):
            tree.found[a] = member[a]


@njit(**INNER)
def sort_by_worth(order: Array, worth: Array, count: int) -> None:
    """Shell's sort of candidates, largest worth first."""
    gap = count // 2
    while gap > 0:
        for at in range(gap, count):
            i, w, place = order[at], worth[at], at
            while place >= gap and worth[place - gap] < w:
                order[place], worth[place] = order[place - gap], worth[place - gap]
                place -= gap
            order[place], worth[place] = i, w
        gap //= 2


@njit(**INNER)
def next_sum(worth: Array, first: int, count: int, places: int) -> float:
    """The sum of up to ``places`` positive worths from ``first`` on, in descending order."""
    total = 0.0
    for at in range(first, min(first + places, count)):
        if worth[at] <= 0.0:
            break
        total += worth[at]
    return total


@njit(**INNER)
def store_node(items: LiftItems, node: LiftNode, tree: LiftTree, number: int, m: int, a: int, rows: int) -> None:
    """Store the bounded node: its members, its candidates by worth, and its levels."""
    for c in range(m):
        tree.member[number, c] = node.member[c]
    tree.depth[number], tree.size[number], tree.given[number] = m, a, node.limit[MEMBERS]
    for c in range(a):
        tree.order[number, c], tree.worth[number, c] = node.item[c], node.kept_worth[c]
    sort_by_worth(tree.order[number], tree.worth[number], a)
    for t in range(m, rows):
        row = items.row_of[node.row[t]]
        for h in range(len(node.cap)):
            tree.level[number, row, h] = node.kept_level[t, h]
    for h in range(len(node.cap)):
        tree.level[number, tree.level.shape[1] - 1, h] = node.kept_level[rows, h]


@njit(**INNER)
def push_children(tree: LiftTree, number: int, q: int, bound: float) -> None:
    """Push the children of a stored node that could be better than the best set."""
    count, worth = tree.size[number], tree.worth[number]
    for t in range(count):
        mine = min(bound, tree.given[number] + worth[t] + next_sum(worth, t + 1, count, q - 1))
        if mine <= tree.value[BEST]:
            break
        if tree.tally[OPEN] == len(tree.key):
            tree.value[LOST] = max(tree.value[LOST], mine)
        else:
            push_entry(tree.key, tree.entry, tree.tally[OPEN], mine, (number << SHIFT) + t)
            tree.tally[OPEN] += 1


@njit(**INNER)
def complete_set(items: LiftItems, node: LiftNode, tree: LiftTree, m: int, q: int) -> None:
    """Evaluate the members with the candidates of largest worth."""
    size = m
    for place in range(q):
        if node.chosen[place] >= 0:
            node.member[size] = node.item[node.chosen[place]]
            size += 1
    if size > m:
        record_members(items, tree, node.member, size)


@njit(**INNER)
def evaluate_last(items: LiftItems, node: LiftNode, tree: LiftTree, m: int, a: int) -> None:
    """Evaluate the members with each candidate."""
    for c in range(a):
        node.member[m] = node.item[c]
        record_members(items, tree, node.member, m + 1)


@njit(**INNER)
def bound_child(
    items: LiftItems, node: LiftNode, tree: LiftTree, levels: Array, m: int, a: int, q: int, key: float, rounds: int
) -> None:
    """Bound a node whose members and candidates are set; store it and push its children."""
    if a == 0 or q == 0:
        return
    if q == 1:
        evaluate_last(items, node, tree, m, a)
        tree.tally[WORK] += a * (m + 1) * (m + 1) * len(node.cap)
        return
    rows = gather_node(items, node, m, a, levels)
    bound = improve_levels(items, node, m, a, q, rows, tree.value[BEST], rounds)
    tree.tally[WORK] += rows * a * len(node.cap) * rounds
    complete_set(items, node, tree, m, q)
    bound = min(bound, key)
    if bound <= tree.value[BEST]:
        return
    number = tree.tally[NODES]
    if number == len(tree.depth):
        tree.value[LOST] = max(tree.value[LOST], bound)
        return
    tree.tally[NODES] += 1
    store_node(items, node, tree, number, m, a, rows)
    push_children(tree, number, q, bound)


@njit(**INNER)
def all_candidates(items: LiftItems, node: LiftNode) -> int:
    """Make all listed items candidates of the node; return their number."""
    for c in range(len(items.base)):
        node.item[c] = c
    return len(items.base)


@njit(**OUTER)
def open_root(items: LiftItems, node: LiftNode, tree: LiftTree, levels: Array, k: int, rounds: int) -> None:
    """Start the tree with the node of all sets of up to k listed items."""
    count = all_candidates(items, node)
    bound_child(items, node, tree, levels, ZERO, count, k, np.inf, rounds)


@njit(**OUTER)
def find_levels(
    items: LiftItems, node: LiftNode, tree: LiftTree, levels: Array, k: int, together: int, rounds: int
) -> int:
    """Improve ``levels`` for all sets of up to k listed items, and return the rows of the node.

    With ``together`` > 0 they start from those of ``start_levels``, moved by as many steps of ``shift_levels``.
    """
    count = all_candidates(items, node)
    rows = gather_node(items, node, ZERO, count, levels)
    if together and k > 1:
        start_levels(items, node, count, k, rows)
        shift_levels(items, node, count, k, rows, together)
    improve_levels(items, node, ZERO, count, k, rows, tree.value[BEST], rounds)
    complete_set(items, node, tree, ZERO, k)
    for t in range(rows + 1):
        row = items.row_of[node.row[t]] if t < rows else len(levels) - 1
        for h in range(len(node.cap)):
            levels[row, h] = node.level[t, h] = node.kept_level[t, h]
    return int(rows)


@njit(**OUTER)
def value_listed(items: LiftItems, node: LiftNode, k: int, rows: int) -> None:
    """Fill the worths again, for the levels of ``find_levels`` and the slope of items that are not listed."""
    bound_worths(items, node, ZERO, len(items.base), k, rows)


@njit(**INNER)
def expand_next(items: LiftItems, node: LiftNode, tree: LiftTree, k: int, rounds: int) -> None:
    """Bound the open child of largest bound."""
    key, entry = tree.key[0], tree.entry[0]
    tree.tally[OPEN] -= 1
    pop_top(tree.key, tree.entry, tree.tally[OPEN])
    parent, t = entry >> SHIFT, entry & ((1 << SHIFT) - 1)
    m, count, worth = tree.depth[parent] + 1, tree.size[parent], tree.worth[parent]
    q = k - m
    for c in range(m - 1):
        node.member[c] = tree.member[parent, c]
    node.member[m - 1] = tree.order[parent, t]
    record_members(items, tree, node.member, m)
    others = tree.given[parent] + worth[t] + next_sum(worth, t + 1, count, q - 1)  # of q later ones, all but one
    a = ZERO
    for at in range(t + 1, count):
        if others + worth[at] <= tree.value[BEST]:
            break
        if room_for(items, node, m, tree.order[parent, at]) > 0:
            node.item[a] = tree.order[parent, at]
            a += 1
    bound_child(items, node, tree, tree.level[parent], m, a, q, key, rounds)


@njit(**OUTER)
def search_lists(
    items: LiftItems, node: LiftNode, tree: LiftTree, k: int, rounds: int, work: int, outside: float
) -> bool:
    """Bound open children until so much work is done.

    Returns whether none can be better than the best set and than ``outside``.
    """
    until = tree.tally[WORK] + work
    while tree.tally[OPEN] and tree.key[0] > max(tree.value[BEST], outside):
        if tree.tally[WORK] >= until:
            return False
        expand_next(items, node, tree, k, rounds)
    return True
