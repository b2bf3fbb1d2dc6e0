"""A partial set S, and the value of S ∪ {c} for every candidate c at once.

For each candidate c and head the sums over S are those of a streaming softmax: the largest logit M_c,
N_c = Σ_{j∈S} e^(l_cj − M_c) s_j and D_c = Σ_{j∈S} e^(l_cj − M_c). So one step costs O(H |S| m), and logits of any size
are safe: they are shifted by the largest logit in S, not by the largest of the row.

A search with a budget stops growing sets at its end. It values only the sets that it expects to be worth most: the
value by the reference objective takes k² weights for each of k sets.

An ordered slate is filled place by place: each step adds a pair of the first place that is free and that some allowed
pair has. So a slate that stops early has no gaps, unless a pinned pair is beyond its end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Rows
from setwise._validation import milliseconds
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.rewards import evaluate

_PROMISING = 3  # sets that a search with a budget values, of those that one growth passes
_BLOCK = 1 << 13  # members × candidates × heads computed at once: arrays of 64 KB stay in the cache


class AttentionSums:
    """Weighted sums over a set, for many attending items at once: M, N and D, all of one shape."""

    def __init__(self, top: Floats, numerator: Floats, denominator: Floats) -> None:
        self.top, self.numerator, self.denominator = top, numerator, denominator

    @classmethod
    def of_empty_set(cls, instance: Instance) -> AttentionSums:
        """The sums over the empty set: the sink alone, if there is one, (H, m)."""
        shape = (instance.heads, instance.m)
        sums = cls(np.full(shape, -np.inf), np.zeros(shape), np.zeros(shape))
        if instance.sink_logit is None or instance.sink_score is None:
            return sums
        return sums.add(instance.sink_logit, instance.sink_score[:, None])

    def add(self, logit: Floats, score: Floats) -> AttentionSums:
        """New sums with one more attended item, of these logits and scores."""
        top = np.maximum(self.top, logit)
        level = np.where(np.isfinite(top), top, 0.0)  # −∞ − (−∞) would be NaN
        before, now = np.exp(self.top - level), np.exp(logit - level)
        return AttentionSums(top, self.numerator * before + now * score, self.denominator * before + now)

    def of(self, rows: Rows) -> AttentionSums:
        """The sums of these attending items; ``take`` keeps heads outermost in memory, indexing does not."""
        return AttentionSums(*(sums.take(rows, axis=1) for sums in (self.top, self.numerator, self.denominator)))

    def average(self) -> Floats:
        """N / D summed over heads. D is at least 1, the largest weight; without any weight N = D = 0."""
        return np.asarray((self.numerator / np.maximum(self.denominator, 1.0)).sum(axis=0))


class PartialSet:
    """A partial set S with its attention sums. Immutable: ``add`` returns a new one, so prefixes can be shared."""

    def __init__(
        self,
        instance: Instance,
        constraints: Constraints,
        chosen: Rows,
        sums: AttentionSums,
        expected: float = math.inf,
    ) -> None:
        """``expected`` is F(S) as the step before has it, infinite if no step has."""
        self.instance, self.constraints, self.chosen, self.sums = instance, constraints, chosen, sums
        self.expected = expected

    @classmethod
    def from_pinned(cls, instance: Instance, constraints: Constraints) -> PartialSet:
        """The set of the pinned items, with which every search starts."""
        partial = cls(instance, constraints, np.zeros(0, np.intp), AttentionSums.of_empty_set(instance))
        for c in constraints.pinned:
            partial = partial.add(c)
        return partial

    def add(self, c: np.intp, expected: float = math.inf) -> PartialSet:
        """S ∪ {c}."""
        sums = self.sums.add(self.instance.logit[:, :, c], self.instance.score[:, c, None])
        return PartialSet(self.instance, self.constraints, np.append(self.chosen, c), sums, expected)

    def greedy_extensions(self, rank: int, until: float = math.inf) -> list[PartialSet]:
        """The sets that result from adding the candidate of this rank, then the best one (rank 1) until S is full.

        After ``until``, S is filled up with the candidates that were worth most in the last step.
        """
        sets, last = [], self
        while rank <= len(last.ranked):
            order = last.ranked
            last = last.add(order[rank - 1], float(last.values[rank - 1]))
            sets.append(last)
            rank = 1
            if time.perf_counter() >= until:
                return [*sets, last._filled(order)]
        return sets

    def _filled(self, order: Rows) -> PartialSet:
        """S and, until it is full, the first of ``order`` that may be added; its sums are still those of S."""
        chosen = self.chosen
        if self.instance.positions is None and not self.constraints.is_joint:  # no candidate depends on another
            chosen = np.append(chosen, order[self._may_join(chosen)[order]][: self.constraints.k - len(chosen)])
        while (allowed := self._may_join(chosen)).any():
            known = order[allowed[order]]
            chosen = np.append(chosen, known[0] if len(known) else np.argmax(allowed))
        return PartialSet(self.instance, self.constraints, chosen, self.sums)

    @property
    def evaluations(self) -> int:
        """How many candidates were valued beside S."""
        return len(self.ranked) if "_choices" in vars(self) else 0

    @cached_property
    def value(self) -> float:
        """F(S) by the reference objective; −∞ where that is not a number."""
        with np.errstate(invalid="ignore"):  # ∞ − ∞
            value = self.instance.value(self.chosen)
        return -math.inf if math.isnan(value) else value

    @cached_property
    def keeps_minimums(self) -> bool:
        """Whether S keeps every lower limit; a partial set may still reach it."""
        return self.constraints.meets_minimums(self.chosen)

    @property
    def ranked(self) -> Rows:
        """The candidates that may be added, largest increment first, ties in their order; none when S is full."""
        return self._choices[0]

    @property
    def values(self) -> Floats:
        """F(S ∪ {c}) for each c of ``ranked``."""
        return self._choices[1]

    @cached_property
    def _choices(self) -> tuple[Rows, Floats]:
        candidates = np.flatnonzero(self._may_join(self.chosen))
        with np.errstate(invalid="ignore"):  # ∞ − ∞
            values = self._values_with(candidates)
        values = np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        order = np.argsort(-values, kind="stable")
        return candidates[order], values[order]

    def _may_join(self, chosen: Rows) -> NDArray[np.bool_]:
        """The candidates that can be added to ``chosen``: (m,)."""
        if len(chosen) >= self.constraints.k:
            return np.zeros(self.instance.m, bool)
        allowed = self.constraints.joinable(chosen)
        places = self.instance.positions
        if places is not None:
            allowed &= ~np.isin(places, places[chosen])
            allowed &= places == places[allowed].min(initial=places.max())
        return allowed

    def _values_with(self, candidates: Rows) -> Floats:
        """F(S ∪ {c}) for each candidate c: the reward of c plus the rewards of the members beside c."""
        it, score = self.instance, self.instance.score.take(candidates, axis=1)
        itself = it.logit.diagonal(axis1=1, axis2=2).take(candidates, axis=1)
        a = self.sums.of(candidates).add(itself, score).average() + it.base[candidates]
        total = _rewards(it, candidates, a)
        block = max(1, _BLOCK // max(1, score.size))
        for first in range(0, len(self.chosen), block):
            members = self.chosen[first : first + block]
            logit = it.logit[:, members].take(candidates, axis=2)
            a = self.sums.of(members[:, None]).add(logit, score[:, None]).average() + it.base[members, None]
            total = np.vstack([total, _rewards(it, members, a.T).T]).sum(axis=0)
        return total


def best_set(sets: Iterable[PartialSet]) -> PartialSet:
    """The first of largest value among those that keep the lower limits; the empty set is not feasible."""
    not_empty = (partial for partial in sets if len(partial.chosen))
    return max(not_empty, key=lambda partial: (partial.keeps_minimums, partial.value))


def most_promising(sets: Sequence[PartialSet]) -> list[PartialSet]:
    """The few sets that are expected to be worth most, those that keep the lower limits first."""
    return sorted(sets, key=lambda partial: (partial.keeps_minimums, partial.expected), reverse=True)[:_PROMISING]


def end_of(budget_ms: float | None) -> float:
    """When a budget that begins now is over, by ``time.perf_counter``."""
    budget = milliseconds(budget_ms)
    return math.inf if budget is None else time.perf_counter() + budget / 1000


def _rewards(instance: Instance, rows: Rows, x: Floats) -> Floats:
    """ω_i f_i(x_i) along the last axis, for these candidates."""
    weight = None if instance.reward_weight is None else instance.reward_weight[rows]
    if len(instance.rewards) == 1:
        return evaluate(instance.rewards, rows, x, weight)
    present, mine = np.unique(instance.reward_class[rows], return_inverse=True)
    return evaluate([instance.rewards[number] for number in present], mine, x, weight)
