"""Exploration: exchange one item of some slates at random, with known probabilities.

Of the slate S* that was found, an explored slate is S* − {i} + {j}: i is an item of S* that is not pinned, j one of the
``POOL`` eligible items outside of S* with the largest reward alone, and the new set keeps all limits. With P such pairs
and a share ε of explored slates, the probability of what is shown is

    p(S*) = 1 − ε,      p(S* − {i} + {j}) = ε / P        (p(S*) = 1 if there is no pair)

These *propensities* are exact, since each pair gives another set. So outcomes of explored slates show what single items
do in the company of others, and any policy π whose sets are among these can be evaluated without being deployed: the
mean of π(S) / p(S) · (observed hits of S) over the logged slates is an unbiased estimate of its expected hits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from setwise._types import Rows
from setwise.model import objective
from setwise.model.alone import best_alone
from setwise.recommend.slate import Slate

POOL = 20  # items outside of the slate that may enter it


class Explored(NamedTuple):
    """The slate to show, the probability of showing it, and whether it differs from the one that was found."""

    slate: Slate
    propensity: float
    explored: bool


def explore(slate: Slate, share: float, rng: np.random.Generator) -> Explored:
    """The slate itself, or with probability ``share`` one with an item exchanged."""
    drawn = rng.random() < share
    if not drawn and not slate.query.is_limited:  # the pairs need not be known
        free = 0 < len(slate) < slate.query.eligible.count
        return Explored(slate, 1.0 - share if free else 1.0, False)
    pairs = exchanges(slate)
    if not pairs:
        return Explored(slate, 1.0, False)
    if not drawn:
        return Explored(slate, 1.0 - share, False)
    chosen = exchanged(slate, *pairs[rng.integers(len(pairs))])
    return Explored(_valued(slate, chosen), share / len(pairs), True)


def exchanges(slate: Slate) -> list[tuple[int, int]]:
    """The pairs (i, j) of rows: i of the slate and j of the pool, such that the set with j for i is feasible."""
    query = slate.query
    outside = np.setdiff1d(query.eligible.rows, slate.indices, assume_unique=True)
    if not len(outside):
        return []
    pool = best_alone(query.catalog, query.user, outside, POOL)
    leaving = np.setdiff1d(slate.indices, query.include)
    pairs = [(i, j) for i in leaving.tolist() for j in pool.tolist()]
    return [pair for pair in pairs if query.admits(exchanged(slate, *pair))] if query.is_limited else pairs


def exchanged(slate: Slate, i: int, j: int) -> Rows:
    """The rows of the slate with j for i, in increasing order."""
    return np.sort(np.where(slate.indices == i, j, slate.indices))


def _valued(slate: Slate, rows: Rows) -> Slate:
    """The slate of these rows; the bound holds for it too."""
    rewards = objective.item_rewards(slate.catalog, slate.user, rows)
    order = np.lexsort((rows, -rewards))
    value = float(rewards.sum())
    return replace(
        slate,
        indices=rows[order],
        rewards=rewards[order],
        value=value,
        upper_bound=max(slate.upper_bound, value),
        proven=False,
    )
