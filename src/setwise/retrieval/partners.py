"""Company: who would be worth most beside an item that will be there. Phase One asked by the leader, not by the user.

Phase One takes the best of every cell by score. But a score is what an item lends; what it is worth depends on whom it
attends to. Under strong attention the best sets are a leader l, the item of highest score, and followers whose rewards
come from it: items of modest score that attend to the leader and to little else. So all items c of a reserve are asked
for the value of the pair,

    F({l, c}) = f_l(a_l) + f_c(a_c),
    a_i = base_i·u⁰ + Σ_h (z_i^h s_0^h + w_il^h s_l^h + w_ic^h s_c^h) / (z_i^h + w_il^h + w_ic^h)      for i in {l, c}.
"""

from __future__ import annotations

import numpy as np

from setwise._types import Floats, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.reward_table import RewardTable
from setwise.model.users import User


def followers(catalog: Catalog, user: User, leader: int, rows: Rows, most: int) -> Rows:
    """The ``most`` of ``rows`` with which the ``leader`` makes the best pair, the best first."""
    values = pair_values(catalog, user, leader, rows)
    if most < len(rows):
        best = np.argpartition(-values, most)[:most]
        rows, values = rows[best], values[best]
    return rows[np.argsort(-values, kind="stable")]


def pair_values(catalog: Catalog, user: User, leader: int, rows: Rows) -> Floats:
    """F({leader, c}) for every c of ``rows``, none of them the leader: (len(rows),)."""
    from setwise.retrieval.partner_kernels import judge_pairs  # compiled: imported when first needed

    heads, d = catalog.query.shape[1:]
    sink_key, sink_score = np.zeros((0, d)), np.zeros(heads)
    if catalog.sink is not None:
        sink_key = np.array(catalog.sink.key, np.float64)
        sink_score = np.einsum("hd,hd->h", catalog.sink.value.astype(np.float64), user.heads)
    base = objective.base_scores(catalog, user, np.append(rows, leader))
    table, result = RewardTable.of(catalog.rewards), np.empty(len(rows))
    judge_pairs(
        catalog.query,
        catalog.key,
        catalog.value,
        catalog.reward_class,
        np.array(user.heads),
        sink_key,
        sink_score,
        base,
        leader,
        base[-1],
        rows,
        table.code,
        table.parameter,
        table.first_knot,
        table.knot,
        np.empty((len(rows), heads)),
        np.empty((len(rows), heads, 4)),
        result,
    )
    return result
