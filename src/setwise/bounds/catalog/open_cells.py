"""Compiled lists of the cells that can still hold a member of a better set, for search.py.

Let a prefix C have q free places. By the bounds of whole_catalog.py, a set S with this prefix and a later member i has

    F(S)  ≤  bracket_i + the q − 1 largest other brackets,                          if S has q later members,
    F(S)  ≤  reward_i + Σ_c left_ci + the q − 2 largest positive other rewards,      if it has fewer.

If neither exceeds the value of the best set known, no better set with this prefix contains i. Sets with a longer prefix
are among these, so a cell that is dropped here is dropped below too: deep in the tree few cells are left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.bounds.catalog.frontier import BEST, POOL, Frontier
from setwise.bounds.catalog.group_bounds import LEFT, REWARD, GroupBounds, Groups
from setwise.bounds.catalog.prefix_members import CatalogArrays
from setwise.bounds.catalog.score_order import Scored
from setwise.bounds.catalog.worths import Worths
from setwise.kernels.largest import keep_largest_repeated
from setwise.kernels.options import INNER, ZERO, njit

_WORTH_A_LIST = 0.9  # a list that is not shorter than this share of the parent's is not stored


class OpenCells(NamedTuple):
    """Copies of the cells that are open after a prefix, side by side; the first columns are used."""

    number: Array  # (C,) which cell it is
    size: Array  # (C,) the number of eligible items
    groups: Groups
    scored: Scored
    worths: Worths


@njit(**INNER)
def gather_cells(data: CatalogArrays, frontier: Frontier, node: int, cells: OpenCells) -> int:
    """Copy the cells that are open after the prefix ``node``; return their number."""
    count, first = frontier.cells[node], frontier.first_cell[node]
    for place in range(count):
        c = frontier.pool[first + place]
        cells.number[place], cells.size[place] = c, data.size[c]
        cells.groups.reward_class[place] = data.cells.reward_class[c]
        cells.scored.base[place], cells.scored.total[place] = data.scored_cells.base[c], data.scored_cells.total[c]
    for level in range(len(data.cell_worths.knot)):
        for place in range(count):
            cells.worths.level[level, place] = data.cell_worths.level[level, cells.number[place]]
    if len(data.cell_worths.knot):
        for place in range(count):
            cells.worths.slope[:, place] = data.cell_worths.slope[:, cells.number[place]]
    number = cells.number
    for h in range(len(cells.scored.score)):
        for place in range(count):
            c = number[place]
            cells.scored.score[h, place] = data.scored_cells.score[h, c]
            cells.groups.query_radius[h, place] = data.cells.query_radius[h, c]
            cells.groups.key_radius[h, place] = data.cells.key_radius[h, c]
            cells.groups.self_low[h, place] = data.cells.self_low[h, c]
            cells.groups.self_high[h, place] = data.cells.self_high[h, c]
            cells.groups.reach[h, place] = data.cells.reach[h, c]
        for e in range(data.cells.query.shape[1]):
            for place in range(count):
                c = number[place]
                cells.groups.query[h, e, place] = data.cells.query[h, e, c]
                cells.groups.key[h, e, place] = data.cells.key[h, e, c]
    return int(count)


@njit(**INNER)
def keep_open_cells(frontier: Frontier, cells: OpenCells, found: GroupBounds, node: int, q: int, fewer: Array) -> None:
    """Store the cells that are open below the prefix ``node``, unless there is no room or no gain.

    ``fewer`` are the largest rewards, in descending order, q − 1 of them.
    """
    count, first, best = frontier.cells[node], frontier.tally[POOL], np.full(q, -np.inf)
    if first + count > len(frontier.pool):
        return
    reward, left = found.row[REWARD], found.row[LEFT]
    for place in range(count):
        keep_largest_repeated(best, reward[place] + left[place] / q, cells.size[place])
    others, positive = 0.0, 0.0
    for place in range(q - 1):
        others += best[place]
    for place in range(q - 2):
        positive += max(fewer[place], 0.0)
    kept = ZERO
    for place in range(count):
        full = reward[place] + left[place] / q + others
        part = reward[place] + left[place] + positive if q > 1 else -np.inf
        if max(full, part) > frontier.value[BEST]:
            frontier.pool[first + kept] = cells.number[place]
            kept += 1
    if kept < _WORTH_A_LIST * count:
        frontier.first_cell[node], frontier.cells[node] = first, kept
        frontier.tally[POOL] += kept
