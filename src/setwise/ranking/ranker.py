"""Ranker: a search for the best set of an instance and what it can do; Ranking: the set that it returns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ranking:
    """A set of candidates and what is known of it.

    indices      positions among the instance's candidates, best first by reward
    value        F of that set, recomputed by the reference objective
    upper_bound  an upper bound on F over the feasible sets of the instance; infinite when the ranker gives none
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


@dataclass(frozen=True)
class Ranker:
    """A ranker's name, its search and its capabilities.

    search          takes (instance, constraints) and keyword options; one that draws random numbers takes ``seed``
    title           what the method is called in tables for people
    uses_attention  looks at more than the scores; without it retrieval of best partners is useless
    interactive     fast enough for a request that a person waits for
    slow_growth     its time grows so fast with k that a service limits k for it
    """

    name: str
    search: Callable[..., Ranking]
    title: str
    uses_attention: bool = True
    interactive: bool = False
    slow_growth: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The keyword options of the search."""
        return tuple(inspect.signature(self.search).parameters)[2:]

    @property
    def takes_budget(self) -> bool:
        """Whether the search stops after ``budget_ms``."""
        return "budget_ms" in self.options

    @property
    def takes_evaluations(self) -> bool:
        """Whether the search stops after ``evaluations`` sets, and more of them never give less."""
        return "evaluations" in self.options
