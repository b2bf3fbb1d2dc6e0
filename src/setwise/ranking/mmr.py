"""Maximal marginal relevance: items that are good alone and unlike those chosen before.

    next item = argmax_i  (1 − δ) r_i − δ max_{j∈S} cos(x_i, x_j)

r_i is the reward alone, scaled to 0 … 1 over the candidates; x_i are the embeddings of the candidates; δ is the
``diversity``, from 0 (top-k) to 1. (Carbonell and Goldstein, 1998.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats
from setwise._validation import LARGEST, real_number
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.ranker import Ranker, Ranking

DIVERSITY = 0.25  # where none is given


def mmr(instance: Instance, constraints: Constraints, *, diversity: float = DIVERSITY) -> Ranking:
    """Add the allowed candidate of largest marginal relevance, up to k times."""
    share = share_of_diversity(diversity)
    chosen = most_marginal(relevance_of(instance.alone), unit_vectors_of(instance), constraints, share)
    return Ranking(chosen, 0.0, evaluations=1)


def most_marginal(relevance: Floats, unit: Array, constraints: Constraints, share: float) -> NDArray[np.intp]:
    """The pinned items, then those of largest marginal relevance, by unit vectors (m, d)."""
    chosen, joinable = constraints.pinned.tolist(), constraints.joinable(constraints.pinned)
    gain = ((1 - share) * relevance).astype(unit.dtype)
    gain[~joinable] = -np.inf
    total, turned, limited = gain, unit * unit.dtype.type(-share), constraints.is_joint
    for number in range(constraints.k):
        if share and number:
            beside = turned.dot(unit[chosen[number - 1]])
            beside += gain
            total = beside if number == 1 else np.minimum(total, beside, out=total)
        if number < len(constraints.pinned):
            continue
        item = total.argmax()
        if total[item] == -np.inf:
            break
        chosen.append(item)
        gain[item] = -np.inf
        if limited:
            joinable = constraints.still_joinable(joinable, chosen)
            gain[~joinable] = -np.inf
        if number:
            total[item] = -np.inf
            if limited:
                total[~joinable] = -np.inf
    return np.array(chosen, np.intp)


def share_of_diversity(diversity: float) -> float:
    """``diversity`` as a number from 0 to 1."""
    share = real_number("diversity", diversity)
    if not 0 <= share <= 1:
        raise InvalidInput("diversity", "from 0 (scores alone) to 1 (variety alone)", share, "pass such a number")
    return share


def relevance_of(rewards: Floats) -> Floats:
    """Rewards alone, scaled to 0 … 1; infinite ones count as the largest double."""
    alone, least, most = rewards, rewards.min(), rewards.max()
    if not (least > -LARGEST and most < LARGEST):
        alone = np.nan_to_num(rewards) / 2  # halved, so that no difference overflows
        least, most = alone.min(), alone.max()
    return np.zeros(len(alone)) if most <= least else (alone - least) / (most - least)


def unit_vectors_of(instance: Instance) -> Array:
    """The unit vectors of an instance's candidates; without embeddings no two are similar."""
    return np.eye(instance.m) if instance.embed is None else instance.embed()


MMR = Ranker("mmr", mmr, "MMR", uses_attention=False, by_reward_alone=True, interactive=True, lower_limits=True)
