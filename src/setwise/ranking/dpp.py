"""Determinantal point process: greedy search for the set of largest determinant.

The kernel is L_ij = q_i cos(x_i, x_j) q_j with q_i = e^(α r_i), r_i the reward alone scaled to 0 … 1 over the
candidates, and α = (1 − δ) / 2δ for the ``diversity`` δ. Since log det L_S = Σ_{i∈S} 2 α r_i + log det C_S with the
cosines C, the next item of the greedy search is

    argmax_i  (1 − δ) r_i + δ log d_i²

where d_i² is what C_ii keeps after projection on the members of S, updated by one Cholesky row a step (Chen, Zhang and
Zhou, 2018). d_i² is held above e^−40, so that exact copies can still fill a slate.
"""

from __future__ import annotations

import numpy as np

from setwise._types import Floats
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.mmr import DIVERSITY, relevance_of, share_of_diversity
from setwise.ranking.ranker import Ranker, Ranking
from setwise.ranking.top_k import in_turn

LEAST = np.exp(-40.0)  # of d_i²
DEPENDENT = 1e-10  # an item whose d_i² is smaller adds no direction: its row would be rounding errors, enlarged


def dpp(instance: Instance, constraints: Constraints, *, diversity: float = DIVERSITY) -> Ranking:
    """Add the allowed candidate that raises log det L most, up to k times."""
    share, relevance = share_of_diversity(diversity), relevance_of(instance)
    residual = _Residual(instance.similarity if share else np.eye(instance.m), constraints.k)

    def measure(chosen: list[int]) -> Floats:
        return np.asarray((1 - share) * relevance + share * np.log(residual.after(chosen)))

    return Ranking(in_turn(constraints, measure), 0.0, evaluations=1)


class _Residual:
    """d_i² of all candidates, given the chosen ones."""

    def __init__(self, similarity: Floats, most: int) -> None:
        self._similarity = similarity
        self._left = np.ones(len(similarity))  # a zero vector is unlike all others, itself included
        self._rows = np.zeros((min(most, len(similarity)), len(similarity)))  # of the Cholesky factor, one a member
        self._known = 0  # rows

    def after(self, chosen: list[int]) -> Floats:
        """d_i², at least e^−40, after all of ``chosen``, which extends the list of the last call."""
        for item in chosen[self._known :]:
            if self._left[item] > DEPENDENT:
                before = self._rows[: self._known]
                row = (self._similarity[item] - before[:, item] @ before) / np.sqrt(self._left[item])
                self._rows[self._known] = row
                self._left = np.maximum(self._left - row**2, LEAST)
            self._known += 1
        return self._left


DPP = Ranker("dpp", dpp, "DPP", uses_attention=False, by_reward_alone=True, interactive=True, lower_limits=True)
