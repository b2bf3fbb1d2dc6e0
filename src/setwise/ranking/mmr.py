"""Maximal marginal relevance: items that are good alone and unlike those chosen before.

    next item = argmax_i  (1 − δ) r_i − δ max_{j∈S} cos(x_i, x_j)

r_i is the reward alone, scaled to 0 … 1 over the candidates; x_i are the embeddings of the candidates; δ is the
``diversity``, from 0 (top-k) to 1. (Carbonell and Goldstein, 1998.)
"""

from __future__ import annotations

import numpy as np

from setwise._types import Floats
from setwise._validation import real_number
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.ranker import Ranker, Ranking
from setwise.ranking.top_k import in_turn

DIVERSITY = 0.25  # where none is given


def mmr(instance: Instance, constraints: Constraints, *, diversity: float = DIVERSITY) -> Ranking:
    """Add the allowed candidate of largest marginal relevance, up to k times."""
    share, relevance = share_of_diversity(diversity), relevance_of(instance)
    similarity = instance.similarity if share else np.eye(instance.m)
    nearest, known = np.full(instance.m, -np.inf), 0

    def measure(chosen: list[int]) -> Floats:
        nonlocal known
        for item in chosen[known:]:
            np.maximum(nearest, similarity[item], out=nearest)
        known = len(chosen)
        return np.asarray((1 - share) * relevance - share * (nearest if known else 0.0))

    return Ranking(in_turn(constraints, measure), 0.0, evaluations=1)


def share_of_diversity(diversity: float) -> float:
    """``diversity`` as a number from 0 to 1."""
    share = real_number("diversity", diversity)
    if not 0 <= share <= 1:
        raise InvalidInput("diversity", "from 0 (scores alone) to 1 (variety alone)", share, "pass such a number")
    return share


def relevance_of(instance: Instance) -> Floats:
    """Rewards alone, scaled to 0 … 1; infinite ones count as the largest double."""
    alone = np.nan_to_num(instance.alone) / 2  # halved, so that no difference overflows
    least, most = alone.min(), alone.max()
    return np.zeros(instance.m) if most <= least else (alone - least) / (most - least)


MMR = Ranker("mmr", mmr, "MMR", uses_attention=False, by_reward_alone=True, interactive=True, lower_limits=True)
