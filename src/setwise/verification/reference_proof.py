"""A proof that no feasible set of a catalogue is worth more than a limit: slow, plain numpy, every item considered.

Let P be the pinned items. The other items have an order: by score; with several heads by the largest standardised
score. A *node* stands for all feasible sets S that consist of P, of certain first members, together C, and of up to q
members later in the order; in head h these score at most M_h, the largest score of all later items. In any head the
average of an item over S is a mixture of its average over a part of S and of the scores of the others. So

    reward_i = ω_i f_i( base_i + Σ_h max(avg_i^h(C ∪ {i}), M_h) )     bounds the reward of a later member i,
    left_ci  = ω_c f_c( base_c + Σ_h max(avg_c^h(C ∪ {i}), M_h) )     bounds the reward of c ∈ C beside i,

and with exactly r later members R, as the reward of c is at most the mean of left_ci over R,

    F(S)  ≤  Σ_{i∈R} ( reward_i + (1/r) Σ_{c∈C} left_ci )  ≤  the sum of the r largest of these brackets.

With few items left, an average is also at most the largest that any q (or q − 1) of them allow, head by head.

A node whose bound is at most the limit is pruned. So are all of its sets with a member i for which reward_i +
Σ_c left_ci + (the q − 1 largest positive rewards) is at most the limit: i is removed, and M_h may fall. The rest is
divided by the next member, until no node is left (the proof is complete) or the reference objective of a feasible C is
above the limit. Neighbouring next members are first bounded together: the others add at most the q − 1 largest positive
rewards after the first of them, with M_h from that first one on. Every sum of largest terms respects the limits of
groups. Lower limits prune nothing; they only decide which C are feasible.

An ordered slate consists of pairs of an item and a place; items and places are groups with a limit of one.

Plain doubles, nothing rounded outwards: the limit must be a little above the claim (verify.py). With ordinary scores
and logits that margin is a thousand times the rounding error. Where inner products of queries and keys are so large, or
rewards so steep, that rounding may change a value by more than a millionth, no proof is attempted (rounding.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Rows
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.rewards import evaluate
from setwise.model.users import User
from setwise.verification.sum_checks import SumCheck, SumRows

Groups = list[tuple[NDArray[np.int64], int]]  # one label per item, −1 for none; and the limit per label

_MAX_PAIRWISE = 1000  # later items up to which every pair is considered
_STEPS, _HUGE = 50, 1e200  # steps and weights beyond which M_h alone bounds an average
_MAX_SINGLE = 4  # next members that are bounded one by one; more are first divided into blocks of neighbours


@dataclass(frozen=True)
class ProofResult:
    """The end of a proof: complete, or with a better set (its rows and value), or neither within the node limit.

    In the last case ``closed`` of the ``parts`` into which the first node was divided were complete, at least.
    """

    complete: bool
    nodes: int
    better: list[int] | None = None
    value: float = np.nan
    parts: int = 0
    closed: int = 0


class _Node(NamedTuple):
    """All sets with these members and some of the later ones, both numbered in the order of ``ReferenceProof``."""

    members: list[int]
    later: Rows
    weight: Floats  # (H, later) log Σ exp(logit) of each later item over members and sink
    average: Floats  # (H, later) its average over them


class _Averages(NamedTuple):
    """Averages, and upper bounds on averages, of the items of a node."""

    alone: Floats  # (H, later) avg_i(C ∪ {i})
    beside: Floats  # (members, H, later) avg_c(C ∪ {i})
    most: Floats  # (H, later) no average of i is larger
    left_most: Floats  # (members, H, 1) no average of c is larger


class _NodeLimitError(Exception):
    """The proof needs more nodes than allowed."""


class ReferenceProof:
    """The pairs of an item and a place (one place where slates have no order), sorted by score, and the constraints."""

    def __init__(
        self,
        catalog: Catalog,
        user: User,
        k: int,
        rows: Rows,
        pinned: Sequence[int],
        groups: Groups,
        keeps_limits: Callable[[list[int]], bool] = lambda rows: True,
        advance: Callable[[int, str], None] = lambda nodes, note: None,
        sums: Sequence[SumCheck] = (),
        offset: Floats | None = None,
        constant: float = 0.0,
    ) -> None:
        """``keeps_limits`` says of rows that keep ``groups`` whether they keep the other limits too.

        ``advance`` is called with each node, and with how far the search is. ``offset`` (n,) and ``constant`` are what
        prices of the sums add to each item and to every set (sum_checks.py).
        """
        self.keeps_limits, self.advance = keeps_limits, advance
        self.catalog, self.user, self.pinned = catalog, user, list(dict.fromkeys(pinned))
        self.ordered = catalog.positions is not None
        places = 1 if catalog.positions is None else len(catalog.positions.query)
        self.k = min(k, len(rows), places) if self.ordered else min(k, len(rows))
        self.row, self.place = np.tile(rows, places), np.repeat(np.arange(places), len(rows))
        self.score = np.einsum("ihd,hd->hi", self._vectors("value"), user.heads)
        self._sort()
        self.query, self.key = self._vectors("query"), self._vectors("key")
        self.base = objective.base_scores(catalog, user, self.row)
        self.reward_class, self.weight = catalog.reward_class[self.row], user.weights_of(self.row)
        self.groups: Groups = [(label[self.row], most) for label, most in groups]
        self.groups += [(self.row, 1), (self.place, 1)] if self.ordered else []
        self.nodes = self.most_nodes = self.parts = self.closed = 0
        self.limit = self.cut = np.inf
        self.sums, self.constant = SumRows.of(sums, self.row), constant
        self.offset = np.zeros(len(self.row)) if offset is None else offset[self.row]

    def _vectors(self, name: str) -> Floats:
        own = np.asarray(getattr(self.catalog, name)[self.row], np.float64)
        return own if not self.ordered else own + getattr(self.catalog.positions, name)[self.place]

    def _sort(self) -> None:
        score = self.score - self.score.mean(axis=1, keepdims=True)
        deviation = score.std(axis=1, keepdims=True)
        leading = (score / np.where(deviation > 0, deviation, 1.0)).max(axis=0)
        order = np.argsort(-(leading if len(score) > 1 else score[0]), kind="stable")
        self.row, self.place, self.score = self.row[order], self.place[order], self.score[:, order]

    # --- the search ---

    def run(self, limit: float, nodes: int) -> ProofResult:
        """Divide nodes until none can contain a set that is worth more than ``limit``."""
        self.limit, self.most_nodes, self.nodes, self.parts, self.closed = limit, nodes, 0, 0, 0
        self.cut = limit - self.constant  # of what members count, offsets included
        if self._is_empty():
            return ProofResult(True, 0)
        try:
            with np.errstate(all="ignore"):  # a bound that overflows is above the limit: its node is divided
                better = self._search()
        except _NodeLimitError:
            return ProofResult(False, nodes, parts=self.parts, closed=self.closed)
        if better is None:
            return ProofResult(True, self.nodes)
        return ProofResult(False, self.nodes, self.row[better].tolist(), self._value(better))

    def _search(self) -> list[int] | None:
        """A feasible set that is worth more than the limit, or None."""
        root = self._root()
        stack: list[Callable[[], _Node]] = [lambda: root]
        while stack:
            if self.parts:  # the parts that were not begun are at the bottom of the stack
                self.closed = max(self.closed, self.parts - min(self.parts, len(stack)))
            node = stack.pop()()
            self._count()
            if self._is_feasible(node.members) and self._exceeds(node.members):
                return node.members
            stack += self._children(node)
            self.parts = self.parts or len(stack)
        return None

    def _is_empty(self) -> bool:
        """Whether the pinned items leave no feasible set."""
        rows, places = np.unique(self.row, return_index=True)
        pins = places[np.isin(rows, self.pinned)].tolist()
        groups = self.groups if not self.ordered else self.groups[:-2]
        broken = any((_room(label, most, pins, np.array(pins, np.intp)) < 0).any() for label, most in groups)
        return broken or not len(pins) == len(self.pinned) <= self.k

    def _count(self) -> None:
        self.nodes += 1
        if self.nodes > self.most_nodes:
            raise _NodeLimitError
        self.advance(1, f"{self.closed:,} of {self.parts:,} parts are complete" if self.parts else "")

    def _is_feasible(self, members: list[int]) -> bool:
        """Every node keeps the limits of ``groups``; a feasible set is not empty and contains every pinned item."""
        return bool(members) and not self._missing(members)

    def _missing(self, members: list[int]) -> int:
        return len(set(self.pinned) - set(self.row[members].tolist()))

    def _exceeds(self, members: list[int]) -> bool:
        """Whether these members are worth more than the limit and, which takes longer to check, keep all limits."""
        return self._value(members) > self.limit and self.keeps_limits(self.row[members].tolist())

    def _value(self, members: list[int]) -> float:
        places = self.place[members] if self.ordered else None
        return objective.set_value(self.catalog, self.user, self.row[members], places)

    # --- nodes ---

    def _root(self) -> _Node:
        """The node of all sets. Pinned items are members, unless their places are still to be chosen."""
        weight, average = np.full(self.score.shape, -np.inf), np.zeros(self.score.shape)
        sink = self.catalog.sink
        if sink is not None:
            weight = np.einsum("ihd,hd->hi", self.query, sink.key.astype(np.float64))
            average += np.einsum("hd,hd->h", sink.value.astype(np.float64), self.user.heads)[:, None]
        self.all = node = _Node([], np.arange(len(self.row)), weight, average)
        if len(self.sums.cost):
            stay = self.sums.possible([], node.later, self.k) | np.isin(self.row, self.pinned)
            node = _Node([], node.later[stay], weight[:, stay], average[:, stay])
        for row in [] if self.ordered else self.pinned:
            at = int(np.flatnonzero(self.row == row)[0])
            node = self._with(node, at, node.later != at)
        return node

    def _with(self, node: _Node, member: int, stay: NDArray[np.bool_]) -> _Node:
        """The sets of ``node`` with one more member; later items are those in ``stay`` that may still be added."""
        members = [*node.members, member]
        for label, most in self.groups:
            stay = stay & (_room(label, most, members, node.later) > 0)
        if len(self.sums.cost):
            stay = stay.copy()
            stay[stay] = self.sums.possible(members, node.later[stay], self.k - len(members))
        later = node.later[stay]
        logit = np.einsum("ihd,hd->hi", self.query[later], self.key[member])
        score = self.score[:, member, None]
        return _Node(members, later, *_with_item(node.weight[:, stay], node.average[:, stay], logit, score))

    def _children(self, node: _Node) -> list[Callable[[], _Node]]:
        """The children of a node, by next member, that may contain a set above the limit; the best last."""
        q = self.k - len(node.members)
        if not 0 < q >= self._missing(node.members):
            return []
        known, tight = self._averages(node), False
        while len(node.later):
            cap = self.score[:, node.later].max(axis=1, keepdims=True) if q > 1 else -np.inf
            reward, left = self._reward_bounds(node, known, cap)
            sizes = range(1, min(q, len(node.later)) + 1)
            if all(self._sum_of_largest(node, reward + left / size, size) <= self.cut for size in sizes):
                return []
            possible = ~(reward + left + self._sum_of_largest(node, np.maximum(reward, 0.0), q - 1) <= self.cut)
            if not possible.all():
                node = _Node(node.members, node.later[possible], node.weight[:, possible], node.average[:, possible])
                known = _Averages(
                    known.alone[:, possible], known.beside[:, :, possible], known.most[:, possible], known.left_most
                )
            elif not tight and q > 1 and len(node.later) <= _MAX_PAIRWISE:
                known, tight = self._tightened(node, known, q), True
            else:
                return self._parts(node, known, q)
        return []

    def _parts(self, node: _Node, known: _Averages, q: int) -> list[Callable[[], _Node]]:
        later, score = node.later, self.score[:, node.later]
        most = np.maximum.accumulate(score[:, ::-1], axis=1)[:, ::-1]  # from each later item on
        after = np.concatenate([most[:, 1:], np.full((len(score), 1), -np.inf)], axis=1)
        reward, left = self._reward_bounds(node, known, after if q > 1 else -np.inf)
        possible, blocks = [], [(0, len(later))]
        while blocks:
            first, end = blocks.pop()
            self._count()
            worth = reward[first:end] + left[first:end] + self._bound_of_others(node, known, most, first, q)
            near = first + np.flatnonzero(~(worth <= self.cut))
            if len(near) > _MAX_SINGLE:
                middle = int(near[len(near) // 2])
                blocks += [(int(near[0]), middle), (middle, int(near[-1]) + 1)]
            else:
                possible += near.tolist()
        possible.sort(key=lambda at: reward[at] + left[at])
        return [partial(self._with, node, int(later[at]), np.arange(len(later)) > at) for at in possible]

    # --- bounds on rewards ---

    def _averages(self, node: _Node) -> _Averages:
        members, later = node.members, node.later
        score, key = self.score[:, later], self.key[later]
        own = np.einsum("ihd,ihd->hi", self.query[later], key)
        alone = _with_item(node.weight, node.average, own, score)[1]
        beside = np.empty((len(members), *score.shape))
        for number, member in enumerate(members):
            weight, average = self._of_member(members, member)
            logit = np.einsum("hd,ihd->hi", self.query[member], key)
            beside[number] = _with_item(weight[:, None], average[:, None], logit, score)[1]
        return _Averages(alone, beside, np.full_like(alone, np.inf), np.full((*beside.shape[:2], 1), np.inf))

    def _of_member(self, members: list[int], member: int) -> tuple[Floats, Floats]:
        """Log-sum-exp and average of a member over members and sink, in each head."""
        weight, average = self.all.weight[:, member], self.all.average[:, member]
        for other in members:
            logit = np.einsum("hd,hd->h", self.query[member], self.key[other])
            weight, average = _with_item(weight, average, logit, self.score[:, other])
        return weight, average

    def _tightened(self, node: _Node, known: _Averages, q: int) -> _Averages:
        """The largest averages that q later members allow: exact in each head, at the cost of every pair of items."""
        members, later = node.members, node.later
        query, key, score = self.query[later], self.key[later], self.score[:, later]
        own = np.einsum("ihd,ihd->hi", query, key)
        total = _with_item(node.weight, node.average, own, score)[0]
        most, left_most = np.empty_like(known.most), np.empty_like(known.left_most)
        for h in range(len(score)):
            weight = np.exp(query[:, h] @ key[:, h].T - total[h, :, None])
            np.fill_diagonal(weight, 0.0)
            most[h] = _largest_averages(known.alone[h], weight, score[h], q - 1)
        for number, member in enumerate(members):
            weight, average = self._of_member(members, member)
            for h in range(len(score)):
                beside = np.exp(key[:, h] @ self.query[member, h] - weight[h])
                left_most[number, h] = _largest_averages(average[h, None], beside[None], score[h], q)
        return known._replace(most=most, left_most=left_most)

    def _reward_bounds(self, node: _Node, known: _Averages, cap: Floats | float) -> tuple[Floats, Floats]:
        """reward_i and Σ_c left_ci of the later items; items after them score at most ``cap`` (H, 1 or later)."""
        reward = self._rewards(node.later, np.minimum(np.maximum(known.alone, cap), known.most).sum(axis=0))
        left = np.full(len(node.later), float(self.offset[node.members].sum()))
        for member, beside, most in zip(node.members, known.beside, known.left_most, strict=True):
            f = self.catalog.rewards[self.reward_class[member]]
            weight = 1.0 if self.weight is None else self.weight[member]
            left += weight * f.value(self.base[member] + np.minimum(np.maximum(beside, cap), most).sum(axis=0))
        return reward, left

    def _rewards(self, items: Rows, attended: Floats) -> Floats:
        weight = None if self.weight is None else self.weight[items]
        rewards = evaluate(self.catalog.rewards, self.reward_class[items], self.base[items] + attended, weight)
        return rewards + self.offset[items]

    def _bound_of_others(self, node: _Node, known: _Averages, most: Floats, first: int, q: int) -> float:
        """A bound on the rewards of the members after the next one, if the next one is not before ``first``."""
        attended = np.minimum(np.maximum(known.alone, most[:, first, None]), known.most)
        reward = self._rewards(node.later, attended.sum(axis=0))
        reward[: first + 1] = 0.0
        return self._sum_of_largest(node, np.maximum(reward, 0.0), q - 1)

    def _sum_of_largest(self, node: _Node, worth: Floats, count: int) -> float:
        """The sum of the ``count`` largest (or of all, if fewer); the smallest such sum over the single limits."""
        if np.isnan(worth).any():
            return np.nan
        count = min(count, len(worth))
        sums = [np.partition(worth, len(worth) - count)[len(worth) - count :].sum() if count else 0.0]
        order = np.argsort(-worth, kind="stable") if self.groups else None
        for label, most in self.groups:
            mine = label[node.later][order]
            room = _room(label, most, node.members, node.later)[order]
            by_label = np.argsort(mine, kind="stable")
            first = np.searchsorted(mine[by_label], mine[by_label])
            number = np.empty(len(mine), np.intp)
            number[by_label] = np.arange(len(mine)) - first  # rank within its label, best first
            sums.append(worth[order][(number < room) | (mine < 0)][:count].sum())
        return float(min(sums))


def _with_item(weight: Floats, average: Floats, logit: Floats, score: Floats) -> tuple[Floats, Floats]:
    """Log-sum-exp and average with one more attended item of this logit and this score.

    Each part times its share: a difference of score and average would leave the rounding of a huge score behind, which
    a sink of tiny weight may have.
    """
    total = np.logaddexp(weight, logit)
    return total, np.exp(weight - total) * average + np.exp(logit - total) * score


def _largest_averages(average: Floats, weight: Floats, score: Floats, count: int) -> Floats:
    """The largest average of each row with up to ``count`` more items, of these weights relative to the present sum.

    An average of α is reached if some items have Σ w_j (s_j − α) ≥ α − average; the best are the ``count`` largest
    positive terms. Their average is the next α (Dinkelbach), until it no longer grows. Beside a weight w the terms of
    the others are accurate to w·2⁻⁵² times the scores only, and α is raised by as much.
    """
    wide = ~(weight.max(axis=1) < _HUGE)  # the other weights are below rounding beside such a weight
    weight, best, count = np.where(wide[:, None], 0.0, weight), average, min(count, len(score))
    for _ in range(_STEPS if count else 0):
        gain = weight * (score - best[:, None])
        chosen = np.argpartition(gain, len(score) - count, axis=1)[:, len(score) - count :]
        joining = np.take_along_axis(np.where(gain > 0, weight, 0.0), chosen, axis=1)
        higher = (average + (joining * score[chosen]).sum(axis=1)) / (1 + joining.sum(axis=1))
        if not (higher > best).any():
            size = np.maximum(np.abs(score).max(), np.abs(average))
            rounding = 16 * count * np.finfo(np.float64).eps * (1 + weight.max(axis=1)) * size
            return np.where(wide, np.inf, best + rounding)
        best = np.maximum(best, higher)
    return np.full_like(average, np.inf) if count else average


def _room(label: NDArray[np.int64], most: int, members: list[int], items: Rows) -> NDArray[np.int64]:
    """How many more with the label of each of ``items`` may join."""
    mine = label[items]
    taken = (mine[:, None] == label[members]).sum(axis=1)
    return np.where(mine < 0, len(label), most - taken)
