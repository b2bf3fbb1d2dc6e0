"""Phase Two, step 4: the grid of denominators t (Appendix F, step 4 and its lemma on auxiliary problems).

With the denominators w'_i·x replaced by numbers t_i ≥ w'_i·x the fractions become linear. Since W'x = A (Bᵀx), the grid
covers the values y = Bᵀx ∈ [0, 1]^r that solutions of the partial solution X can have, and t = Ay: r dimensions instead
of m.

A cell is a box, and its t is that of its **upper corner**. The paper allows any t of the cell; then the best solution
x* of the cell may violate w'_i·x* ≤ t_i. At the upper corner it never does, because A ≥ 0. The paper's cells are balls
whose radius, by way of W'_min, lets t_i change by at most a factor 1 + δ. Here the sides of the boxes grow by that
factor from one corner to the next (geometric_grid.py), so that t ≤ (1 + δ) W'x* directly. Averages of at most (Vu)_max
then fall by at most (Vu)_max δ/(1 + δ), whatever W'_min is.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from proofs.enumeration import PartialSolution
from proofs.geometric_grid import Axis
from proofs.nonnegative_rank import SurrogateProblem
from setwise._types import Floats


def number_of_denominators(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> int:
    """The number of t that ``denominators`` returns."""
    return math.prod(axis.number_of_uppers for axis in _axes(problem, partial, delta))


def denominators(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> Floats:
    """One t for each cell that may contain a solution of the partial solution: (cells, m)."""
    grid = np.array(list(product(*(axis.uppers() for axis in _axes(problem, partial, delta)))))
    return np.asarray(grid @ problem.surrogate.a.T)


def _axes(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> list[Axis]:
    return [Axis(row, partial, problem.k, delta) for row in problem.surrogate.b.T]
