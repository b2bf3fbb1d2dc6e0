"""What the search of cell_search.py remembers: a heap of families of sets, a tree of beginnings, the best set met.

The heap holds families still to be divided, in three shapes: "what begins like this node" (``what`` = −1, for the
root), "the beginning of this node and then item i" (``what`` = i), and "the beginning of this node and then some item
of cell c" (``what`` = −2 − c).
"""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from setwise._types import Array
from setwise.bounds.catalog.group_bounds import Members
from setwise.bounds.catalog.score_order import INNER

HEAP, NODES, OPENED, SIZE = range(4)  # places in Tree.number
BEST, LOST = range(2)  # places in Tree.value


class Tree(NamedTuple):
    """The search so far."""

    number: Array  # (4,) integers: entries of the heap, nodes, cells opened, size of the best set
    value: Array  # (2,): the value of the best set, the largest bound that found no room
    best: Array  # (k,) the best set met
    key: Array  # the heap: bounds, and what they bound
    node: Array
    what: Array
    parent: Array  # the nodes: each is its parent's beginning and one item more
    item: Array
    depth: Array
    others: Array  # (nodes, L) what the other members add at most, by the σ that they stay below
    levels: Array  # (2,) integers: levels used at the root, and below


@njit(**INNER)
def push(tree: Tree, key: float, node: int, what: int) -> None:
    """Add an entry to the heap; when it is full, remember the bound at least."""
    at = tree.number[HEAP]
    if at == len(tree.key):
        tree.value[LOST] = max(tree.value[LOST], key)
        return
    tree.number[HEAP] += 1
    while at > 0 and tree.key[(at - 1) // 2] < key:
        up = (at - 1) // 2
        tree.key[at], tree.node[at], tree.what[at] = tree.key[up], tree.node[up], tree.what[up]
        at = up
    tree.key[at], tree.node[at], tree.what[at] = key, node, what


@njit(**INNER)
def pop(tree: Tree) -> tuple[float, int, int]:
    """Take the entry of the largest bound from the heap."""
    first = tree.key[0], tree.node[0], tree.what[0]
    tree.number[HEAP] -= 1
    size = tree.number[HEAP]
    key, node, what = tree.key[size], tree.node[size], tree.what[size]
    at = 0
    while 2 * at + 1 < size:
        down = 2 * at + 1
        if down + 1 < size and tree.key[down + 1] > tree.key[down]:
            down += 1
        if tree.key[down] <= key:
            break
        tree.key[at], tree.node[at], tree.what[at] = tree.key[down], tree.node[down], tree.what[down]
        at = down
    tree.key[at], tree.node[at], tree.what[at] = key, node, what
    return first


@njit(**INNER)
def insert(best: Array, value: float, times: int) -> None:
    """Put ``value`` so many times among the largest, which are kept in descending order."""
    count = len(best)
    for _ in range(min(times, count)):
        if value <= best[count - 1]:
            return
        at = count - 1
        while at > 0 and best[at - 1] < value:
            best[at] = best[at - 1]
            at -= 1
        best[at] = value


@njit(**INNER)
def insert_item(best: Array, items: Array, value: float, item: int) -> None:
    """Put ``value`` among the largest, and ``item`` at the same place of ``items``."""
    at = len(best) - 1
    if value <= best[at]:
        return
    while at > 0 and best[at - 1] < value:
        best[at], items[at] = best[at - 1], items[at - 1]
        at -= 1
    best[at], items[at] = value, item


@njit(**INNER)
def note_set(tree: Tree, members: Members, m: int, value: float) -> None:
    """Remember the first m members if they are the best set so far."""
    if value > tree.value[BEST]:
        tree.value[BEST], tree.number[SIZE] = value, m
        for a in range(m):
            tree.best[a] = members.item[a]
