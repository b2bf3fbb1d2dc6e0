"""Compiled upper bounds of one node: members C, candidates A, and q places that candidates R ⊂ A may fill.

**Lifts.** For an item i of S = C ∪ R and a head, let D be the sum of its weights on itself, the sink and C, and n the
average of their scores. Take any level z ≥ n. With r other candidates at most (q for a member, q − 1 for i ∈ R),

    a_i^h(S) − z  =  (D (n − z) + Σ_j w_ij (s_j − z)) / (D + Σ_j w_ij)        sums over j ∈ R∖{i}
                  ≤  Σ_j max(0, w_ij (s_j − z) − D (z − n) / r) / (D + w_ij)  =  Σ_j lift_ij^h.

So j lifts i above the levels of all heads together by at most lift_ij = Σ_h lift_ij^h. Let x_i = base_i + Σ_h z_i^h,
and λ_i the steepest slope of f_i from x_i to the largest argument that i can reach. Then f_i(a_i) ≤ f_i(x_i) +
λ_i Σ_j lift_ij. Summed over S, with every lift charged to the item j that causes it,

    F(S)  ≤  Σ_{c∈C} f_c(x_c)  +  Σ_{j∈R} worth_j,
    worth_j  =  f_j(x_j) + Σ_{c∈C} λ_c lift_cj + (the q − 1 largest λ_i lift_ij over i ∈ A∖{j}),

which is at most the sum of the q largest positive worths. An item that raises others must be paid for with a place of
its own, and it raises every head of an item, or it is not paid for: neither holds if heads are bounded one by one.

Every choice of the levels gives a bound; levels.py looks for good ones.

**The shared row.** Most candidates have no weights of their own: a row for each would cost too much. They share a level
z̃_h in every head, which is at least the scores of the members: item i without a row has the level max(z̃_h, s_i^h, the
sink's score), and j lifts it by at most Σ_h max(0, s_j^h − z̃_h), whatever its weights. With λ̄ the steepest of their
slopes, λ̄ times that counts in worth_j up to q − 1 times. At z̃ = the largest score of every head it is 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from setwise._types import Array
from setwise.bounds.catalog.group_bounds import HUGE, RewardArrays
from setwise.kernels.largest import keep_largest, keep_largest_labelled
from setwise.kernels.options import FAST, INNER, ZERO, njit
from setwise.kernels.reward_slopes import table_slope
from setwise.kernels.rewards import table_value

WIDEST = 230.0  # a row whose logits differ by more from its own has no weights: its item is never lifted
RAISED = 1e-10  # relative rounding of rewards upwards


class LiftItems(NamedTuple):
    """Listed items for a user; scores are raised by more than the effect of rounding (whole_catalog.py)."""

    table: RewardArrays
    query: Array  # (L, H, d)
    key: Array  # (L, H, d)
    logit: Array  # (H, L, L) where logits are given, else (0, 0, 0): they are the products of queries and keys
    sink_logit: Array  # (H, L) where logits are given
    score: Array  # (H, L)
    base: Array  # (L,)
    reward_class: Array  # (L,)
    sink_key: Array  # (1, H, d), or (0, H, d) without a sink
    sink_score: Array  # (H,)
    row_of: Array  # (L,) the row of weights of an item, −1: none
    row_item: Array  # (R,)
    weight: Array  # (R, H, L): e^(l_ij − l_ii)
    sink: Array  # (R, H): e^(l_i0 − l_ii), 0 without a sink
    steep: Array  # (1,) the steepest slope of items that are not listed
    ceiling: Array  # (H,) the largest score of items that are not listed, −∞ where only listed ones are bounded
    label: Array  # (L,) of a group of which a set has at most ``most`` items, −1: none; (0,) without such a limit
    most: Array  # (1,)


class LiftNode(NamedTuple):
    """A node, its levels and its worths; rows t are the members, the candidates that have weights, the shared row."""

    member: Array  # (k,)
    item: Array  # (L,) the listed item of each candidate
    row: Array  # (R + k,) the listed item of each row
    column: Array  # (R + k,) the candidate of each row; −1 for members
    row_at: Array  # (L,) the row of each candidate, −1: none
    spare: Array  # (R + k, H, L): 1 / (D + w_ij)
    score: Array  # (H, L)
    cap: Array  # (H,) the largest score in the node
    own: Array  # (R + k, H): n
    total: Array  # (R + k, H): D
    level: Array  # (R + k, H): z
    reward: Array  # (R + k,): f(x)
    steep: Array  # (R + k,): λ
    gain: Array  # (L,)
    shared: Array  # (L,) λ̄ times the lift of the shared row by each candidate
    lift: Array  # (L, k) the largest λ_i lift_ij of each candidate
    worth: Array  # (L,)
    best: Array  # (k,) the q largest worths, and
    chosen: Array  # (k,) their candidates
    chosen_label: Array  # (k,) and the labels of these
    slope: Array  # (R + k, H): subgradient
    kept_level: Array  # (R + k, H): those of the best bound so far
    start: Array  # (R + k, H) scratch
    kept_worth: Array  # (L,)
    limit: Array  # (2,): the bound, and the sum of the members' rewards


BOUND, MEMBERS = range(2)  # places in LiftNode.limit


@njit(**INNER)
def reward_above(table: RewardArrays, number: int, x: float) -> float:
    """f(x), rounded upwards and clipped to ±HUGE; NaN becomes HUGE."""
    value = table_value(table.code, table.parameter, table.first_knot, table.knot, number, x)
    value += RAISED * abs(value)
    return float(max(value, -HUGE) if value < HUGE else HUGE)


@njit(**INNER)
def logit_of(query: Array, key: Array) -> float:
    """The product of a query and a key."""
    logit = 0.0
    for e in range(len(query)):
        logit += query[e] * key[e]
    return logit


@njit(**INNER)
def logit_between(items: LiftItems, h: int, i: int, j: int) -> float:
    """The logit of item i with item j in head h."""
    if len(items.logit):
        return float(items.logit[h, i, j])
    return float(logit_of(items.query[i, h], items.key[j, h]))


@njit(**INNER)
def logit_to_sink(items: LiftItems, h: int, i: int) -> float:
    """The logit of item i with the sink in head h."""
    if len(items.logit):
        return float(items.sink_logit[h, i])
    return float(logit_of(items.query[i, h], items.sink_key[0, h]))


@njit(**INNER)
def relative_weight(exponent: float) -> float:
    """e^exponent, and ∞ if that is larger than ``WIDEST``."""
    return math.exp(max(exponent, -WIDEST)) if exponent <= WIDEST else np.inf


@njit(**INNER)
def gather_row(items: LiftItems, node: LiftNode, t: int, m: int, a: int) -> None:
    """Fill the weights of row t over the candidates, and its sums over itself, the sink and the members."""
    i, heads = node.row[t], len(node.cap)
    known, usable = items.row_of[i], True
    for h in range(heads):
        own = logit_between(items, h, i, i)
        total, weighted = 1.0, items.score[h, i]
        if len(items.sink_key):
            w = items.sink[known, h] if known >= 0 else relative_weight(logit_to_sink(items, h, i) - own)
            total += w
            weighted += w * items.sink_score[h]
        for c in range(m):
            j = node.member[c]
            if j != i:
                w = items.weight[known, h, j] if known >= 0 else relative_weight(logit_between(items, h, i, j) - own)
                total += w
                weighted += w * items.score[h, j]
        row = node.spare[t, h]
        for c in range(a):
            j = node.item[c]
            w = items.weight[known, h, j] if known >= 0 else relative_weight(logit_between(items, h, i, j) - own)
            usable = usable and w < np.inf
            row[c] = 1.0 / (total + w)
        usable = usable and total < np.inf
        node.total[t, h], node.own[t, h] = total, weighted / total
    for h in range(heads):
        if not usable:  # bounded by the largest score
            node.spare[t, h, :a] = 1.0
            node.total[t, h], node.own[t, h] = 1.0, node.cap[h]
        node.own[t, h] = min(node.own[t, h], node.cap[h])
        node.level[t, h] = max(node.own[t, h], min(node.level[t, h], node.cap[h]))
    if t >= m:
        for h in range(heads):
            node.spare[t, h, node.column[t]] = 1.0 / node.total[t, h]  # nothing lifts itself


@njit(**INNER)
def gather_node(items: LiftItems, node: LiftNode, m: int, a: int, levels: Array) -> int:
    """Fill the arrays of a node from its members and candidates and the levels of all rows; return its rows.

    The last of ``levels`` is that of the shared row, which is the row after the others.
    """
    heads, rows = len(node.cap), m
    for h in range(heads):
        node.cap[h] = items.ceiling[h]
        if len(items.sink_key):
            node.cap[h] = max(node.cap[h], items.sink_score[h])
        for c in range(m):
            node.cap[h] = max(node.cap[h], items.score[h, node.member[c]])
        for c in range(a):
            node.score[h, c] = items.score[h, node.item[c]]
            node.cap[h] = max(node.cap[h], node.score[h, c])
    for c in range(m):
        node.row[c], node.column[c] = node.member[c], -1
    for c in range(a):
        i = node.item[c]
        node.row_at[c] = -1
        if items.row_of[i] >= 0:
            node.row_at[c], node.row[rows], node.column[rows] = rows, i, c
            rows += 1
    for t in range(rows):
        known = items.row_of[node.row[t]]
        for h in range(heads):
            node.level[t, h] = levels[known, h] if known >= 0 and t >= m else -np.inf
        gather_row(items, node, t, m, a)
    node.column[rows] = -2
    for h in range(heads):
        node.own[rows, h] = -HUGE
        for c in range(m):
            node.own[rows, h] = max(node.own[rows, h], items.score[h, node.member[c]])
        node.level[rows, h] = max(node.own[rows, h], min(levels[len(levels) - 1, h], node.cap[h]))
    return rows


@njit(**INNER, fastmath=FAST)
def add_lifts(spare: Array, score: Array, level: float, total: float, slack: float, gain: Array) -> None:
    """Add max(0, w (s − z) − slack) / (D + w) of every candidate to ``gain``, without a division."""
    for j in range(len(gain)):
        rise = score[j] - level
        gain[j] += max(0.0, rise - spare[j] * (total * rise + slack))


@njit(**INNER)
def lift_row(node: LiftNode, t: int, a: int, others: int) -> None:
    """Fill ``gain``: λ_t times the lift of row t by each candidate; ``others``: candidates beside it, at most."""
    gain = node.gain[:a]
    gain[:] = 0.0
    for h in range(len(node.cap)):
        level, total = node.level[t, h], node.total[t, h]
        if level < node.cap[h]:
            slack = total * (level - node.own[t, h]) / others
            add_lifts(node.spare[t, h, :a], node.score[h, :a], level, total, slack, gain)
    steep = node.steep[t]
    for c in range(a):
        gain[c] = steep * gain[c] if gain[c] > 0.0 else 0.0


@njit(**INNER)
def reward_rows(items: LiftItems, node: LiftNode, rows: int) -> None:
    """Fill the reward at the level and the steepest slope above it of every row."""
    table = items.table
    for t in range(rows):
        i = node.row[t]
        x = most = items.base[i]
        for h in range(len(node.cap)):
            x += node.level[t, h]
            most += node.cap[h]
        number = items.reward_class[i]
        node.reward[t] = reward_above(table, number, x)
        slope = table_slope(table.code, table.parameter, table.first_knot, table.knot, number, x, max(x, most))
        node.steep[t] = slope if slope < HUGE else HUGE


@njit(**INNER)
def shared_argument(items: LiftItems, level: Array, i: int) -> float:
    """The argument of an item without a row at the shared level."""
    x = items.base[i]
    for h in range(len(level)):
        z = max(level[h], items.score[h, i])
        x += max(z, items.sink_score[h]) if len(items.sink_key) else z
    return float(x)


@njit(**INNER)
def reward_shared(items: LiftItems, node: LiftNode, a: int, rows: int) -> int:
    """Start ``worth`` with the candidates' rewards; fill the shared lifts; return the number of items without a row."""
    table, steep, count, most = items.table, items.steep[0], ZERO, 0.0
    level, low, high = node.level[rows], np.inf, -np.inf
    for h in range(len(node.cap)):
        most += node.cap[h]
    for c in range(a):
        t = node.row_at[c]
        if t >= 0:
            node.worth[c] = node.reward[t]
            continue
        i = node.item[c]
        x, number = shared_argument(items, level, i), items.reward_class[i]
        node.worth[c] = reward_above(table, number, x)
        count += 1
        end = max(x, items.base[i] + most)
        if len(table.code) > 1:
            steep = max(steep, table_slope(table.code, table.parameter, table.first_knot, table.knot, number, x, end))
        low, high = min(low, x), max(high, end)
    if len(table.code) == 1 and count:  # one function: its slope on the interval that covers all
        steep = max(steep, table_slope(table.code, table.parameter, table.first_knot, table.knot, ZERO, low, high))
    node.steep[rows] = steep if steep < HUGE else HUGE
    for c in range(a):
        rise = 0.0
        for h in range(len(node.cap)):
            rise += max(0.0, node.score[h, c] - level[h])
        node.shared[c] = node.steep[rows] * rise if rise > 0.0 else 0.0
    return int(count)


