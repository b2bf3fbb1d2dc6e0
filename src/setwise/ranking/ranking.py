"""What a ranker returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ranking:
    """A set of candidates and what is known of it.

    indices      positions among the instance's candidates, best first by reward
    value        F of that set, recomputed by the judge
    upper_bound  a number that no feasible set of the instance exceeds; infinite when the ranker gives none
    proven       whether the set is known to be optimal
    evaluations  how many sets were evaluated to find it
    trace        the best value after each candidate solution, for rankers that work by candidate solutions; else empty
    solutions    the value of each of them by itself, in the order they were made
    """

    indices: NDArray[np.intp]
    value: float
    upper_bound: float = math.inf
    proven: bool = False
    evaluations: int = 0
    trace: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    solutions: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
