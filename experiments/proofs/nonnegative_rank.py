"""Phase Two, step 1: replace W by a surrogate W' = A Bᵀ of low non-negative rank r₊ (Appendix D; Lemma "replace W'").

W is the m × m matrix of attention weights of one head, its rows rescaled to sum to 1. With A, B ≥ 0 of r columns and

    1 − γ ≤ W_ij / W'_ij ≤ 1 + γ    for all i, j

every average moves by at most γ/(1 + √(1 − γ²)) (Vu)_max, scores shifted to be at least 0 (``average_error``; the paper
has 2γ). γ is *measured*, not estimated: rows of W' scale freely, and the best scale of row i turns ratios between l and
u into γ_i = (u − l)/(u + l) < 1; γ is their maximum. Then the columns of B are scaled to sum to 1 (Observation
"scale"), so that the rows of A sum to those of W'. These sums are at most 1/(1 − γ); the paper's 1 + γ inverts the
ratio.

Up to a scale, row i of W is exp of row i of the logits; so distances between rows are measured by the *spread* of their
difference, max − min, which no additive constant changes, and rows that differ by a spread ω give γ ≤ tanh(ω/2).

Constructions, all deterministic:

query_clusters   rows in one of r clusters share one row: A is one-hot, B_jc = exp of the centre of c. With queries and
                 keys, γ ≤ tanh(δ_q ‖K‖) ≤ exp(δ_q ‖K‖) − 1.
rank_partition   the paper's corollary: from a distance δ to W', with γ and the rank bounded in advance. See there.
joint_clusters   the paper's: W'_ij depends on the clusters of i and of j alone. Its factorisation over *unordered*
                 pairs of clusters leaves entries with cluster(i) > cluster(j) at 0; over ordered pairs it works with ℓ²
                 columns, and ℓ columns suffice: ℓ clusters have ℓ different rows. Kept as the reference: leaving the
                 keys unclustered costs no rank.
factorised       a non-negative factorisation fitted to the ratios themselves: multiplicative updates of the
                 Itakura–Saito divergence Σ (ρ − log ρ − 1), ρ = W/W', which weighs small entries as it does large ones;
                 started from query_clusters; the result has the smallest γ on the way, the start included.

For a matrix of non-negative rank 1 (all rows proportional) all but joint_clusters, which needs equal keys as well, give
γ = 0 up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Rows
from setwise.model.instance import FLOOR, Instance
from setwise.model.rewards import Reward, evaluate

_UPDATES = 300  # of the factorisation, 20 to 60 ms; a thousand would lower γ further, by 0 to 40 % where it was tried
_MIX = 0.05  # share of other clusters the factorisation starts with: multiplicative updates never leave 0
_CENTRING = 20  # rounds of assigning rows and centring clusters
_EQUAL = 1e-12  # rows whose spread is this small, beside their entries, are the same


@dataclass(frozen=True, eq=False)
class Surrogate:
    """W' = A Bᵀ, the columns of B summing to 1, and the measured γ."""

    a: Floats  # (m, r)
    b: Floats  # (m, r)
    gamma: float

    @classmethod
    def of(cls, weight: Floats, a: Floats, b: Floats) -> Surrogate:
        """Scale the factors to fit W and measure γ."""
        ratio = weight / (a @ b.T)
        a = a * ((ratio.min(axis=1) + ratio.max(axis=1)) / 2)[:, None]
        mass = b.sum(axis=0)
        a, b = a * mass, b / mass
        return cls(a, b, float(np.abs(weight / (a @ b.T) - 1).max()))

    @property
    def rank(self) -> int:
        """r₊: the number of columns."""
        return int(self.a.shape[1])

    @cached_property
    def weight(self) -> Floats:
        """W', (m, m)."""
        return np.asarray(self.a @ self.b.T)


