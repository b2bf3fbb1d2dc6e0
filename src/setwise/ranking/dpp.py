"""Determinantal point process: greedy search for the set of largest determinant.

The kernel is L_ij = q_i cos(x_i, x_j) q_j with q_i = e^(α r_i), r_i the reward alone scaled to 0 … 1 over the
candidates, and α = (1 − δ) / 2δ for the ``diversity`` δ. Since log det L_S = Σ_{i∈S} 2 α r_i + log det C_S with the
cosines C, the next item of the greedy search is

    argmax_i  (1 − δ) r_i + δ log d_i²

where d_i² is what C_ii keeps after projection on the members of S, updated by one Cholesky row a step (Chen, Zhang and
Zhou, 2018). d_i² is held above e^−40 (10⁻⁶ in single precision), so that exact copies can still fill a slate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.ranking.mmr import DIVERSITY, relevance_of, share_of_diversity, unit_vectors_of
from setwise.ranking.ranker import Ranker, Ranking

# The least d_i², and that below which an item adds no direction: its row would be rounding errors, enlarged.
LEAST = {np.dtype(np.float64): math.exp(-40.0), np.dtype(np.float32): 1e-6}
DEPENDENT = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


def dpp(instance: Instance, constraints: Constraints, *, diversity: float = DIVERSITY) -> Ranking:
    """Add the allowed candidate that raises log det L most, up to k times."""
    share = share_of_diversity(diversity)
    chosen = most_determinant(relevance_of(instance.alone), unit_vectors_of(instance), constraints, share)
    return Ranking(chosen, 0.0, evaluations=1)


def most_determinant(relevance: Floats, unit: Array, constraints: Constraints, share: float) -> NDArray[np.intp]:
    """The pinned items, then those that raise log det L most, by unit vectors (m, d)."""
    chosen, joinable = constraints.pinned.tolist(), constraints.joinable(constraints.pinned)
    gain = ((1 - share) * relevance).astype(unit.dtype)
    gain[~joinable] = -np.inf
    residual, limited, k = _Residual(unit, min(constraints.k, len(gain))), constraints.is_joint, constraints.k
    for item in chosen[:-1]:
        residual.project(item)
    while len(chosen) < k:
        total = gain
        if share and chosen:
            residual.project(chosen[-1])
            total = np.log(residual.left)
            total *= share
            total += gain
        item = total.argmax()
        if gain[item] == -np.inf:
            break
        chosen.append(item)
        gain[item] = -np.inf
        if limited:
            joinable = constraints.still_joinable(joinable, chosen)
            gain[~joinable] = -np.inf
    return np.array(chosen, np.intp)


class _Residual:
    """d_i² of all candidates, given those that were projected on."""

    def __init__(self, unit: Array, most: int) -> None:
        self._unit = unit
        self.left = np.ones(len(unit), unit.dtype)  # a zero vector is unlike all others, itself included
        self._factor = np.empty((most, len(unit)), unit.dtype)  # rows of the Cholesky factor, one a member
        self._rows, self._dependent = 0, DEPENDENT[unit.dtype]
        self._least = unit.dtype.type(LEAST[unit.dtype])

    def project(self, item: int) -> None:
        """Take away what this candidate's direction explains; d_i² does not vanish."""
        if self.left[item] <= self._dependent:
            return
        row, known = self._unit @ self._unit[item], self._rows
        if known:
            row -= self._factor[:known, item] @ self._factor[:known]
        row /= math.sqrt(self.left[item])
        self._factor[known], self._rows = row, known + 1
        row *= row
        self.left -= row
        np.maximum(self.left, self._least, out=self.left)


DPP = Ranker("dpp", dpp, "DPP", uses_attention=False, by_reward_alone=True, interactive=True, lower_limits=True)
