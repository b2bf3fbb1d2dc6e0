"""Upper bounds on the objective of re-ranking (``ranking/competition.py``) over all sets that keep the rules.

1. Candidates that are in no better set, because F is at most the sum of the largest rewards alone, are left out.
2. A Lagrangian bound (``competition_kernels.py``): each member of a set is valued with the partners that suit it best,
   and multipliers of pairs, which cancel in the sum, make the partners of different members agree. They are improved
   by steps along a subgradient. Candidates with which the bound is not above the known value are left out.
3. Branch and bound on the candidates that are left, with the same bound at every node, best node first.

All parts only leave out what is not better than a known set, so that the largest bound of an open node, or the known
value, bounds every set. Of the limits, each node keeps those of the group with which its bound is lowest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Ints, Rows
from setwise.model.competition import Competition
from setwise.model.constraints import Constraints
from setwise.model.rewards import Logistic

WORK = 5_000_000.0  # inner steps: at most 20 ms or so
AT_ROOT, AT_FEW = 0.65, 0.2  # shares of it for the multipliers: until few candidates are left, and then
FEW = 60  # candidates among which branch and bound is worth its while
PRICE_STEPS = 30  # of bisection
ROUNDING = 1e-9  # relative: sums of doubles in another order


def upper_bound(competition: Competition, constraints: Constraints, value: float, work: float = WORK) -> float:
    """An upper bound on F over the feasible sets; ``value`` is that of a feasible set: the bound, if it is the best."""
    from setwise.bounds.competition_branching import branch
    from setwise.bounds.competition_kernels import multiply

    exact = value + ROUNDING * abs(value)
    rows = _worthwhile(competition, constraints, exact)
    k = min(constraints.k, len(rows))
    if len(constraints.pinned) == constraints.k:
        return max(float(competition.rewards_of(constraints.pinned).sum()), value)
    if k == 1:
        return max(float(competition.alone[rows].max()), value)
    arrays = _Arrays(competition, constraints, rows, k)
    shift = arrays.price_sums(k)
    known = exact - shift
    bound, left = np.inf, work * AT_ROOT
    for few, share in ((FEW, 0.0), (0, work * AT_FEW)):
        left += share
        while left > 0 and len(arrays.t) > max(few, k):
            before = len(arrays.t)
            found, left, open_ = multiply(*arrays.of_nodes(k), known, left, few)
            bound = min(bound, found)
            if bound <= known:
                return exact
            arrays.keep(open_ | arrays.pinned)
            if len(arrays.t) == before:
                break
    work = left + work * (1 - AT_ROOT - AT_FEW)
    of_leaves = (arrays.t, arrays.v, arrays.strength, known, bound, work, arrays.cost, arrays.least, arrays.most, shift)
    bound = float(branch(*arrays.of_nodes(k), *of_leaves)) + shift
    return exact if bound <= exact else bound + ROUNDING * abs(bound)


def _worthwhile(competition: Competition, constraints: Constraints, value: float) -> Rows:
    """Pinned candidates and those of which rewards alone do not say that no better set has them; at least k."""
    potential, factor = competition.alone, competition.factor
    if factor is not None:
        potential = np.maximum(
            potential, factor * competition.reward.value(competition.argument - competition.strength)
        )
    order = np.flatnonzero(constraints.joinable(constraints.pinned))
    order = np.concatenate([constraints.pinned, order[np.argsort(-potential[order], kind="stable")]])
    fixed = len(constraints.pinned)
    others = np.maximum(potential[order[fixed : max(constraints.k - 1, fixed)]], 0.0).sum()
    kept = potential[order] + potential[constraints.pinned].sum() + others > value
    kept[: max(fixed, constraints.k)] = True
    return np.asarray(order[kept], np.intp)


class _Arrays:
    """The arrays of the compiled bounds for these candidates."""

    def __init__(self, competition: Competition, constraints: Constraints, rows: Rows, k: int) -> None:
        from setwise.bounds.competition_kernels import PARTS, lines

        reward, n = competition.reward, len(rows)
        assert isinstance(reward, Logistic)  # f(x) = logistic(scale x + bias)
        self.t = reward.scale * competition.argument[rows] + reward.bias
        self.v = np.ones(n) if competition.factor is None else competition.factor[rows]
        self.strength = float(reward.scale * competition.strength)
        self.weight: Floats = np.exp(competition.likeness.taken(rows).logits())
        self.pinned = np.arange(n) < len(constraints.pinned)
        sums = constraints.sums
        self.cost = np.ascontiguousarray(sums.cost[:, rows]) if len(sums) else np.zeros((0, n))
        self.least, self.most = sums.least, sums.most
        self.labels, self.limits, self.minimums = _groups(constraints, rows, k)
        self.slope, self.start = np.empty((n, PARTS)), np.empty((n, PARTS))
        most = np.partition(self.weight, n - k + 1, axis=1)[:, n - k + 1 :].sum(axis=1) if k < n else self.weight.sum(1)
        lines(self.t, self.v, self.strength, most, self.slope, self.start)
        alone = self.v * reward.value(competition.argument[rows])
        self.nothing = -0.5 * alone / (k - 1)
        loss = -self.slope[:, [1]] * self.weight
        self.multiplier: Floats = self.nothing[:, None] - self.nothing + (loss - loss.T) / 2

    def price_sums(self, k: int) -> float:
        """Let the lines count λ c_i for the numbers of each sum with an upper limit C: λ C, which they add to a bound.

        F(S) ≤ Σ_{i∈S} (f_i − λ c_i) + λ C for any λ ≥ 0; it is the best one where rewards are those of items alone.
        """
        alone, shift = self.start[:, 0].copy(), 0.0
        for cost, most in zip(self.cost, self.most, strict=True):
            if not np.isfinite(most) or not cost.any():
                continue
            low, high = 0.0, float(alone.max() / max(cost[cost > 0].min(), 1e-300))
            for _ in range(PRICE_STEPS):
                price = (low + high) / 2
                left = alone - price * cost
                taken = np.argsort(-left)[:k]
                taken = taken[left[taken] > 0]
                low, high = (price, high) if cost[taken].sum() > most else (low, price)
            alone = alone - high * cost
            self.start -= (high * cost)[:, None]
            shift += high * most
        return shift

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Only these candidates."""
        for name in ("t", "v", "slope", "start", "nothing", "pinned"):
            setattr(self, name, getattr(self, name)[kept])
        self.labels = np.ascontiguousarray(self.labels[:, kept])
        self.cost = np.ascontiguousarray(self.cost[:, kept])
        self.weight, self.multiplier = (
            np.ascontiguousarray(square[kept][:, kept]) for square in (self.weight, self.multiplier)
        )

    def of_nodes(self, k: int) -> tuple[Any, ...]:
        """The arguments that the compiled functions share."""
        nodes = (self.multiplier, self.weight, self.slope, self.start, self.nothing)
        return (*nodes, self.pinned, k, self.labels, self.limits, self.minimums)


def _groups(constraints: Constraints, rows: Rows, k: int) -> tuple[Ints, Ints, Ints]:
    """Labels, upper and lower limits of the groups that have one; a group of no candidate, if none has."""
    limits, fewest = constraints.limits, constraints.minimums
    lower = fewest.any(axis=1) if fewest.size else np.zeros(len(limits), bool)
    bounding = np.flatnonzero((limits < k) | lower)
    if not len(bounding):
        return np.full((1, len(rows)), -1), np.array([k]), np.zeros((1, 0), np.int64)
    labels = np.ascontiguousarray(constraints.labels[np.ix_(bounding, rows)])
    minimums = fewest[bounding] if fewest.size else np.zeros((len(bounding), 0), np.int64)
    return labels, limits[bounding], np.ascontiguousarray(minimums)
