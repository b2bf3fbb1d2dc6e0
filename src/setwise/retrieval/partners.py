"""Best partners of an anchor item: the items that make the most valuable pair with it.

Phase One ranks by score. A score is what an item contributes to the items that attend to it; its own reward depends on
what it attends to. Under strong attention the best sets consist of an anchor l, the item of highest score, and partners
whose rewards come from attending to it: items of modest score that attend to the anchor and to little else. Retrieval
by score misses them. So the reserve of a search is ranked by the value of the pair that each item c makes with l:

    F({l, c}) = f_l(a_l) + f_c(a_c),
    a_i = base_i·u⁰ + Σ_h (z_i^h s_0^h + w_il^h s_l^h + w_ic^h s_c^h) / (z_i^h + w_il^h + w_ic^h)      for i in {l, c}.
"""

from __future__ import annotations

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import read_only
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import Reward
from setwise.model.users import User


def best_partners(catalog: Catalog, user: User, anchor: int, rows: Rows, most: int) -> Rows:
    """At most ``most`` of ``rows``: those that make the best pairs with the ``anchor``, best first."""
    return best_pairs(rows, pair_values(catalog, user, anchor, rows), most)


def best_pairs(rows: Rows, values: Floats, most: int) -> Rows:
    """At most ``most`` of ``rows``: those of the largest values, best first."""
    if most < len(rows):
        best = np.argpartition(-values, most)[:most]
        rows, values = rows[best], values[best]
    return rows[np.argsort(-values, kind="stable")]


def pair_values(catalog: Catalog, user: User, anchor: int, rows: Rows) -> Floats:
    """F({anchor, c}) for every c of ``rows``, none of them the anchor: (len(rows),)."""
    every = np.append(rows, anchor)
    return pairs_with(
        catalog, user, catalog, anchor, rows, objective.base_scores(catalog, user, every), user.weights_of(every)
    )


def pairs_with(
    catalog: Catalog,
    user: User,
    others: Catalog,
    anchor: int,
    rows: Rows,
    base: Floats,
    weights: Floats | None = None,
) -> Floats:
    """F({anchor, c}) for every c of ``rows``, where the anchor is an item of ``others``, a catalogue of the same model.

    ``base`` are the self terms of the rows, then that of the anchor; ``weights`` likewise what their rewards count.
    """
    from setwise.retrieval.partner_kernels import fill_pair_values  # compiled: imported when first needed

    heads, d = catalog.query.shape[1:]
    sink_key, sink_score = np.zeros((0, d)), np.zeros(heads)
    if catalog.sink is not None:
        sink_key = np.array(catalog.sink.key, np.float64)
        sink_score = np.einsum("hd,hd->h", catalog.sink.value.astype(np.float64), user.heads)
    rewards, first = (catalog.rewards, 0) if others is catalog else _both(catalog, others)
    table, result = RewardTable.of(rewards), np.empty(len(rows))
    fill_pair_values(
        catalog.query,
        catalog.key,
        catalog.value,
        read_only(catalog.reward_class),
        np.array(user.heads),
        sink_key,
        sink_score,
        base,
        read_only(others.query[anchor]),
        read_only(others.key[anchor]),
        read_only(others.value[anchor]),
        first + int(others.reward_class[anchor]),
        base[-1],
        read_only(rows),
        table.code,
        table.parameter,
        table.first_knot,
        table.knot,
        np.ones(len(base)) if weights is None else weights,
        np.empty((len(rows), heads)),
        np.empty((len(rows), heads, 4)),
        result,
    )
    return result


def _both(catalog: Catalog, others: Catalog) -> tuple[tuple[Reward, ...], int]:
    """The reward functions of both, and the number of the first of ``others`` among them."""
    return (*catalog.rewards, *others.rewards), len(catalog.rewards)
