"""The state of the search in search.py: a heap of open entries, a tree of prefixes, and the best set found.

An entry of the heap is a node (a prefix) and a code for the group of its extensions: ``ROOT`` for the sets that start
with the prefix itself, item i for "the prefix, then item i", and −2 − c for "the prefix, then some item of cell c".

A step that needs a cell whose items are not at hand stops, and begins again when they are: ``MISSING`` is the cell, and
the entry is kept as ``KEY``, ``NODE`` and ``GROUP``.
"""

from __future__ import annotations

from typing import NamedTuple

from setwise._types import Array
from setwise.bounds.catalog.group_bounds import Members
from setwise.kernels.heap import pop_top, push_entry
from setwise.kernels.options import INNER, njit

HEAP, NODES, OPENED, SIZE, MISSING, NODE, GROUP, POOL = range(8)  # places in Frontier.tally
BEST, LOST, KEY = range(3)  # places in Frontier.value
ROOT = -1
SHIFT, OFFSET = 40, 1 << 39  # an entry is node · 2^40 + group + 2^39


class Frontier(NamedTuple):
    """The search so far."""

    tally: Array  # (8,) integers: entries of the heap, nodes, cells opened, size of the best set; a missing cell or −1,
    # and the node and group of the step that waits for it, the node −1 if none does; the part of ``pool`` in use
    value: Array  # (3,): of the best set, the largest bound dropped because the heap was full, that of the waiting step
    best: Array  # (k,) the best set found
    key: Array  # the heap: upper bounds
    entry: Array  # and what they bound
    parent: Array  # the nodes: each prefix is that of its parent and one more item
    item: Array
    depth: Array
    first_cell: Array  # (nodes,) where the list of cells that are open after the prefix begins in ``pool``, and
    cells: Array  # (nodes,) its length
    pool: Array
    others: Array  # (nodes, L) upper bound on the other members' rewards, by a threshold on their σ
    levels: Array  # (2,) integers: thresholds used at the root, and below


@njit(**INNER)
def push_group(frontier: Frontier, key: float, node: int, group: int) -> None:
    """Push an entry with upper bound ``key``; if the heap is full, keep the bound."""
    size = frontier.tally[HEAP]
    if size == len(frontier.key):
        frontier.value[LOST] = max(frontier.value[LOST], key)
        return
    push_entry(frontier.key, frontier.entry, size, key, (node << SHIFT) + group + OFFSET)
    frontier.tally[HEAP] += 1


@njit(**INNER)
def pop_group(frontier: Frontier) -> tuple[float, int, int]:
    """Pop the entry of the largest upper bound: the bound, the node and the group."""
    key, entry = frontier.key[0], frontier.entry[0]
    frontier.tally[HEAP] -= 1
    pop_top(frontier.key, frontier.entry, frontier.tally[HEAP])
    return key, entry >> SHIFT, (entry & ((1 << SHIFT) - 1)) - OFFSET


@njit(**INNER)
def record_set(frontier: Frontier, members: Members, m: int, value: float) -> None:
    """Store the first m members if they are the best set so far."""
    if value > frontier.value[BEST]:
        frontier.value[BEST], frontier.tally[SIZE] = value, m
        for a in range(m):
            frontier.best[a] = members.item[a]
