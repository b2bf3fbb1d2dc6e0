"""Pure embedding (Proposition "pure embedding"): the best items one by one, without attention among them.

    maximise  Σ_{i∈S} f_i(x_i · y)   over  1 ≤ |S| ≤ k,      x_i · y = base_i · u⁰ + Σ_h v_i^h · u^h

f_i does not decrease, so among items of one reward function only the score matters: ask for the k nearest neighbours
in each of the τ classes, evaluate f of these at most τk, and keep the k best of those that are worth more than
nothing.

*Proposition.* If the j-th neighbour returned in a class scores at most ε less than the j-th best there, then the
value is at least (1 − g(ε)) OPT − k h(ε).
*Proof.* Let i* be the j-th best of an optimal set within its class, and i the j-th neighbour returned there. Then i
scores at least what i* does minus ε and has its reward, f_i ≥ (1 − g(ε)) f_i* − h(ε). Different i* have different i,
so these make a set of candidates, as large as the optimal one; what is kept is worth at least as much.  ∎

g and h must serve all classes at once. The largest g and the largest h do, unless g > 0 in one class and the rewards
of another are negative; then a larger g promises more, not less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proofs.fjlt import neighbours
from setwise._types import Floats
from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.rewards import Reward, evaluate
from setwise.model.users import User
from setwise.retrieval.backends.protocol import Neighbors, item_vectors, user_vector


@dataclass(frozen=True, eq=False)
class Additive:
    """A set and its additive value.

    items    catalogue rows, best first
    rewards  f_i(x_i · y) of each; the value is their sum
    """

    items: NDArray[np.intp]
    rewards: Floats

    @property
    def value(self) -> float:
        """Σ_i f_i(x_i · y)."""
        return float(self.rewards.sum())


class PureEmbedding:
    """A catalogue and the nearest neighbours in each of its reward classes."""

    def __init__(self, catalog: Catalog, nearest: Neighbors) -> None:
        self.catalog, self.nearest = catalog, nearest

    @classmethod
    def build(cls, catalog: Catalog, backend: str = "auto", **options: Any) -> PureEmbedding:
        """Index the items by reward class; ``options`` go to the retrieval backend of this name."""
        _, family = neighbours(backend)
        return cls(catalog, family.build(item_vectors(catalog), catalog.reward_class, len(catalog.rewards), **options))

    def recommend(self, user: ArrayLike | User, k: int) -> Additive:
        """At most k items of positive reward, the best there are; the single best if no reward is positive."""
        checked = refuse_added_scores(self.catalog.user(user))
        hits = self.nearest.search(user_vector(checked)[None], whole_number("k", k))
        candidates = hits.rows[hits.rows >= 0]
        reward = additive_rewards(self.catalog, checked, candidates)
        best = np.argsort(-reward, kind="stable")[: min(k, max(1, np.count_nonzero(reward > 0)))]
        return Additive(candidates[best], reward[best])


def refuse_added_scores(user: User) -> User:
    """``user``, who must have no added scores: this proposition is about vectors, which do not contain them."""
    if user.scores is not None:
        todo = "leave them out, or use setwise.Recommender"
        raise InvalidInput("user", "without added scores here", "one with scores", todo)
    return user


def additive_rewards(catalog: Catalog, user: User, rows: NDArray[np.intp]) -> Floats:
    """f_i(x_i · y) for ``rows``, in float64: whatever the company, and wherever in an ordered slate."""
    score, _ = objective.scores(catalog, user, rows, None)
    return evaluate(
        catalog.rewards, catalog.reward_class[rows], score.sum(axis=0) + objective.base_scores(catalog, user, rows)
    )


def guaranteed(rewards: Sequence[Reward], eps: float, k: int, optimum: float) -> float:
    """(1 − g(ε)) OPT − k h(ε), with the largest g and h of these rewards."""
    return (1 - max(reward.g(eps) for reward in rewards)) * optimum - k * max(reward.h(eps) for reward in rewards)
