"""Thresholds: Phase Two with one guessed number per query cluster (and head) instead of the paper's two.

A cluster that attends with weights B_jc sees an average of α_c or more exactly when a linear inequality holds:

    a_c(S) ≥ α_c    ⟺    z_c (s_0 − α_c) + Σ_{j∈S} B_jc (s_j − α_c) ≥ 0.

So for guessed thresholds α the auxiliary problem is a linear program,

    max Σ_i x_i f_i(a_i)    s.t.    one such row for each cluster in use and head,
                                    Σx ≤ k,  limits of groups,  0 ≤ x ≤ 1,  x = 1 on what is pinned or fixed.

For one head and no groups its vertices have at most r + 1 fractional entries, r the number of clusters in use (the
paper's have 2r + 2); in general at most as many as there are rows. There α_c is one number; for several heads it is one
per head, which demands more than that their sum be large enough.

**Which α.** Those that a known set Y achieves, complete or partial: then Y is feasible, and the program asks who should
join or replace whom while no cluster in use sees less. A cluster whose members were all dropped from Y has no row: that
is how single thresholds are lowered, and linearising again at what was found raises them. The objective takes a_i, what
i itself would see with Y, for what the threshold of i's cluster stands for: that is defined for clusters not in use as
well, and i sees itself in it.

**Anchors.** Where attention is sharp the best sets are one item and those who attend to it. Item t promises its reward
alone plus the k − 1 largest rewards f_i(a_i({t, i})), if positive; the search opens with greedy and goes on with
anchors in order of promise, each filled up by the best newcomers and linearised at {t}.

Guesses around what was found, rounding, filling and judging are those of paper.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import whole_number
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate
from setwise.ranking.lp_search import CLUSTERS, SOLUTIONS, AuxiliaryProblems, CandidateSolutions, Guess, Search
from setwise.ranking.partial_set import Sums
from setwise.ranking.ranker import Ranker, Ranking


class Thresholds(AuxiliaryProblems):
    """A row B_jc (s_j − α_c) for each cluster in use and head, α what the known set achieves."""

    def rows(self, used: Rows, known: Rows) -> tuple[Floats, Floats]:
        """α = N / D; a cluster that attends to nobody of the known set demands nothing."""
        it = self.clusters
        numerator, denominator = it.sums(used, known)
        alpha = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
        rows = it.weight[:, used] * (it.score[:, None, :] - alpha[:, :, None])
        low = -it.sink_weight[:, used] * (it.sink_score[:, None] - alpha)
        return rows.reshape(-1, rows.shape[2]), np.where(denominator > 0, low, -np.inf).ravel()


def thresholds(
    instance: Instance,
    constraints: Constraints,
    *,
    solutions: int = SOLUTIONS,
    clusters: int = CLUSTERS,
    seed: int = 0,
) -> Ranking:
    """The best of ``solutions`` candidate solutions, with rows told apart by ``clusters`` query clusters."""
    problems = Thresholds(instance, constraints, whole_number("clusters", clusters))
    pool = CandidateSolutions(instance, constraints, whole_number("solutions", solutions))
    return Search(pool, problems, whole_number("seed", seed, least=0)).run(_anchors(pool))


def _anchors(pool: CandidateSolutions) -> Iterator[Guess]:
    """Greedy, then every item as an anchor, the most promising first."""
    pinned = pool.constraints.pinned
    yield Guess(pinned)
    if len(pinned) == pool.constraints.k:
        return
    free = np.flatnonzero(pool.constraints.joinable(pinned))
    for t in free[np.argsort(-_promise(pool.instance, pool.constraints)[free], kind="stable")]:
        yield Guess(np.append(pinned, t))
        yield Guess(np.append(pinned, t), linear=True, fixed=True)


def _promise(instance: Instance, constraints: Constraints) -> Floats:
    """f_t alone plus the k − 1 largest positive f_i(a_i({t, i})): (m,)."""
    everyone = np.arange(instance.m)
    alone = Sums.of_nothing(instance).joined_by(instance.logit[:, everyone, everyone], instance.score)
    seen = (
        alone.of(everyone[:, None]).joined_by(instance.logit, instance.score[:, None, :]).average()
        + instance.base[:, None]
    )
    reward = evaluate(instance.rewards, instance.reward_class, seen.T)  # (t, i)
    own = evaluate(instance.rewards, instance.reward_class, alone.average() + instance.base)
    reward[everyone, everyone] = reward[:, ~constraints.open] = -np.inf
    followers = np.sort(reward, axis=1)[:, ::-1][:, : constraints.k - 1]
    with np.errstate(invalid="ignore"):
        promise: Floats = own + np.maximum(followers, 0.0).sum(axis=1)
    return np.nan_to_num(promise, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


THRESHOLDS = Ranker("thresholds", thresholds, "Phase Two by thresholds")
