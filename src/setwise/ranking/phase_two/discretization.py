"""Phase Two, step 4: the grid of denominators t (Appendix F, step 4 and its lemma on auxiliary problems).

With the denominators w'_i·x replaced by numbers t_i ≥ w'_i·x the fractions become linear. Since W'x = A (Bᵀx), the grid
covers the values y = Bᵀx ∈ [0, 1]^r that solutions of the partial solution X can have, and t = Ay: r dimensions instead
of m.

A cell is a box, and its t is that of its **upper corner**. The paper allows any t of the cell; then the best solution
x* of the cell may violate w'_i·x* ≤ t_i. At the upper corner it never does, because A ≥ 0. The paper's cells are balls
whose radius, by way of W'_min, lets t_i change by at most a factor 1 + δ. Here the sides of the boxes grow by that
factor from one corner to the next, so that t ≤ (1 + δ) W'x* directly. With averages of at most (Vu)_max the loss in the
argument is δ (Vu)_max, whatever W'_min is. A coordinate that can be 0 has a cell {0} of its own.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from setwise._types import Floats
from setwise.ranking.phase_two.enumeration import PartialSolution
from setwise.ranking.phase_two.nonnegative_rank import SurrogateProblem


def reach(row: Floats, partial: PartialSolution, k: int) -> tuple[float, float]:
    """The smallest and the largest row·x, row ≥ 0, over the solutions that contain the partial solution."""
    least = float(row[partial.fixed].sum())
    room = k - int(partial.fixed.sum())
    most = least + float(np.sort(row[partial.free])[::-1][:room].sum())
    return least, most


class _Axis:
    """The cells of one coordinate y = row·x: {0} if y can be 0, then each end 1 + δ times the one before."""

    def __init__(self, row: Floats, partial: PartialSolution, k: int, delta: float) -> None:
        self.step = float(np.log1p(delta))
        least, self.most = reach(row, partial, k)
        self.has_zero = least == 0
        positive = row[partial.free & (row > 0)]
        self.least = float(positive.min(initial=np.inf)) if self.has_zero else least
        if self.most == 0:
            self.steps = 0
        else:
            self.steps = 1 + max(0, int(np.ceil(np.log(self.most / self.least) / self.step)))

    @property
    def size(self) -> int:
        return self.has_zero + self.steps

    def ends(self) -> Floats:
        """The upper end of every cell, at most 1 + δ times any y in it."""
        zero = [0.0] if self.has_zero else []
        if not self.steps:
            return np.array(zero)
        growing = self.least * np.exp(self.step * np.arange(self.steps - 1))
        return np.concatenate((zero, growing, [max(self.least, self.most)]))


def number_of_denominators(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> int:
    """The number of t that ``denominators`` returns."""
    return math.prod(axis.size for axis in _axes(problem, partial, delta))


def denominators(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> Floats:
    """One t for each cell that may contain a solution of the partial solution: (cells, m)."""
    grid = np.array(list(product(*(axis.ends() for axis in _axes(problem, partial, delta)))))
    return np.asarray(grid @ problem.surrogate.a.T)


def _axes(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> list[_Axis]:
    return [_Axis(row, partial, problem.k, delta) for row in problem.surrogate.b.T]