@njit(**INNER)
def room_for(items: LiftItems, node: LiftNode, m: int, i: int) -> int:
    """How many more items of item i's label may be added to the members."""
    if not len(items.label) or items.label[i] < 0:
        return len(items.base)
    room = items.most[0]
    for c in range(m):
        room -= 1 if items.label[node.member[c]] == items.label[i] else 0
    return int(room)


@njit(**INNER)
def bound_worths(items: LiftItems, node: LiftNode, m: int, a: int, q: int, rows: int) -> float:
    """Fill ``worth`` and the q best for the present levels; return the bound."""
    reward_rows(items, node, rows)
    worth, lift, members = node.worth, node.lift, 0.0
    unlisted = items.ceiling[0] > -np.inf
    sharing = reward_shared(items, node, a, rows) > 0 or unlisted
    for c in range(a):
        for place in range(q - 1):
            lift[c, place] = node.shared[c] if sharing else 0.0
    for t in range(rows):
        if t < m:
            members += node.reward[t]
            lift_row(node, t, a, q)
            for c in range(a):
                worth[c] += node.gain[c]
        elif q > 1:
            lift_row(node, t, a, q - 1)
            for c in range(a):
                if node.gain[c] > lift[c, q - 2]:
                    keep_largest(lift[c], q - 1, node.gain[c])
    best = node.best[:q]
    best[:] = 0.0
    node.chosen[:q] = -1
    node.chosen_label[:q] = -1
    for c in range(a):
        for place in range(q - 1):
            worth[c] += lift[c, place]
        worth[c] = worth[c] if worth[c] < HUGE else HUGE
        if worth[c] > best[q - 1]:
            label = items.label[node.item[c]] if len(items.label) else -1
            room = room_for(items, node, m, node.item[c])
            keep_largest_labelled(best, node.chosen, node.chosen_label, worth[c], c, label, room)
    node.limit[MEMBERS] = members
    bound = members
    for place in range(q):
        bound += best[place]
    return bound
