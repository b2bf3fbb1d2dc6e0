"""Which sets to measure next: the batch of sets whose best member is expected to be the largest.

The model is the pairwise one, F(S) = c + Σ_{i∈S} b_i + Σ_{{i,j}⊂S} P_ij, with a normal prior that lets similar items
share what is measured of them. With the similarity

    A_ij = (1 − s) [i = j] + s exp(−|x_i − x_j|² / 2w²)        (0 between groups, the identity without features x)

b has the covariance σ² A and P_ij, P_kl have σ² (A_ik A_jl + A_il A_jk), so for two sets, with M = A[S, T],

    cov(F(S), F(T)) / σ² = Σ M + ½ [ (Σ M)² − Σ_rows (row sum)² − Σ_columns (column sum)² + Σ M² ].

c is the mean outcome, an outcome has noise of variance λ σ², and σ² = yᵀ (K + λI)⁻¹ y / N with the covariance K of
the N measured sets and their outcomes y less c, where the likelihood is largest. s, w and λ are constants that were
chosen on draws of GB1 which no report uses; those of the largest likelihood were no better there.

**The batch.** F_1, …, F_B are samples of F given the outcomes: a sample f of the prior, plus what ridge regression
makes of the outcomes less f and less a sample of the noise. The batch D is grown one set at a time, by the largest

    G(D) = mean_b max( best outcome so far, max_{S∈D} F_b(S) ).

The sets of the largest means are not the best batch: they differ in one item and fail together. What the model
overrates is in many of them too, so no item may be in more than ``share`` of the batch unless nothing else is left. G
is monotone and submodular, so where that limit excludes no set, what the batch adds to G is at least 1 − 1/e of what
the best batch of its size among the examined sets would add; where it does, there is no such guarantee. The examined
sets are the ``EXAMINED`` candidates of the largest mean.
"""

from __future__ import annotations

import math

import numpy as np

from setwise._types import Floats, Ints, Mask, Rows
from setwise.training.set_pairs import PairMember

SHARE, WIDTH, NOISE = 0.5, 1.5, 1.0  # s, w in standard deviations of a feature, λ
EXAMINED = 6000
SMALLEST_VARIANCE = 1e-12


def next_sets(
    sets: Ints,
    outcome: Floats,
    candidates: Ints,
    count: int,
    *,
    n_items: int,
    features: Floats | None = None,
    group: Ints | None = None,
    share: float = 2 / 3,
    samples: int = 128,
    seed: int = 0,
) -> Rows:
    """The rows of ``candidates`` to measure next, ``count`` of them, in the order in which they were chosen.

    ``sets`` (N, k) are the measured sets of item numbers, −1 for an empty place, and ``outcome`` (N,) their numbers;
    ``candidates`` (M, k) the sets that can be measured: those that were are not chosen again. ``features`` (n, f) say
    which items are alike; ``group`` (n,) limits this to items of one group, such as a site. No item is in more than
    ``share`` of the batch.
    """
    open_rows = np.flatnonzero(_unmeasured(candidates, sets, n_items))
    posterior = PairPosterior(sets, outcome, similarity(n_items, features, group))
    value = posterior.mean().values(candidates[open_rows])
    order = _largest(value, max(EXAMINED, count))
    examined = open_rows[order]
    rng = np.random.default_rng(seed)
    drawn = np.stack([posterior.sample(rng).values(candidates[examined]) for _ in range(samples)], axis=1)
    most = max(1, math.floor(share * count))
    chosen = largest_expected_best(drawn, value[order], candidates[examined], float(outcome.max()), count, most)
    return np.asarray(examined[chosen])


def largest_expected_best(drawn: Floats, average: Floats, sets: Ints, best: float, count: int, most: int) -> Rows:
    """Rows of ``drawn`` (sets, samples), chosen greedily for the mean over samples of the largest chosen value.

    ``best`` is the outcome to beat. Where no row would raise the mean, the largest ``average`` (sets,) decides. Sets
    with an item that ``most`` chosen ones have come last.
    """
    reached = np.full(drawn.shape[1], best)
    gain = np.maximum(drawn - reached, 0.0).mean(axis=1)
    fallback = average - average.max() - 1.0  # below every gain, in the order of the averages
    last = float(fallback.min()) - 1.0  # below both, for sets with an item that is in too many
    uses = np.zeros(int(sets.max()) + 2, np.int64)  # the last for empty places, which are never too many
    chosen = np.zeros(count, np.intp)
    for place in range(count):
        while True:  # a gain only shrinks as the batch grows, so an old one is an upper limit
            row = int(gain.argmax())
            now = float(np.maximum(drawn[row] - reached, 0.0).mean()) or float(fallback[row])
            if (uses[sets[row]] >= most).any():
                now = last + float(fallback[row])
            if now >= gain[row]:
                break
            gain[row] = now
        chosen[place], gain[row] = row, -np.inf
        uses[sets[row]] += 1
        uses[-1] = 0
        reached = np.maximum(reached, drawn[row])
    return chosen