@dataclass(frozen=True, eq=False)
class SurrogateProblem:
    """Problem P'(I): x ∈ {0,1}^m, 1 ≤ e·x ≤ k, maximise Σ_i x_i f_i( Σ_j a_ij d_j·x / w'_i·x ), d_j = b_j ⊙ Vu.

    Scores are shifted by their minimum, so that Vu ≥ 0 as the lemmas need; f_i(x) becomes f_i(x + offset_i), which
    includes the base term as well.
    """

    surrogate: Surrogate
    score: Floats  # (m,) Vu ≥ 0
    offset: Floats  # (m,)
    rewards: tuple[Reward, ...]
    reward_class: NDArray[np.int32]
    k: int

    @classmethod
    def of(cls, instance: Instance, surrogate: Surrogate, k: int) -> SurrogateProblem:
        """The problem of an instance of one head and no sink."""
        low = float(instance.score.min())
        offset = instance.base + low
        return cls(surrogate, instance.score[0] - low, offset, instance.rewards, instance.reward_class, k)

    @cached_property
    def d(self) -> Floats:
        """d_j = b_j ⊙ Vu, as rows: (r, m), at least 0."""
        return np.asarray(self.surrogate.b.T * self.score)

    def reward(self, x: Floats) -> Floats:
        """f_i(x_i + offset_i) along the last axis."""
        return evaluate(self.rewards, self.reward_class, x + self.offset)

    def values(self, chosen: NDArray[np.bool_]) -> Floats:
        """The objective for each row of ``chosen`` (n, m), none of them empty."""
        x = chosen.astype(np.float64)
        average = (x * self.score) @ self.surrogate.weight.T / (x @ self.surrogate.weight.T)
        return np.asarray((x * self.reward(average)).sum(axis=1))


def average_error(gamma: float) -> float:
    """γ/(1 + √(1 − γ²)): how far an average of numbers in [0, 1] moves when W' replaces W.

    Ratios between 1 − γ and 1 + γ change the odds of any set of columns by at most ω = (1 + γ)/(1 − γ), hence its
    probability by at most (√ω − 1)/(√ω + 1) = γ/(1 + √(1 − γ²)). An average of numbers in [0, 1] is an integral of such
    probabilities over the levels of the numbers.
    """
    return gamma / (1 + math.sqrt(max(0.0, 1 - gamma * gamma)))


def row_stochastic(logit: Floats) -> Floats:
    """W: exp of the logits (m, m), rows summing to 1; entries stay positive down to e^−700 of the row's largest."""
    rows = _floored(logit)
    weight = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def query_clusters(logit: Floats, rank: int) -> Surrogate:
    """At most ``rank`` clusters of rows, a row of B for each."""
    rows = _floored(logit)
    return _clustered(rows, _clusters(rows, rank))


def joint_clusters(logit: Floats, rank: int) -> Surrogate:
    """At most ``rank`` joint clusters of rows (queries) and columns (keys): W' is constant on every block."""
    rows = _floored(logit)
    labels = _clusters(np.hstack([_centred(rows), _centred(rows.T)]), rank)
    hot = one_hot(labels)
    centres, _ = _centres(rows, labels)
    size = hot.sum(axis=0)
    blocks = (centres @ hot) / size  # (ℓ, ℓ): the centre of a cluster of rows, averaged over a cluster of columns
    return scaled(rows, hot, (blocks @ hot.T).T)


def factorised(logit: Floats, rank: int) -> Surrogate:
    """The best γ seen while fitting the ratios, starting from clusters."""
    weight, best = row_stochastic(logit), query_clusters(logit, rank)
    a, b = best.a + _MIX * best.a.max(axis=1, keepdims=True), best.b
    with np.errstate(all="ignore"):  # ratios beyond the doubles make γ NaN, which is never the best
        for _ in range(_UPDATES):
            a = a * _update(weight, a, b)
            b = b * _update(weight.T, b, a)
            tried = Surrogate.of(weight, a, b)
            a, b = tried.a, tried.b
            best = tried if tried.gamma < best.gamma else best
    return best


