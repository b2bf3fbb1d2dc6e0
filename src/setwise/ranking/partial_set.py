"""A partial set S that grows one item at a time, and the value of S ∪ {c} for every candidate c at once.

For each candidate c and head the sums over S are kept as a streaming softmax keeps them: the largest logit M_c,
N_c = Σ_{j∈S} e^(l_cj − M_c) s_j and D_c = Σ_{j∈S} e^(l_cj − M_c). So one step costs O(H |S| m), and logits of any size
are safe: what matters is the largest one in S, not in the row.

An ordered slate is filled place by place: at each step only pairs of the first place that is still free, and that
anybody may take, can join. So a slate that stops early has no gaps, unless a pinned pair stands beyond its end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from setwise._types import Floats, Rows
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate

_BLOCK = 1 << 13  # members × newcomers × heads looked at in one go: arrays of 64 KB stay in the cache


class Sums:
    """Weighted sums over a growing set, for many attending items at once: M, N and D, all of one shape."""

    def __init__(self, top: Floats, numerator: Floats, denominator: Floats) -> None:
        self.top, self.numerator, self.denominator = top, numerator, denominator

    @classmethod
    def of_nothing(cls, instance: Instance) -> Sums:
        """Before anybody is chosen all attend to the sink, if there is one: (H, m)."""
        shape = (instance.heads, instance.m)
        sums = cls(np.full(shape, -np.inf), np.zeros(shape), np.zeros(shape))
        if instance.sink_logit is None or instance.sink_score is None:
            return sums
        return sums.joined_by(instance.sink_logit, instance.sink_score[:, None])

    def joined_by(self, logit: Floats, score: Floats) -> Sums:
        """The sums with one more attended item, of these logits and scores."""
        top = np.maximum(self.top, logit)
        level = np.where(np.isfinite(top), top, 0.0)  # −∞ − (−∞) would be NaN
        before, now = np.exp(self.top - level), np.exp(logit - level)
        return Sums(top, self.numerator * before + now * score, self.denominator * before + now)

    def of(self, rows: Rows) -> Sums:
        """The sums of these attending items; ``take`` keeps heads outermost in memory, as indexing would not."""
        return Sums(*(sums.take(rows, axis=1) for sums in (self.top, self.numerator, self.denominator)))

    def average(self) -> Floats:
        """N / D summed over heads. D is at least 1, the largest weight; or nothing has weight, and N = D = 0."""
        return np.asarray((self.numerator / np.maximum(self.denominator, 1.0)).sum(axis=0))


class Growing:
    """A partial set, never changed: whoever joins makes a new one. So prefixes can be shared."""

    def __init__(self, instance: Instance, constraints: Constraints, chosen: Rows, sums: Sums) -> None:
        self.instance, self.constraints, self.chosen, self.sums = instance, constraints, chosen, sums

    @classmethod
    def from_pinned(cls, instance: Instance, constraints: Constraints) -> Growing:
        """Where every search starts: the pinned items, or nobody."""
        growing = cls(instance, constraints, np.zeros(0, np.intp), Sums.of_nothing(instance))
        for c in constraints.pinned:
            growing = growing.joined_by(c)
        return growing

    def joined_by(self, c: np.intp) -> Growing:
        """S ∪ {c}."""
        sums = self.sums.joined_by(self.instance.logit[:, :, c], self.instance.score[:, c, None])
        return Growing(self.instance, self.constraints, np.append(self.chosen, c), sums)

    def completed(self, rank: int) -> list[Growing]:
        """The sets passed when the newcomer of this rank joins, and then the best one (rank 1) until nobody can."""
        passed, last = [], self
        while rank <= len(last.ranked):
            last = last.joined_by(last.ranked[rank - 1])
            passed.append(last)
            rank = 1
        return passed

    @cached_property
    def value(self) -> float:
        """F(S) by the judge; −∞ where that is not a number."""
        value = self.instance.value(self.chosen)
        return -math.inf if math.isnan(value) else value

    @property
    def ranked(self) -> Rows:
        """The candidates that may join, largest increment first, equal ones in their order; none when S is full."""
        return self._choices[0]

    @property
    def values(self) -> Floats:
        """F(S ∪ {c}) for each of ``ranked``."""
        return self._choices[1]

    @cached_property
    def _choices(self) -> tuple[Rows, Floats]:
        newcomers = self._newcomers()
        values = np.nan_to_num(self._values_with(newcomers), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        order = np.argsort(-values, kind="stable")
        return newcomers[order], values[order]

    def _newcomers(self) -> Rows:
        if len(self.chosen) >= self.constraints.k:
            return np.zeros(0, np.intp)
        allowed = self.constraints.joinable(self.chosen)
        places = self.instance.positions
        if places is not None:
            allowed &= ~np.isin(places, places[self.chosen])
            allowed &= places == places[allowed].min(initial=places.max())
        return np.flatnonzero(allowed)

    def _values_with(self, newcomers: Rows) -> Floats:
        """F(S ∪ {c}) for each newcomer c: what c earns, and what each member then does."""
        it, score = self.instance, self.instance.score.take(newcomers, axis=1)
        itself = it.logit.diagonal(axis1=1, axis2=2).take(newcomers, axis=1)
        a = self.sums.of(newcomers).joined_by(itself, score).average() + it.base[newcomers]
        total = _rewards(it, newcomers, a)
        block = max(1, _BLOCK // max(1, score.size))
        for first in range(0, len(self.chosen), block):
            members = self.chosen[first : first + block]
            logit = it.logit[:, members].take(newcomers, axis=2)
            a = self.sums.of(members[:, None]).joined_by(logit, score[:, None]).average() + it.base[members, None]
            total = np.vstack([total, _rewards(it, members, a.T).T]).sum(axis=0)
        return total


def best_of(passed: Iterable[Growing]) -> Growing:
    """The first of largest value, the empty set not being an answer."""
    return max((partial for partial in passed if len(partial.chosen)), key=lambda partial: partial.value)


def _rewards(instance: Instance, rows: Rows, x: Floats) -> Floats:
    """f_i(x_i) along the last axis, for these candidates."""
    if len(instance.rewards) == 1:
        return instance.rewards[0].value(x)
    present, mine = np.unique(instance.reward_class[rows], return_inverse=True)
    return evaluate([instance.rewards[number] for number in present], mine, x)
