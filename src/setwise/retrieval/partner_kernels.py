"""The compiled pass of partners.py: every row of the reserve is read once, and its pair with the anchor valued."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from setwise._types import Array, Floats
from setwise.kernels.options import INNER, OUTER, njit
from setwise.kernels.rewards import table_value

_REORDER = {"reassoc", "contract", "nsz"}  # of fastmath, what vector code needs; an infinity stays one


@njit(**INNER, fastmath=_REORDER)
def dot(a: Any, b: Any) -> float:
    """The product a · b in double precision."""
    total = 0.0
    for e in range(len(a)):
        total += np.float64(a[e]) * np.float64(b[e])
    return total


@njit(**INNER)
def average(one: float, two: float, rest: float, first: float, second: float, sink: float) -> float:
    """The attention average of two items and the sink, with logits ``one``, ``two`` and ``rest``."""
    top = max(one, two, rest)
    w_1, w_2, z = math.exp(one - top), math.exp(two - top), math.exp(rest - top)
    return (w_1 * first + w_2 * second + z * sink) / (w_1 + w_2 + z)


@njit(**OUTER)
def fill_pair_values(
    query: Array, key: Array, value: Array, reward_class: Array, user: Floats, sink_key: Floats, sink_score: Floats,
    base: Floats, anchor_query: Array, anchor_key: Array, anchor_value: Array, anchor_class: int, anchor_base: float,
    rows: Array, code: Array, parameter: Array, first_knot: Array, knot: Array, weight: Floats, score: Floats,
    logit: Floats, result: Floats,
) -> None:  # fmt: skip
    """result[at] = F({anchor, rows[at]}); base[at] is the row's base term; without a sink ``sink_key`` is empty.

    weight[at] is what a unit of the row's reward is worth, and the last one that of the anchor.

    The vectors of the anchor (H, d) need not be those of an item of the catalogue.
    ``score`` (rows, H) and ``logit`` (rows, H, 4) are scratch space: everything is read from the catalogue before
    anything is computed from it, so that the loads from memory overlap.
    """
    heads = len(user)
    anchor_score, itself, rest = np.empty(heads), np.empty(heads), np.full(heads, -np.inf)
    for h in range(heads):
        anchor_score[h], itself[h] = dot(anchor_value[h], user[h]), dot(anchor_query[h], anchor_key[h])
        if len(sink_key):
            rest[h] = dot(anchor_query[h], sink_key[h])
    for at in range(len(rows)):
        for h in range(heads):
            score[at, h] = dot(value[rows[at], h], user[h])
    for at in range(len(rows)):
        c = rows[at]
        for h in range(heads):
            logit[at, h, 0] = dot(anchor_query[h], key[c, h])
            logit[at, h, 1] = dot(query[c, h], anchor_key[h])
            logit[at, h, 2] = dot(query[c, h], key[c, h])
            logit[at, h, 3] = dot(query[c, h], sink_key[h]) if len(sink_key) else -np.inf
    for at in range(len(rows)):
        of_anchor, of_row = anchor_base, base[at]
        for h in range(heads):
            to_row, to_anchor, to_itself, to_sink = logit[at, h]
            of_anchor += average(itself[h], to_row, rest[h], anchor_score[h], score[at, h], sink_score[h])
            of_row += average(to_anchor, to_itself, to_sink, anchor_score[h], score[at, h], sink_score[h])
        result[at] = weight[-1] * table_value(code, parameter, first_knot, knot, anchor_class, of_anchor)
        result[at] += weight[at] * table_value(code, parameter, first_knot, knot, reward_class[rows[at]], of_row)