SURROGATES: dict[str, Callable[[Floats, int], Surrogate]] = {
    "clusters": query_clusters,
    "joint": joint_clusters,
    "factorised": factorised,
}


def _update(weight: Floats, left: Floats, right: Floats) -> Floats:
    """The multiplicative step for ``left`` in left · rightᵀ ≈ weight; its square root never raises the divergence."""
    fit = left @ right.T
    tiny = np.finfo(float).tiny
    return np.asarray(np.sqrt(((weight / fit / fit) @ right + tiny) / ((1 / fit) @ right + tiny)))


# --- clusters of rows, by the spread of their differences ---


def _floored(logit: Floats) -> Floats:
    """Logits whose weights do not vanish beside the largest of their row."""
    top = logit.max(axis=1, keepdims=True)
    return np.asarray(np.maximum(logit, np.where(np.isfinite(top), top, 0.0) + FLOOR))


def _centred(rows: Floats) -> Floats:
    """Rows moved so that their largest and smallest entries are opposite: the constant that a row may have is gone."""
    return np.asarray(rows - (rows.max(axis=-1, keepdims=True) + rows.min(axis=-1, keepdims=True)) / 2)


def _spread(rows: Floats, centres: Floats) -> Floats:
    """The spread, max − min, of every row minus every centre: (rows, centres)."""
    return np.stack([np.ptp(rows - centre, axis=1) for centre in centres], axis=1)


def _clusters(rows: Floats, count: int) -> Rows:
    """Labels 0, 1, …: farthest-point centres first, then assigned and centred in turn while the worst spread falls."""
    chosen = [0]
    distance = _spread(rows, rows[:1])[:, 0]
    while len(chosen) < count and distance.max() > _EQUAL * (1 + np.abs(rows).max()):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, _spread(rows, rows[chosen[-1:]])[:, 0])
    centres, best, worst = rows[chosen], np.zeros(len(rows), np.intp), np.inf
    for _ in range(_CENTRING):
        labels = _renumbered(_spread(rows, centres).argmin(axis=1))
        centres, spread = _centres(rows, labels)
        if spread >= worst:
            break
        best, worst = labels, spread
    return best


def _renumbered(labels: Rows) -> Rows:
    return np.unique(labels, return_inverse=True)[1].astype(np.intp)


def _centres(rows: Floats, labels: Rows) -> tuple[Floats, float]:
    """A centre for each cluster, and the worst spread: the middle of its rows, or one of the rows if that is better."""
    centres, worst = [], 0.0
    for label in range(int(labels.max()) + 1):
        members = rows[labels == label]
        level = members - np.median(members, axis=1, keepdims=True)
        candidates = np.vstack([_middle(members), _middle(level), members])
        spread = _spread(members, candidates).max(axis=0)
        centres.append(candidates[spread.argmin()])
        worst = max(worst, float(spread.min()))
    return np.array(centres), worst


def _middle(rows: Floats) -> Floats:
    return np.asarray((rows.max(axis=0) + rows.min(axis=0)) / 2)


def one_hot(labels: Rows) -> Floats:
    """A: row i has a 1 in the column of its cluster."""
    return np.asarray(labels[:, None] == np.arange(labels.max() + 1), np.float64)


def _clustered(rows: Floats, labels: Rows) -> Surrogate:
    """The surrogate of clusters of rows: A is one-hot, the columns of B are exp of the centres."""
    centres, _ = _centres(rows, labels)
    return scaled(rows, one_hot(labels), centres.T)


def scaled(rows: Floats, hot: Floats, log_b: Floats) -> Surrogate:
    """A = ``hot`` and B = exp(``log_b``), 1 the largest entry of a column; measuring scales the rows of W'."""
    b = np.exp(np.maximum(log_b - log_b.max(axis=0), FLOOR))
    return Surrogate.of(row_stochastic(rows), hot, b)
