"""Compiled access to the items of a catalogue in cells, and the value of a prefix; part of search.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.bounds.catalog.group_bounds import (
    DENOMINATOR,
    NUMERATOR,
    TOP,
    Groups,
    Members,
    RewardArrays,
    clip_rewards,
    reward_member,
)
from setwise.bounds.catalog.score_order import Order, Scored
from setwise.bounds.catalog.worths import Worths
from setwise.kernels.options import INNER, njit
from setwise.kernels.softmax import add_weight


class CatalogArrays(NamedTuple):
    """The catalogue in cells, and its scores for the user."""

    table: RewardArrays
    cells: Groups
    items: Groups
    start: Array  # (C + 1,): the items of cell c are start[c] to start[c + 1]
    scored_cells: Scored
    scored_items: Scored
    size: Array  # (C,) the number of eligible items of the cell
    order: Order
    label: Array  # (n,) of a group of which a set has at most ``most`` items, −1: none; (0,) without such a limit
    most: Array  # (1,)
    column: Array  # (C,) where the cell's items begin in ``items``, −1: not at hand; (0,) if that is ``start``
    reward_class: Array  # (n,) of the items, for lifts
    cell_worths: Worths
    item_worths: Worths


@njit(**INNER)
def column_of(data: CatalogArrays, c: int) -> int:
    """Where the items of cell c begin in ``data.items``; −1 if they are not at hand."""
    return int(data.column[c] if len(data.column) else data.start[c])


@njit(**INNER)
def item_column(data: CatalogArrays, i: int) -> int:
    """Where item i, whose cell is at hand, is in ``data.items``."""
    if not len(data.column):
        return i
    low, high = 0, len(data.column) - 1  # the last cell that starts at i or before it, which is not empty
    while low < high:
        middle = (low + high + 1) // 2
        if data.start[middle] <= i:
            low = middle
        else:
            high = middle - 1
    return int(data.column[low] + i - data.start[low])


@njit(**INNER)
def set_member(data: CatalogArrays, members: Members, a: int, i: int) -> None:
    """Make item i member a."""
    at = item_column(data, i)
    members.item[a], members.base[a] = i, data.scored_items.base[i]
    members.reward_class[a] = data.items.reward_class[at]
    if len(data.item_worths.weight):
        members.worth[a, 0], members.worth[a, 1] = data.item_worths.weight[i], data.item_worths.offset[i]
    for h in range(members.query.shape[1]):
        members.reach[a, h] = data.items.reach[h, at]
        members.score[a, h] = data.scored_items.score[h, i]
        for e in range(members.query.shape[2]):
            members.query[a, h, e], members.key[a, h, e] = data.items.query[h, e, at], data.items.key[h, e, at]


@njit(**INNER)
def sum_row(members: Members, m: int, a: int, h: int) -> float:
    """Fill ``sums`` of member a in head h; return its average over the members and the sink."""
    query, sums = members.query[a, h], members.sums[a, h]
    sums[TOP], sums[NUMERATOR], sums[DENOMINATOR] = -np.inf, 0.0, 0.0
    for b in range(m + len(members.sink_key)):
        key, score = (
            (members.key[b, h], members.score[b, h]) if b < m else (members.sink_key[0, h], members.sink_score[h])
        )
        logit = 0.0
        for e in range(len(query)):
            logit += query[e] * key[e]
        add_weight(sums, logit, score)
    return float(sums[NUMERATOR] / sums[DENOMINATOR])


@njit(**INNER)
def value_of(data: CatalogArrays, members: Members, m: int) -> float:
    """Compute the softmax sums of the first m members, and return their value as a set."""
    value, argument = np.zeros(1), np.empty(1)
    for a in range(m):
        argument[0] = members.base[a]
        for h in range(members.query.shape[1]):
            argument[0] += sum_row(members, m, a, h)
        reward_member(data.table, members.reward_class[a], members.worth[a, 0], argument, value)
        value[0] += members.worth[a, 1]
    clip_rewards(value)
    return float(value[0])