def covariance(one: Ints, two: Ints, alike: Floats) -> Floats:
    """cov(F(S), F(T)) / σ² for the rows S of ``one`` and T of ``two``."""
    # an empty place is like nothing: one more row and column of zeros, which −1 indexes
    padded = np.pad(alike, ((0, 1), (0, 1)))
    result = np.empty((len(one), len(two)))
    for row, members in enumerate(one):
        block = padded[members[:, None, None], two[None]]  # (k, sets, k)
        total = block.sum(axis=(0, 2))
        lines = (block.sum(axis=2) ** 2).sum(axis=0) + (block.sum(axis=0) ** 2).sum(axis=1)
        result[row] = total + 0.5 * (total**2 - lines + (block**2).sum(axis=(0, 2)))
    return result


class PairPosterior:
    """What the outcomes of ``sets`` say of b and P, given the similarity of the items."""

    def __init__(self, sets: Ints, outcome: Floats, alike: Floats) -> None:
        self.sets, self.alike = sets, alike
        self.constant = float(outcome.mean())
        self.residual = outcome - self.constant
        kernel = covariance(sets, sets, alike)
        kernel[np.diag_indices_from(kernel)] += NOISE
        self.inverse = np.linalg.inv(kernel)
        variance = float(self.residual @ self.inverse @ self.residual) / len(sets)
        self.scale = math.sqrt(max(variance, SMALLEST_VARIANCE))
        values, vectors = np.linalg.eigh(alike)
        self.root = vectors * np.sqrt(np.maximum(values, 0.0))  # root rootᵀ = A

    def mean(self) -> PairMember:
        """The mean of F given the outcomes."""
        return PairMember(*self._effects(self.residual), self.constant, NOISE)

    def sample(self, rng: np.random.Generator) -> PairMember:
        """A sample of F given the outcomes."""
        n = len(self.alike)
        base = self.scale * (self.root @ rng.normal(size=n))
        pair = self.scale * (self.root @ rng.normal(size=(n, n)) @ self.root.T)
        pair = (pair + pair.T) / np.sqrt(2.0)
        noise = self.scale * np.sqrt(NOISE) * rng.normal(size=len(self.sets))
        free = PairMember(base, pair, 0.0, NOISE).values(self.sets)
        more_base, more_pair = self._effects(self.residual - free - noise)
        return PairMember(base + more_base, pair + more_pair, self.constant, NOISE)

    def _effects(self, residual: Floats) -> tuple[Floats, Floats]:
        """The means of b and P given residuals of the sets: A u and A U A with weights u of items and U of pairs."""
        n, weight = len(self.alike), self.inverse @ residual
        single, pair = np.zeros(n), np.zeros((n, n))
        for place in range(self.sets.shape[1]):
            first = self.sets[:, place]
            np.add.at(single, first[first >= 0], weight[first >= 0])
            for other in range(place):
                second = self.sets[:, other]
                both = (first >= 0) & (second >= 0)
                np.add.at(pair, (first[both], second[both]), weight[both])
        return self.alike @ single, self.alike @ (pair + pair.T) @ self.alike


def similarity(n: int, features: Floats | None = None, group: Ints | None = None) -> Floats:
    """A (n, n): each feature is scaled to variance 1, and items of different groups have nothing in common."""
    if features is None:
        return np.eye(n)
    spread = features.std(axis=0)
    x = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    near = np.exp(-((x[:, None] - x[None]) ** 2).sum(axis=-1) / (2 * WIDTH**2))
    if group is not None:
        near[group[:, None] != group[None]] = 0.0
    return np.asarray((1 - SHARE) * np.eye(n) + SHARE * near)


def _largest(value: Floats, count: int) -> Rows:
    """The rows of the ``count`` largest values, largest first; of equal ones the first."""
    if count < len(value):
        least = np.partition(value, -count)[-count]
        some = np.flatnonzero(value >= least)
    else:
        some = np.arange(len(value))
    return np.asarray(some[np.argsort(-value[some], kind="stable")][:count])


def _unmeasured(candidates: Ints, sets: Ints, n: int) -> Mask:
    """Whether a candidate is none of the measured sets, in whatever order its items are."""
    known, rows = np.sort(sets, axis=1) + 1, np.sort(candidates, axis=1) + 1
    base = (n + 1) ** np.arange(rows.shape[1], dtype=np.int64)  # a set is one number
    return ~np.isin(rows @ base, known @ base)
