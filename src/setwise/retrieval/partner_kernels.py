"""The compiled pass of company.py: a row of the reserve is read once, and its pair with the leader judged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from setwise._types import Array, Floats
from setwise.kernels.rewards import table_value

_REORDER = {"reassoc", "contract", "nsz"}  # of fastmath, what vector code needs; an infinity stays one


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def dot(a: Any, b: Any) -> float:
    """The product a · b in double precision."""
    total = 0.0
    for e in range(len(a)):
        total += np.float64(a[e]) * np.float64(b[e])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def average(one: float, two: float, rest: float, first: float, second: float, silent: float) -> float:
    """What is seen of two items that score ``first`` and ``second`` and of the sink, by these logits."""
    top = max(one, two, rest)
    w_1, w_2, z = math.exp(one - top), math.exp(two - top), math.exp(rest - top)
    return (w_1 * first + w_2 * second + z * silent) / (w_1 + w_2 + z)


@njit(cache=True, nogil=True, error_model="numpy")
def judge_pairs(
    query: Array, key: Array, value: Array, reward_class: Array, user: Floats, sink_key: Floats, sink_score: Floats,
    base: Floats, leader: int, leader_base: float, rows: Array, code: Array, parameter: Array, first_knot: Array,
    knot: Array, lent: Floats, logit: Floats, result: Floats,
) -> None:  # fmt: skip
    """result[at] = F({leader, rows[at]}); base[at] is that of the row, and a sink that there is not has no keys.

    ``lent`` (rows, H) and ``logit`` (rows, H, 4) are scratch: all that is read of the catalogue is read before anything
    is made of it, so that the loads from memory overlap.
    """
    heads = len(user)
    score, itself, rest = np.empty(heads), np.empty(heads), np.full(heads, -np.inf)
    for h in range(heads):
        score[h], itself[h] = dot(value[leader, h], user[h]), dot(query[leader, h], key[leader, h])
        if len(sink_key):
            rest[h] = dot(query[leader, h], sink_key[h])
    for at in range(len(rows)):
        for h in range(heads):
            lent[at, h] = dot(value[rows[at], h], user[h])
    for at in range(len(rows)):
        c = rows[at]
        for h in range(heads):
            logit[at, h, 0] = dot(query[leader, h], key[c, h])
            logit[at, h, 1] = dot(query[c, h], key[leader, h])
            logit[at, h, 2] = dot(query[c, h], key[c, h])
            logit[at, h, 3] = dot(query[c, h], sink_key[h]) if len(sink_key) else -np.inf
    for at in range(len(rows)):
        ours, theirs = leader_base, base[at]
        for h in range(heads):
            drawn, given, own, left = logit[at, h]
            ours += average(itself[h], drawn, rest[h], score[h], lent[at, h], sink_score[h])
            theirs += average(given, own, left, score[h], lent[at, h], sink_score[h])
        result[at] = table_value(code, parameter, first_knot, knot, reward_class[leader], ours)
        result[at] += table_value(code, parameter, first_knot, knot, reward_class[rows[at]], theirs)
