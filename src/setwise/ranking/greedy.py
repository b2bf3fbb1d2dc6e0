"""Greedy: add the item that raises F most, k times; the tuple (1, …, 1) of the paper's beam search.

F is not monotone in S, so the run goes on to k items and the best set seen on the way is returned.
For each candidate c the sums N_c = Σ_{j∈S} w_cj s_j and D_c = Σ_{j∈S} w_cj over the current S are kept, so one step
costs O(H k m).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise.instance import Instance
from setwise.ranking.constraints import Constraints
from setwise.ranking.ranking import Ranking
from setwise.rewards import evaluate

Floats = NDArray[np.float64]


class _Partial:
    """A growing set S with the sums that tell the value of S ∪ {c} for every candidate c at once."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.chosen: list[int] = []
        self.denominator = instance.sink_weight.copy()
        sink_score = np.zeros(instance.heads) if instance.sink_score is None else instance.sink_score
        self.numerator = self.denominator * sink_score[:, None]

    def add(self, c: int) -> None:
        weight, score = self.instance.weight[:, :, c], self.instance.score[:, c]
        self.denominator += weight
        self.numerator += weight * score[:, None]
        self.chosen.append(c)

    def values_with_each(self) -> Floats:
        """F(S ∪ {c}) for every candidate c (meaningless for members): (m,)."""
        it, members = self.instance, self.chosen
        everyone = np.arange(it.m)
        own = it.weight[:, everyone, everyone]
        newcomer = _ratio(self.numerator + own * it.score, self.denominator + own).sum(axis=0) + it.base
        total = evaluate(it.rewards, it.reward_class, newcomer)
        for i in members:  # at most k of them, each over all candidates at once
            weight = it.weight[:, i, :]
            a = _ratio(self.numerator[:, i, None] + weight * it.score, self.denominator[:, i, None] + weight)
            total = total + it.rewards[it.reward_class[i]].value(a.sum(axis=0) + it.base[i])
        return total


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def greedy(instance: Instance, constraints: Constraints) -> Ranking:
    """Grow from the pinned items by the best newcomer; return the best of the sets passed."""
    partial = _Partial(instance)
    for c in constraints.pinned:
        partial.add(int(c))
    passed = [partial.chosen[:]] if partial.chosen else []
    evaluations = len(passed)
    while len(partial.chosen) < constraints.k:
        allowed = constraints.joinable(partial.chosen)
        if not allowed.any():
            break
        partial.add(int(np.argmax(np.where(allowed, partial.values_with_each(), -np.inf))))
        passed.append(partial.chosen[:])
        evaluations += int(allowed.sum())
    best = max(passed, key=instance.value)
    return Ranking(np.array(best, np.intp), instance.value(best), evaluations=evaluations)
