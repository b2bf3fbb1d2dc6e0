"""Phase Two, step 5: complete linearisation (Appendix F, step 5 and its lemma on the tuples).

For a fixed t, with c_i = a_i / t_i, the objective Σ x_i f_i(Σ_j c_ij d_j·x) depends on x through the r numbers d_j·x
alone, apart from the factors x_i. Let θ_j ≤ d_j·x be a lower bound on each; f_i(c_i·θ) is then a constant. The
objective Σ x_i f_i(c_i·θ) in turn has a grid ζ of step δ₂ on [0, k max_i f_i((Vu)_max)]. It remains to find, for each
(θ, ζ), an x with d_j·x ≥ θ_j and Σ x_i f_i(c_i·θ) ≥ ζ: see rounding.py.

**The grid of θ.** The paper's has a constant step δ₁: θ_j ≤ d_j·x < θ_j + δ₁. Then c_i·θ falls short by δ₁ ‖a_i‖₁/t_i,
where t_i may be as small as W'_min: a loss of (1 + γ) δ₁/W'_min, more than the whole range of the scores for every δ₁
that a computer can afford. Here the ratio is constant (geometric_grid.py): θ_j ≤ d_j·x ≤ (1 + δ) θ_j. So

    c_i·x' ≥ c_i·θ ≥ (1/(1 + δ)) Σ_j c_ij d_j·x      for every x' with d_j·x' ≥ θ_j,

and an average of at most (Vu)_max falls by at most (Vu)_max δ/(1 + δ). W'_min is gone.

The paper claims that x*, the best for t, reaches the last grid value ζ below OPT. It need not: f_i(c_i·θ) is smaller
than f_i(Σ c_ij d_j·x*). It reaches the last grid value below Σ x*_i f_i(c_i·θ), and that is at least (1 − g) OPT − kh;
the guarantee of algorithm.py uses this.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from proofs.enumeration import PartialSolution
from proofs.geometric_grid import Axis
from proofs.nonnegative_rank import SurrogateProblem
from setwise._types import Floats


def thresholds(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> Floats:
    """Every θ whose cell may contain the d_j·x of a solution: (cells, r)."""
    return np.array(list(product(*(axis.lowers() for axis in _axes(problem, partial, delta)))))


def number_of_thresholds(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> int:
    """The number of θ that ``thresholds`` returns."""
    return math.prod(axis.number_of_lowers for axis in _axes(problem, partial, delta))


def _axes(problem: SurrogateProblem, partial: PartialSolution, delta: float) -> list[Axis]:
    return [Axis(row, partial, problem.k, delta) for row in problem.d]


def number_of_targets(best_reward: float, k: int, delta_2: float) -> int:
    """The number of ζ that ``targets`` returns."""
    return max(1, math.ceil(k * best_reward / delta_2))


def targets(best_reward: float, k: int, delta_2: float) -> Floats:
    """The grid ζ = 0, δ₂, 2δ₂, … below k max_i f_i((Vu)_max)."""
    return np.asarray(delta_2 * np.arange(number_of_targets(best_reward, k, delta_2)), np.float64)
