"""Ranker: a search for the best set of an instance, with its capabilities; Ranking: the set that it returns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from setwise._display import html_table


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """A set of candidates, its value and an upper bound.

    indices      positions among the instance's candidates, best first by reward
    value        F of that set, recomputed by the reference objective
    upper_bound  an upper bound on F over the feasible sets of the instance; infinite when the ranker gives none
    proven       whether the set is proven optimal
    evaluations  how many sets were evaluated to find it
    trace        the best value after each candidate solution, for rankers that make candidate solutions; else empty
    solutions    the value of each candidate solution, in their order
    """

    indices: NDArray[np.intp]
    value: float
    upper_bound: float = math.inf
    proven: bool = False
    evaluations: int = 0
    trace: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    solutions: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        return f"Ranking(indices={self.indices.tolist()}, {self._worth})"

    @property
    def _worth(self) -> str:
        """Value and bound in words."""
        value = f"value={self.value:.6g}"
        if self.proven:
            return f"{value}, proven optimal"
        return f"{value}, upper_bound={self.upper_bound:.6g}" if math.isfinite(self.upper_bound) else value

    def _repr_html_(self) -> str:
        places = enumerate(self.indices.tolist(), 1)
        return html_table(f"Ranking: {self._worth}, {self.evaluations:,} sets evaluated", ("rank", "candidate"), places)


@dataclass(frozen=True)
class Ranker:
    """A ranker's name, its search and its capabilities.

    search               takes (instance, constraints) and keyword options; a search that draws random numbers has the
                         option ``seed``
    title                the method's name in tables
    uses_attention       uses more than the scores; otherwise retrieval need not look for best partners
    by_reward_alone      starts from what items are worth alone: retrieval adds those of largest reward alone
    interactive          fast enough for an interactive request
    slow_growth          the time grows so fast with k that a service limits k
    lower_limits         honours ``at_least``
    default_evaluations  (m, k) -> the evaluations of a search without a budget; None for a search without the option
                         ``evaluations``
    """

    name: str
    search: Callable[..., Ranking]
    title: str
    uses_attention: bool = True
    by_reward_alone: bool = False
    interactive: bool = False
    slow_growth: bool = False
    lower_limits: bool = False
    default_evaluations: Callable[[int, int], int] | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The keyword options of the search."""
        return _options(self.search)

    @property
    def takes_budget(self) -> bool:
        """Whether the search stops after ``budget_ms``."""
        return "budget_ms" in self.options

    @property
    def takes_evaluations(self) -> bool:
        """Whether the search stops after ``evaluations`` sets; a larger number never gives a smaller value."""
        return self.default_evaluations is not None


@cache
def _options(search: Callable[..., Ranking]) -> tuple[str, ...]:
    """Read once: every request asks for them, and a signature takes 0.2 ms."""
    return tuple(inspect.signature(search).parameters)[2:]
