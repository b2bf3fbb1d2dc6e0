"""Valuation: the answer to a query from the rows of its set, by the reference objective, in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from setwise._types import Floats, Mask, Rows
from setwise.model import objective
from setwise.model.batch_objective import many_arguments
from setwise.model.rewards import evaluate
from setwise.recommend.query import Query
from setwise.recommend.slate import Slate, proves


def valued(
    query: Query,
    rows: Rows,
    upper_bound: float,
    timings: Mapping[str, float],
    left_out: tuple[str, ...] = (),
    prices: Floats | None = None,
) -> Slate:
    """The slate, ordered by reward, with its value recomputed by the reference objective."""
    rewards = objective.item_rewards(query.catalog, query.user, rows)
    order = np.lexsort((rows, -rewards))
    rows, rewards = rows[order], rewards[order]
    value = float(rewards.sum())
    bound = max(upper_bound, value)
    proven = proves(query, rows, rewards, bound)
    if len(query.after):  # members of the set, but not of the page
        new = ~np.isin(rows, query.after)
        rows, rewards = rows[new], rewards[new]
    return Slate(
        query=query,
        indices=rows,
        value=value,
        rewards=rewards,
        upper_bound=bound,
        proven=proven,
        timings=dict(timings),
        left_out=left_out,
        prices=prices,
    )


def valued_many(
    queries: Sequence[Query], rows: Rows, filled: Mask, upper: Sequence[float], timings: Mapping[str, float]
) -> list[Slate]:
    """The slates of sets ``rows`` (B, k), of which the ``filled`` are used, valued in float64 all at once."""
    catalog = queries[0].catalog
    heads = np.stack([query.user.heads for query in queries])
    base = None
    if catalog.base is not None:
        zeros = np.zeros(catalog.base.shape[1])
        base = np.stack([zeros if query.user.base is None else query.user.base for query in queries])
    argument = many_arguments(catalog, heads, base, rows, filled)
    reward = evaluate(catalog.rewards, catalog.reward_class[rows].reshape(-1), argument.reshape(-1)).reshape(rows.shape)
    order = np.lexsort((rows, -reward, ~filled), axis=1)  # best first, unused places last
    rows, reward = np.take_along_axis(rows, order, 1), np.take_along_axis(reward, order, 1)
    slates = []
    sizes = filled.sum(axis=1).tolist()
    for number, (query, size, upper_bound) in enumerate(zip(queries, sizes, upper, strict=True)):
        indices, rewards = rows[number, :size], reward[number, :size]
        value = float(rewards.sum())
        bound = max(upper_bound, value)
        proven = proves(query, indices, rewards, bound)
        slates.append(Slate(query, indices, value, rewards, bound, proven, dict(timings)))
    return slates
