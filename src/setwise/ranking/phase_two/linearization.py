"""Phase Two, step 5: complete linearisation (Appendix F, step 5 and its lemma on the tuples).

For a fixed t, with c_i = a_i / t_i, the objective Σ x_i f_i(Σ_j c_ij d_j·x) depends on x through the r numbers d_j·x
alone, apart from the factors x_i. These numbers lie in [0, (Vu)_max]; a grid of step δ₁ gives θ_j ≤ d_j·x < θ_j + δ₁,
and f_i(c_i·θ) is then a constant. The objective Σ x_i f_i(c_i·θ) in turn has a grid ζ of step δ₂ on
[0, k max_i f_i((Vu)_max)]. It remains to find, for each (θ, ζ), an x with d_j·x ≥ θ_j and Σ x_i f_i(c_i·θ) ≥ ζ: see
rounding.py.

The grid holds only values of θ_j that solutions of the partial solution reach; all other cells are empty.

The paper claims that x*, the best for t, reaches the last grid value ζ below OPT. It need not: f_i(c_i·θ) is smaller
than f_i(Σ c_ij d_j·x*). It reaches the last grid value below Σ x*_i f_i(c_i·θ) ≥ (1 − g) OPT − kh, with g and h at
δ₁ max_i ‖a_i‖₁/t_i; the guarantee of algorithm.py uses this.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from setwise._types import Floats
from setwise.ranking.phase_two.discretization import reach
from setwise.ranking.phase_two.enumeration import PartialSolution
from setwise.ranking.phase_two.nonnegative_rank import SurrogateProblem

_ROUNDING = 1e-12  # a value this close below a grid point belongs to the cell above it as well: start one cell lower


def thresholds(problem: SurrogateProblem, partial: PartialSolution, delta_1: float) -> Floats:
    """Every θ whose cell may contain the d_j·x of a solution: (cells, r)."""
    axes = [delta_1 * np.arange(first, last + 1) for first, last in _cells(problem, partial, delta_1)]
    return np.array(list(product(*axes)))


def number_of_thresholds(problem: SurrogateProblem, partial: PartialSolution, delta_1: float) -> int:
    """The number of θ that ``thresholds`` returns."""
    return math.prod(last + 1 - first for first, last in _cells(problem, partial, delta_1))


def _cells(problem: SurrogateProblem, partial: PartialSolution, delta_1: float) -> list[tuple[int, int]]:
    """The first and the last cell that may contain d_j·x, for each j."""
    ends = [reach(row, partial, problem.k) for row in problem.d]
    return [(int(least * (1 - _ROUNDING) / delta_1), int(most / delta_1)) for least, most in ends]


def number_of_targets(best_reward: float, k: int, delta_2: float) -> int:
    """The number of ζ that ``targets`` returns."""
    return max(1, math.ceil(k * best_reward / delta_2))


def targets(best_reward: float, k: int, delta_2: float) -> Floats:
    """The grid ζ = 0, δ₂, 2δ₂, … below k max_i f_i((Vu)_max)."""
    return np.asarray(delta_2 * np.arange(number_of_targets(best_reward, k, delta_2)), np.float64)
