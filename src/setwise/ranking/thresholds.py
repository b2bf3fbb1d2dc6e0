"""Thresholds: Phase Two with one guessed number per query cluster (and head) instead of the paper's two.

The average of a cluster with weights B_jc is at least α_c exactly when a linear inequality holds:

    a_c(S) ≥ α_c    ⟺    z_c (s_0 − α_c) + Σ_{j∈S} B_jc (s_j − α_c) ≥ 0.

So for guessed thresholds α the auxiliary problem is a linear program,

    max Σ_i x_i f_i(a_i)    s.t.    one such row for each cluster in use and head,
                                    Σx ≤ k,  limits of groups,  0 ≤ x ≤ 1,  x = 1 on what is pinned or fixed.

For one head and no groups its vertices have at most r + 1 fractional entries, r the number of clusters in use (the
paper's have 2r + 2); in general at most as many as there are rows. With one head α_c is one number. With several heads
it is one number per head, which is stronger than a threshold on their sum.

**Which α.** Those that a known set Y achieves, complete or partial. Then Y is feasible, and the program selects items
to add or to exchange while the average of no cluster in use falls. A cluster without members in Y has no row: this
lowers single thresholds, and linearising again at the new set raises them. In the objective a_i is the average of i
itself over Y ∪ {i}, in place of the threshold of i's cluster: it is defined for clusters not in use as well.

**Anchors.** With sharp attention the best sets consist of one anchor item and its best partners. The estimate for an
anchor t is its reward alone plus the k − 1 largest positive rewards f_i(a_i({t, i})). The search starts with greedy and
continues with anchors in order of this estimate, each filled up greedily and then linearised at {t}.

Guesses around known solutions, rounding, filling and valuation are those of lp_search.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import whole_number
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate
from setwise.ranking.lp_search import CLUSTERS, SOLUTIONS, AuxiliaryPrograms, CandidateSolutions, Guess, LpSearch
from setwise.ranking.partial_set import AttentionSums
from setwise.ranking.ranker import Ranker, Ranking


class ThresholdRows(AuxiliaryPrograms):
    """A row B_jc (s_j − α_c) for each cluster in use and head; α is the average over the known set."""

    def rows(self, used: Rows, known: Rows) -> tuple[Floats, Floats]:
        """α = N / D; a cluster without weight on the known set has an unbounded row."""
        it = self.clusters
        numerator, denominator = it.sums(used, known)
        alpha = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
        rows = it.weight[:, used] * (it.score[:, None, :] - alpha[:, :, None])
        low = -it.sink_weight[:, used] * (it.sink_score[:, None] - alpha)
        return np.concatenate(rows), np.where(denominator > 0, low, -np.inf).ravel()


def thresholds(
    instance: Instance,
    constraints: Constraints,
    *,
    solutions: int = SOLUTIONS,
    clusters: int = CLUSTERS,
    seed: int = 0,
) -> Ranking:
    """The best of ``solutions`` candidate solutions, with rows of ``clusters`` query clusters."""
    programs = ThresholdRows(instance, constraints, whole_number("clusters", clusters))
    pool = CandidateSolutions(instance, constraints, whole_number("solutions", solutions))
    return LpSearch(pool, programs, whole_number("seed", seed, least=0)).run(_anchors(pool))


def _anchors(pool: CandidateSolutions) -> Iterator[Guess]:
    """Greedy, then every item as an anchor, in order of the estimate."""
    pinned = pool.constraints.pinned
    yield Guess(pinned)
    if len(pinned) == pool.constraints.k:
        return
    free = np.flatnonzero(pool.constraints.joinable(pinned))
    for t in free[np.argsort(-_anchor_estimates(pool.instance, pool.constraints)[free], kind="stable")]:
        yield Guess(np.append(pinned, t))
        yield Guess(np.append(pinned, t), linear=True, fixed=True)


def _anchor_estimates(instance: Instance, constraints: Constraints) -> Floats:
    """f_t alone plus the k − 1 largest positive f_i(a_i({t, i})): (m,)."""
    every = np.arange(instance.m)
    alone = AttentionSums.of_empty_set(instance).add(instance.logit[:, every, every], instance.score)
    averages = (
        alone.of(every[:, None]).add(instance.logit, instance.score[:, None, :]).average() + instance.base[:, None]
    )
    reward = evaluate(instance.rewards, instance.reward_class, averages.T)  # (t, i)
    own = evaluate(instance.rewards, instance.reward_class, alone.average() + instance.base)
    reward[every, every] = reward[:, ~constraints.open] = -np.inf
    partners = np.sort(reward, axis=1)[:, ::-1][:, : constraints.k - 1]
    with np.errstate(invalid="ignore"):
        estimate: Floats = own + np.maximum(partners, 0.0).sum(axis=1)
    return np.nan_to_num(estimate, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


THRESHOLDS = Ranker("thresholds", thresholds, "Phase Two by thresholds")
