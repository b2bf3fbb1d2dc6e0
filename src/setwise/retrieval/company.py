"""Company: who would be worth most beside items that will be there. Phase One asked by the leader, not by the user.

Phase One takes the best of every cell by score. But a score is what an item lends; what it is worth depends on whom it
attends to. Under strong attention the best sets are a leader, the item of highest score, and followers whose rewards
come from it: items of modest score that attend to the leader and to little else. So all items of a reserve are asked
for the value F(S ∪ {c}) of a set S = {leader} with each of them. One pass over the rows asked: k + 1 attention rows
change, each by one term,

    a_i(S ∪ {c}) = base_i·u⁰ + Σ_h (N_i^h + w_ic^h s_c^h) / (D_i^h + w_ic^h)      for i in S,
    a_c(S ∪ {c}) = base_c·u⁰ + Σ_h (N_c^h + w_cc^h s_c^h) / (D_c^h + w_cc^h),

N_i^h = z_i^h s_0^h + Σ_{j∈S} w_ij^h s_j^h and D_i^h = z_i^h + Σ_{j∈S} w_ij^h being the sums over S.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise import objective
from setwise.catalog import Catalog
from setwise.rewards import evaluate
from setwise.users import User

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


def followers(catalog: Catalog, user: User, leader: int, rows: Rows, most: int) -> Rows:
    """The ``most`` of ``rows`` with which the ``leader`` makes the best pair, the best first."""
    values = values_beside(catalog, user, np.array([leader]), rows)
    if most < len(rows):
        best = np.argpartition(-values, most)[:most]
        rows, values = rows[best], values[best]
    return rows[np.argsort(-values, kind="stable")]


def values_beside(catalog: Catalog, user: User, chosen: Rows, rows: Rows) -> Floats:
    """F(chosen ∪ {c}) for every c of ``rows``, none of them chosen: (len(rows),)."""
    own, sink = objective.logits(catalog, chosen, None)
    score, sink_score = objective.scores(catalog, user, rows, None)
    theirs, _ = objective.scores(catalog, user, chosen, None)
    silent = np.zeros(catalog.heads) if sink_score is None else sink_score
    joiner = objective.base_scores(catalog, user, rows)
    member = np.tile(objective.base_scores(catalog, user, chosen), (len(rows), 1))
    for h in range(catalog.heads):
        query, key = catalog.query[rows, h].astype(np.float64), catalog.key[rows, h].astype(np.float64)
        rest = None if sink is None else sink[h]
        drawn = key @ catalog.query[chosen, h].astype(np.float64).T  # (rows, k): what each member gives to c
        member += _with_one_more(own[h], theirs[h], rest, silent[h], drawn, score[h])
        given = np.column_stack([query @ catalog.key[chosen, h].astype(np.float64).T, np.vecdot(query, key)])
        rest = None if catalog.sink is None else query @ catalog.sink.key[h].astype(np.float64)
        joiner += _average(given, theirs[h], score[h], rest, silent[h])
    return np.asarray(
        evaluate(catalog.rewards, catalog.reward_class[chosen], member).sum(axis=1)
        + evaluate(catalog.rewards, catalog.reward_class[rows], joiner)
    )


def _with_one_more(
    logit: Floats, score: Floats, rest: Floats | None, silent: float, drawn: Floats, newcomer: Floats
) -> Floats:
    """What each member i sees when c has joined: (rows, k)."""
    top = logit.max(axis=1) if rest is None else np.maximum(logit.max(axis=1), rest)
    top = np.maximum(top, drawn.max(axis=0))  # one scale a member, so that N and D are computed once
    weight, left = np.exp(logit - top[:, None]), 0.0 if rest is None else np.exp(rest - top)
    numerator, denominator = weight @ score + left * silent, weight.sum(axis=1) + left
    joined = np.exp(drawn - top)
    total = denominator + joined
    seen: Floats = np.divide(numerator + joined * newcomer[:, None], total, out=np.zeros_like(total), where=total > 0)
    return seen


def _average(logit: Floats, score: Floats, itself: Floats, rest: Floats | None, silent: float) -> Floats:
    """What c sees of the members, of itself (the last column) and of the sink: (rows,)."""
    top = logit.max(axis=1) if rest is None else np.maximum(logit.max(axis=1), rest)
    weight = np.exp(logit - top[:, None])
    numerator, denominator = weight[:, :-1] @ score + weight[:, -1] * itself, weight.sum(axis=1)
    if rest is not None:
        left = np.exp(rest - top)
        numerator, denominator = numerator + left * silent, denominator + left
    return np.asarray(numerator / denominator)
