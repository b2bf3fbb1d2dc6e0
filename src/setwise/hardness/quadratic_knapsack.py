"""Quadratic knapsack, with profits for pairs of items, as the choice of a set.

    max Σ_{i∈S} p_i + Σ_{i<j∈S} p_ij     subject to   Σ_{i∈S} y_i ≤ t            all numbers whole and ≥ 0

A softmax averages; the profit is a sum. A sink turns the average into a sum: with weights w_ij = p_ij / 2, a sink of
weight e^M and score 0, and the score e^M for all items,

    a_i(S) = p_i + Σ_j w_ij · e^M / (e^M + Σ_j w_ij)       is short of   p_i + Σ_j w_ij   by at most (Σ_j w_ij)² / e^M,

so F(S) = Σ a_i(S) lies at most eps/2 below the profit of S once e^M ≥ 2 Σ_i (Σ_j w_ij)² / eps, for the largest such
sums of at most k items. The other half of eps is for rounding, with unit ε = 2^−53: that of log w, log w − M and the
exponentials changes a weight by a factor of up to 1 + ε(3 |log w| + M + 6); product, division and the sums over k
weights add 2k + 4, the sum over k items k more. Where the attention adds up to A and the items' own profits to P this
is ε(A(3 max |log w| + M + 3k + 10) + P(k + 1)); an eps below twice that is refused.

The capacity is one more row, pinned, and a second head that only this row uses: it attends to item j with weight y_j
and score −1, and to a sink of weight 1 and score 0, so that its average is −Y/(1+Y) = −1 + 1/(1+Y) for the sum Y. Its
reward is that of a knapsack constraint (knapsack.py): 0 up to t, and from t + 1 on a penalty above the sum of all
profits.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats, Ints
from setwise._validation import index_array, real_number, whole_number
from setwise.errors import InvalidInput, MalformedFile
from setwise.hardness.knapsack import capacity_reward, refuse_capacity
from setwise.hardness.tokens import read_lines, refused_at, whole, wholes
from setwise.hardness.whole_numbers import require_small_sums, whole_array
from setwise.model.instance import Instance
from setwise.model.rewards import Linear

UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class QuadraticKnapsack:
    """profit p_i (n,), pair p_ij (n, n) symmetric with an empty diagonal, weight y (n,), capacity t, and a name."""

    profit: Ints
    pair: Ints
    weight: Ints
    capacity: int
    name: str = ""

    def __post_init__(self) -> None:
        profit = whole_array("profit", self.profit, ("n",))
        n = len(profit)
        pair = whole_array("pair", self.pair, (n, n))
        weight = whole_array("weight", self.weight, (n,))
        capacity = whole_number("capacity", self.capacity, least=0)
        if n == 0:
            raise InvalidInput("profit", "that of an item at least", "none", "add one")
        if pair.diagonal().any() or (pair != pair.T).any():
            todo = "add its transpose and clear the diagonal"
            raise InvalidInput("pair", "symmetric with an empty diagonal", "another matrix", todo)
        for name, array in (("profit", profit), ("pair", pair), ("weight", weight)):
            require_small_sums(name, array.ravel())
            object.__setattr__(self, name, array)
        object.__setattr__(self, "capacity", capacity)

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.profit)

    def value(self, items: ArrayLike) -> int:
        """The profit of a set of items, pairs included."""
        chosen = index_array("items", items, self.n_items, "the knapsack")
        return int(self.profit[chosen].sum() + self.pair[np.ix_(chosen, chosen)].sum() // 2)

    def is_feasible(self, items: ArrayLike) -> bool:
        """Whether these items fit."""
        chosen = index_array("items", items, self.n_items, "the knapsack")
        return bool(self.weight[chosen].sum() <= self.capacity)


# --- the files -----------------------------------------------------------------------------------------------------


def read_billionnet_soutif(path: str | os.PathLike[str]) -> QuadraticKnapsack:
    """A problem in the format of Billionnet and Soutif, plain or gzipped.

    Line by line: the name; n; n profits; the upper triangle of pair profits (n − 1 numbers, n − 2, … 1); an empty line;
    0 for "at most"; the capacity; n weights; then comments.
    """
    rows = _Rows(Path(path), read_lines(path))
    name = rows.text("the name").strip()
    n = rows.number("the number of items")
    if n == 0:
        raise MalformedFile(rows.path, rows.line, "the number of items must be at least 1, got 0")
    profit = rows.numbers(n, "profits")
    pair = np.zeros((n, n), np.int64)
    for i in range(n - 1):
        pair[i, i + 1 :] = rows.numbers(n - 1 - i, "pair profits")
    rows.numbers(0, "more pair profits")
    if rows.number("the kind of constraint") != 0:
        raise MalformedFile(rows.path, rows.line, "the kind of constraint must be 0, at most")
    capacity = rows.number("the capacity")
    weight = rows.numbers(n, "weights")
    with refused_at(rows.path, rows.line):
        return QuadraticKnapsack(profit, pair + pair.T, weight, capacity, name)


class _Rows:
    """The lines of a file in order; ``line`` is the number of the last one read."""

    def __init__(self, path: Path, lines: list[str]) -> None:
        self.path, self._lines, self.line = path, lines, 0

    def text(self, what: str) -> str:
        if self.line == len(self._lines):
            raise MalformedFile(self.path, max(self.line, 1), f"the file ends where {what} should stand")
        self.line += 1
        return self._lines[self.line - 1]

    def _words(self, count: int, what: str) -> list[str]:
        words = self.text(what).split()
        if len(words) != count:
            raise MalformedFile(self.path, self.line, f"{what}: {count} expected on this line, got {len(words)}")
        return words

    def numbers(self, count: int, what: str) -> Ints:
        words = self._words(count, what)
        return wholes(self.path, [self.line] * count, words, f"each of the {what}")

    def number(self, what: str) -> int:
        (word,) = self._words(1, what)
        return whole(self.path, self.line, word, what)


# --- the instances -------------------------------------------------------------------------------------------------


def pairwise_instance(problem: QuadraticKnapsack, k: int, eps: float = 1e-6) -> Instance:
    """The problem without its capacity: F(S) is the profit of S within ``eps`` for |S| ≤ k."""
    eps = _positive(eps)
    n, log_pair, M = problem.n_items, _log(problem.pair / 2), _sink_logit(problem, k, eps)
    return Instance(
        log_pair, np.full(n, math.exp(M)), Linear(), problem.profit, sink_logit=np.full(n, M), sink_score=[0.0]
    )


def quadratic_knapsack_instance(problem: QuadraticKnapsack, eps: float = 1e-6) -> Instance:
    """The problem with its capacity, as a row n that must be pinned: ``include=[n]``, k = n + 1.

    F(S) is the profit of the other rows within ``eps`` when they fit, and below 0 when they do not.
    """
    eps = _positive(eps)
    n, M = problem.n_items, _sink_logit(problem, problem.n_items, eps)
    refuse_capacity(problem.capacity, n + 1)
    logit = np.full((2, n + 1, n + 1), -np.inf)
    logit[0, :n, :n] = _log(problem.pair / 2)
    logit[1, n, :n] = _log(problem.weight)
    score = np.repeat([[math.exp(M)], [-1.0]], n + 1, axis=1)
    penalty = float(problem.profit.sum() + problem.pair.sum() // 2) + 1 + eps
    rewards = [Linear(), capacity_reward(problem.capacity, -1.0, penalty)]
    sink_logit = np.repeat([[M], [0.0]], n + 1, axis=1)
    reward_class = (np.arange(n + 1) == n).astype(int)
    return Instance(logit, score, (rewards, reward_class), np.append(problem.profit, 0), sink_logit, np.zeros(2))


def solution_to_quadratic_knapsack(problem: QuadraticKnapsack, rows: ArrayLike) -> NDArray[np.intp]:
    """The items that a set of rows encodes: all but the row of the capacity."""
    chosen = index_array("rows", rows, problem.n_items + 1, "the reduced problem")
    return np.sort(chosen[chosen < problem.n_items])


def _log(weight: Floats | Ints) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weight))


def _positive(eps: float) -> float:
    value = real_number("eps", eps)
    if value <= 0:
        raise InvalidInput("eps", "above 0", value, "pass a small positive number")
    return value


def _sink_logit(problem: QuadraticKnapsack, k: int, eps: float) -> float:
    """The M that keeps F(S) within ``eps`` of the profit for all sets of at most k items, rounding included."""
    k = min(whole_number("k", k), problem.n_items)
    attended = np.sort(problem.pair / 2, axis=1)[:, ::-1][:, : k - 1].sum(axis=1)
    attended = np.sort(attended)[::-1][:k]
    short, total = float((attended**2).sum()), float(attended.sum())
    M = max(0.0, math.log(2 * short) - math.log(eps)) if short else 0.0
    logs = max(1.0, math.log(problem.pair.max() / 2)) if short else 1.0  # log ½, the smallest, is above −1
    rounding = UNIT * (total * (3 * logs + M + 3 * k + 10) + float(problem.profit.sum()) * (k + 1))
    if eps < 2 * rounding:
        must = f"at least {2.2 * rounding:.1e}, which is what double precision can keep here"
        raise InvalidInput("eps", must, f"{eps:g}", "raise it or lower k")
    return M
