"""Proposition "MDK lower bound": multi-dimensional knapsack as the choice of a set.

    max p · z   subject to   y_i · z ≤ t_i  (i = 1 … d),   z ∈ {0, 1}^c       p ≥ 0; y_i and t_i whole numbers ≥ 0

The catalogue has a row for each constraint, one for each item, and a dummy: n = k = d + c + 1, in this order. Item j
has the reward p_j in every set. Constraint i attends to item j with weight y_ij and to the dummy with weight 1;
constraints have value 0, items 1, the dummy 2. So with Y = y_i · z and the dummy chosen the average of constraint i is
(Y + 2)/(Y + 1) = 1 + 1/(1 + Y), falling in Y. Its reward is 0 for Y ≤ t_i and −(Σp + 1) from Y = t_i + 1 on: a penalty
above the sum of all profits.

Errata. As printed, the reduction fails in two ways; both are corrected here.

1. The reward of a constraint row is at most 0, so the best set omits these rows, contains every item and has F = Σp.
   (The proof states that F > 0 forces x_i = 1 for them, but no term of F does.) The constraint rows and the dummy must
   be pinned: ``sw.rank(…, include=reduction.pinned)``. Then F = p · z for feasible z, and F ≤ −1 for all others.
2. The knots of the reward are printed at Y = t_i and Y = t_i + 1, which are possible sums, so that a rounding error
   changes the reward. Sums are whole numbers; here the knots are at t_i + 1/3 and t_i + 2/3.

Weights of 0 (between constraints, and y_ij = 0) are e^(−L), as queries and keys are finite. At most c + d such weights
change the average of a constraint to 1 + (1 − β)/(1 + Y + α + β), with α ≤ c e^(−L) and β ≤ d e^(−L), as if Y were
larger by at most 2(c + d(t+2)) e^(−L). L makes this 1/12, so that a feasible row stays 1/4 below its first knot; a Y
above t only becomes larger. Rows are float64, and capacities beyond its precision are refused (``largest_capacity``).

The keys hold log w and the queries of constraints are unit vectors, so that d_kq = d; all others have query 0.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Rows
from setwise._validation import index_array, real_array, require_shape
from setwise.errors import InvalidInput
from setwise.hardness.reduction import Reduction
from setwise.hardness.tokens import Words, refused_at
from setwise.hardness.whole_numbers import require_small_sums, whole_array
from setwise.model.catalog import Catalog
from setwise.model.rewards import Constant, PiecewiseLinear, Reward


@dataclass(frozen=True, eq=False)
class Knapsack:
    """profit p (c,), weight y (d, c), capacity t (d,), the optimum where it is known, and a name."""

    profit: NDArray[np.float64]
    weight: NDArray[np.int64]
    capacity: NDArray[np.int64]
    optimum: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        profit = real_array("profit", self.profit, ("c",), np.float64)
        weight = whole_array("weight", self.weight, ("d", len(profit)))
        capacity = whole_array("capacity", self.capacity, (len(weight),))
        if not weight.size:
            raise InvalidInput("weight", "of an item and a constraint at least", "none", "add one")
        if profit.min() < 0:
            raise InvalidInput("profit", "at least 0", profit.min(), "drop the items that cost")
        require_small_sums("profit", profit)
        require_small_sums("weight", weight)
        for name, array in (("profit", profit), ("weight", weight), ("capacity", capacity)):
            object.__setattr__(self, name, array)

    @property
    def n_items(self) -> int:
        """The number of items, c."""
        return len(self.profit)

    @property
    def n_constraints(self) -> int:
        """The number of constraints, d."""
        return len(self.capacity)

    def value(self, z: ArrayLike) -> float:
        """The profit p · z."""
        return float(self.profit @ self._choice(z))

    def is_feasible(self, z: ArrayLike) -> bool:
        """Whether y_i · z ≤ t_i for every constraint i."""
        return bool((self.weight @ self._choice(z) <= self.capacity).all())

    def _choice(self, z: ArrayLike) -> NDArray[np.bool_]:
        chosen = np.asarray(z)
        require_shape("z", chosen, (self.n_items,))
        return chosen.astype(bool)


# --- the files -----------------------------------------------------------------------------------------------------


def read_or_library(path: str | os.PathLike[str]) -> list[Knapsack]:
    """The problems of an OR-Library file (mknap1, mknapcb…), plain or gzipped.

    The number of problems; then for each: c d optimum (0 when it is unknown), c profits, d rows of c weights,
    d capacities. Lines break anywhere. A problem is named by its file and its number, from 0.
    """
    words = Words(path)
    problems = [_problem(words, number) for number in range(words.count("the number of problems"))]
    words.end()
    return problems


def read_sac94(path: str | os.PathLike[str]) -> Knapsack:
    """The one problem of a SAC-94 file: the same as in the OR-Library, without the number of problems."""
    words = Words(path)
    problem = _problem(words)
    words.end()
    return problem


def _problem(words: Words, number: int | None = None) -> Knapsack:
    c, d = words.count("the number of items"), words.count("the number of constraints")
    optimum = float(words.reals(1, "the optimum")[0])
    profit = words.reals(c, "a profit")
    weight = words.wholes(c * d, "a weight").reshape(d, c)
    capacity = words.wholes(d, "a capacity")
    name = words.path.name.split(".")[0] + ("" if number is None else f"-{number}")
    with refused_at(words.path, words.line):
        return Knapsack(profit, weight, capacity, optimum or None, name)


# --- the reduction -------------------------------------------------------------------------------------------------


def knapsack_catalog(problem: Knapsack) -> Reduction:
    """The catalogue whose best set, with ``pinned`` included, has F = the optimum of ``problem``."""
    c, d = problem.n_items, problem.n_constraints
    n = d + c + 1
    refuse_capacity(int(problem.capacity.max()), n)
    nothing = -math.log(24 * (c + d * (int(problem.capacity.max()) + 2)))  # −L
    query = np.eye(n, d)
    key = np.full((n, d), nothing)
    key[d:-1] = np.where(problem.weight > 0, np.log(np.maximum(problem.weight, 1)), nothing).T
    key[-1] = 0.0
    value = np.repeat([0.0, 1.0, 2.0], [d, c, 1])[:, None]
    penalty = float(problem.profit.sum()) + 1
    rewards: list[Reward] = [capacity_reward(int(t), 1.0, penalty) for t in problem.capacity]
    rewards += [Constant(float(p)) for p in problem.profit] + [Constant(0.0)]
    catalog = Catalog(query, key, value, (rewards, np.arange(n)), dtype=np.float64)
    return Reduction(catalog, n, np.append(np.arange(d), n - 1))


def capacity_reward(t: int, offset: float, penalty: float) -> PiecewiseLinear:
    """0 for a sum of at most t, −penalty from t + 1 on, for a constraint of average offset + 1/(1 + sum)."""
    knots = (offset + 1 / (1 + t + 2 / 3), offset + 1 / (1 + t + 1 / 3))
    return PiecewiseLinear(knots, (-penalty, 0.0))


def largest_capacity(n: int) -> int:
    """The largest t that n rows of float64 resolve.

    For a whole sum the average of a constraint is at least 1/(4(t+2)²) away from a knot; rounding, at most 8nε, may use
    half of it.
    """
    return math.floor(math.sqrt(1 / (64 * n * np.finfo(float).eps))) - 2


def refuse_capacity(t: int, n: int) -> None:
    """Raise InvalidInput for a capacity that n rows of float64 do not resolve."""
    if t > largest_capacity(n):
        raise InvalidInput("capacity", f"at most {largest_capacity(n)} with {n} rows", t, "scale weights down")


def solution_to_knapsack(problem: Knapsack, rows: ArrayLike) -> NDArray[np.bool_]:
    """The z that a set of rows encodes: (c,)."""
    n = problem.n_constraints + problem.n_items + 1
    chosen = np.zeros(n, bool)
    chosen[index_array("rows", rows, n, "the reduced catalogue")] = True
    return chosen[problem.n_constraints : -1]


def knapsack_to_solution(problem: Knapsack, z: ArrayLike) -> Rows:
    """The rows that encode z: all constraints, the chosen items, the dummy."""
    items = np.asarray(z)
    require_shape("z", items, (problem.n_items,))
    constraints, dummy = np.ones(problem.n_constraints, bool), np.ones(1, bool)
    return np.flatnonzero(np.concatenate([constraints, items.astype(bool), dummy]))
