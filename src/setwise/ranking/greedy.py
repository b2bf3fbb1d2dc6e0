"""Greedy: add the item that raises F most, k times; the tuple (1, …, 1) of the paper's beam search.

F is not monotone in S, so the run goes on to k items and the best set seen on the way is returned.
For each candidate c and head the sums over the current S are kept as a streaming softmax keeps them: the largest logit
M_c, N_c = Σ_{j∈S} e^(l_cj − M_c) s_j and D_c = Σ_{j∈S} e^(l_cj − M_c). So one step costs O(H k m), and logits of any
size are safe: what matters is the largest one in S, not in the row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise.constraints import Constraints
from setwise.instance import Instance
from setwise.ranking.ranking import Ranking
from setwise.rewards import evaluate

Floats = NDArray[np.float64]


class _Sums:
    """Weighted sums over a growing set, for many attending items at once: M, N and D, all of one shape."""

    def __init__(self, top: Floats, numerator: Floats, denominator: Floats) -> None:
        self.top, self.numerator, self.denominator = top, numerator, denominator

    def joined_by(self, logit: Floats, score: Floats) -> _Sums:
        """The sums with one more attended item, of these logits and scores."""
        top = np.maximum(self.top, logit)
        level = np.where(np.isfinite(top), top, 0.0)  # −∞ − (−∞) would be NaN
        before, now = np.exp(self.top - level), np.exp(logit - level)
        return _Sums(top, self.numerator * before + now * score, self.denominator * before + now)

    def __getitem__(self, place: tuple[slice, int, None]) -> _Sums:
        return _Sums(self.top[place], self.numerator[place], self.denominator[place])

    def average(self) -> Floats:
        """N / D summed over heads; what attends to nothing averages nothing."""
        ratio = np.divide(
            self.numerator, self.denominator, out=np.zeros_like(self.numerator), where=self.denominator > 0
        )
        return np.asarray(ratio.sum(axis=0))


class _Partial:
    """A growing set S with the sums that tell the value of S ∪ {c} for every candidate c at once."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.chosen: list[int] = []
        shape = (instance.heads, instance.m)
        self.sums = _Sums(np.full(shape, -np.inf), np.zeros(shape), np.zeros(shape))
        if instance.sink_logit is not None and instance.sink_score is not None:
            self.sums = self.sums.joined_by(instance.sink_logit, instance.sink_score[:, None])

    def add(self, c: int) -> None:
        self.sums = self.sums.joined_by(self.instance.logit[:, :, c], self.instance.score[:, c, None])
        self.chosen.append(c)

    def values_with_each(self) -> Floats:
        """F(S ∪ {c}) for every candidate c (meaningless for members): (m,)."""
        it, everyone = self.instance, np.arange(self.instance.m)
        own = self.sums.joined_by(it.logit[:, everyone, everyone], it.score).average() + it.base
        total = evaluate(it.rewards, it.reward_class, own)
        for i in self.chosen:  # at most k of them, each over all candidates at once
            a = self.sums[:, i, None].joined_by(it.logit[:, i, :], it.score).average() + it.base[i]
            total = total + it.rewards[it.reward_class[i]].value(a)
        return total


def greedy(instance: Instance, constraints: Constraints) -> Ranking:
    """Grow from the pinned items by the best newcomer; return the best of the sets passed."""
    partial = _Partial(instance)
    for c in constraints.pinned:
        partial.add(int(c))
    passed = [partial.chosen[:]] if partial.chosen else []
    evaluations = len(passed)
    while len(partial.chosen) < constraints.k:
        allowed = np.flatnonzero(constraints.joinable(partial.chosen))
        if not len(allowed):
            break
        values = np.nan_to_num(partial.values_with_each()[allowed], nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        partial.add(int(allowed[np.argmax(values)]))
        passed.append(partial.chosen[:])
        evaluations += len(allowed)
    best = max(passed, key=instance.value)
    return Ranking(np.array(best, np.intp), instance.value(best), evaluations=evaluations)
