"""The pairwise member of an outcome model: one number for each item and for each pair of items, and the link.

    F(S) = c + Σ_{i∈S} b_i + Σ_{{i,j}⊂S} P_ij

minimises  Σ_t w_t loss(F(S_t), y_t) + λ Σ P_ij² + (λ/3) Σ b_i²  by L-BFGS, with the λ of ``PENALTIES`` that has the
smallest loss on a fifth of the sets. A pair that no set has keeps 0. It has fewer ways to err than attention, so few
sets suffice for it; attention in turn learns what pairs cannot express.

**As attention.** Two heads express any symmetric P. With ε = 1 / max |P_ij| and x_ij = asinh(ε P_ij / 2), their logits
are +x_ij and −x_ij, their values +M/2ε and −M/2ε, and both have a sink of weight M and value 0. Since x_ii = 0,

    a_i = (M/2ε) [ Σ_j e^x / (M + Σ_j e^x) − Σ_j e^−x / (M + Σ_j e^−x) ]
        = (1/2ε) Σ_j 2 sinh x_ij · (1 + O(|S|/M)) = ½ Σ_j P_ij,

so Σ_i a_i counts each pair once. Queries are the rows of x, keys unit vectors: the heads have as many dimensions as
there are items. ``SINK`` = M makes the relative error |S|·10^−12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Floats, Ints
from setwise.training.base.session_matrix import scipy_for
from setwise.training.outcome_links import losses, losses_and_slopes, outcome_unit, unlinked

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SINGLE = 1 / 3  # the penalty of an item, relative to that of a pair
HELD_OUT = 5  # one of so many sets chooses the penalty
LEAST_SETS, FEW = 20, 3.0  # with fewer sets than that, this is the penalty
PURPOSE = "fitting pairs of items"
ITERATIONS = 200
SINK = 1e12


@dataclass(frozen=True, eq=False)
class PairMember:
    """b (n,), P (n, n) symmetric with a zero diagonal, the constant c, and the penalty that was chosen."""

    base: Floats
    pair: Floats
    constant: float
    penalty: float

    def values(self, sets: Ints) -> Floats:
        """F of every row of ``sets``."""
        single = np.where(sets >= 0, self.base[sets], 0.0).sum(axis=1)
        return np.asarray(single + pair_values(self.pair, sets) + self.constant)

    def scaled(self, factor: float) -> PairMember:
        """The member whose F is this number times as large."""
        return PairMember(self.base * factor, self.pair * factor, self.constant * factor, self.penalty)


class PairHeads(NamedTuple):
    """The two heads of a P: queries and keys (n, 2, n), values and sink logits (n, 2)."""

    query: Floats
    key: Floats
    value: Floats
    sink: Floats


def fit_pairs(
    sets: Ints,
    target: Floats,
    n: int,
    link: str,
    loss: str,
    seed: int,
    *,
    additive: bool = False,
    weight: Floats | None = None,
    knee: float = math.inf,
) -> PairMember:
    """Fit to rows of item numbers, −1 for an empty place.

    ``additive`` leaves out the pairs; ``weight`` says how much the loss of each set counts; ``knee`` is the link's.
    """
    unit = outcome_unit(link, target) if link == "identity" else 1.0
    counts, target = np.ones(len(sets)) if weight is None else weight, target / unit
    columns = _Columns(sets[:, :1] if additive else sets, n)
    x = columns.features(sets)
    penalty = FEW
    if len(sets) >= LEAST_SETS:
        order = np.random.default_rng(seed).permutation(len(sets))
        held, kept = np.sort(order[: len(sets) // HELD_OUT]), np.sort(order[len(sets) // HELD_OUT :])
        tried = {}
        for candidate in PENALTIES:
            effect, constant = _minimised(x[kept], target[kept], counts[kept], n, (link, loss, knee), candidate)
            held_losses = losses(link, loss, x[held] @ effect + constant, target[held], knee)
            tried[candidate] = float((counts[held] * held_losses).mean())
        penalty = min(tried, key=lambda candidate: tried[candidate])
    effect, constant = _minimised(x, target, counts, n, (link, loss, knee), penalty)
    return PairMember(effect[:n], columns.matrix(effect), constant, penalty).scaled(unit)


def pair_values(pair: Floats, sets: Ints) -> Floats:
    """Σ P_ij over the pairs of each row of ``sets``."""
    total = np.zeros(len(sets))
    for place in range(sets.shape[1]):
        for other in range(place):
            both = (sets[:, place] >= 0) & (sets[:, other] >= 0)
            total += np.where(both, pair[sets[:, place], sets[:, other]], 0.0)
    return total


def pair_heads(pair: Floats) -> PairHeads:
    """P as two attention heads."""
    n, scale = len(pair), float(np.abs(pair).max()) or 1.0
    logit = np.arcsinh(pair / (2 * scale))
    value = np.broadcast_to([SINK * scale / 2, -SINK * scale / 2], (n, 2))
    key = np.broadcast_to(np.eye(n)[:, None], (n, 2, n))
    return PairHeads(np.stack([logit, -logit], axis=1), key, value, np.full((n, 2), np.log(SINK)))


class _Columns:
    """The columns of the regression: one for each item, then one for each pair that some set has."""

    def __init__(self, sets: Ints, n: int) -> None:
        self.n = n
        codes = [code[valid] for code, valid in self._codes(sets)]
        self.pairs = np.unique(np.concatenate(codes)) if codes else np.zeros(0, np.int64)

    def _codes(self, sets: Ints) -> list[tuple[Ints, Any]]:
        """n·i + j with i > j of the pairs at each two places, and whether both places are filled."""
        result = []
        for place in range(sets.shape[1]):
            for other in range(place):
                one, two = sets[:, place], sets[:, other]
                result.append((self.n * np.maximum(one, two) + np.minimum(one, two), (one >= 0) & (two >= 0)))
        return result

    def features(self, sets: Ints) -> Any:
        """The sparse matrix of 0 and 1: (N, n + pairs)."""
        sparse = scipy_for(PURPOSE).sparse
        rows, columns = [np.nonzero(sets >= 0)[0]], [sets[sets >= 0]]
        for code, valid in self._codes(sets) if len(self.pairs) else ():
            rows.append(np.flatnonzero(valid))
            columns.append(self.n + np.searchsorted(self.pairs, code[valid]))
        row, column = np.concatenate(rows), np.concatenate(columns)
        return sparse.csr_matrix((np.ones(len(row)), (row, column)), (len(sets), self.n + len(self.pairs)))

    def matrix(self, weight: Floats) -> Floats:
        """The weights of the pairs as P."""
        pair = np.zeros((self.n, self.n))
        pair[self.pairs // self.n, self.pairs % self.n] = weight[self.n :]
        return pair + pair.T


def _minimised(
    x: Any, target: Floats, counts: Floats, n: int, model: tuple[str, str, float], penalty: float
) -> tuple[Floats, float]:
    """The weights and the constant of the smallest penalised loss; ``model`` is link, loss and knee."""
    link, loss, knee = model
    price = np.full(x.shape[1], penalty)
    price[:n] *= SINGLE
    turned = x.T.tocsr()

    def objective(point: Floats) -> tuple[float, Floats]:
        weight, f = point[:-1], x @ point[:-1] + point[-1]
        of_set, rise = losses_and_slopes(link, loss, f, target, knee)
        slope, total = counts * rise, (counts * of_set).sum() + (price * weight**2).sum()
        return float(total), np.append(turned @ slope + 2 * price * weight, slope.sum())

    start = np.append(np.zeros(x.shape[1]), unlinked(link, float((counts * target).mean())))
    options = {"maxiter": ITERATIONS}
    solution = scipy_for(PURPOSE).optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(solution.x[:-1]), float(solution.x[-1])
