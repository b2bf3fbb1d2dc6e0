"""Clock: the time of a request. A budget is part of what is asked; a limit is not, and only stops what takes longer.

What a request without a budget does depends on its arguments and the catalogue alone: as many candidates and
evaluations as the defaults say, and a bound that is searched for ``BOUND_MS``. A service answers within a deadline all
the same. So it sets a limit around its calls: search and proof stop there, and nothing else changes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

BOUND_MS = 100.0  # for the bound when the query has no budget
SHORTEST_MS = 0.5  # a phase gets at least this
_LIMIT_MS: ContextVar[float] = ContextVar("limit_ms", default=math.inf)


@contextmanager
def limited_to(milliseconds: float) -> Iterator[None]:
    """Each request that begins inside stops its searches after so many milliseconds of its own."""
    token = _LIMIT_MS.set(milliseconds)
    try:
        yield
    finally:
        _LIMIT_MS.reset(token)


@dataclass(frozen=True)
class Clock:
    """The budget of a request, the limit around it, and the milliseconds of its phases."""

    budget_ms: float | None
    began: float = field(default_factory=time.perf_counter)
    timings: dict[str, float] = field(default_factory=dict)
    limit_ms: float = field(default_factory=_LIMIT_MS.get)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time that passes inside to the phase ``name``."""
        start = time.perf_counter()
        yield
        self.timings[name] = self.timings.get(name, 0.0) + 1000 * (time.perf_counter() - start)

    def share(self, share: float, default: float = math.inf, needed_ms: float = 0.0) -> float:
        """A share of the milliseconds that are left without ``needed_ms``; without a budget at most ``default``."""
        part = max(share * (self._left_ms() - needed_ms), SHORTEST_MS)
        return min(part, default) if self.budget_ms is None else part

    def has(self, needed_ms: float) -> bool:
        """Whether so much time is left."""
        return needed_ms <= self._left_ms()

    def is_over(self) -> bool:
        """Whether the time is over."""
        return self._left_ms() <= 0

    def resumed(self) -> Clock:
        """The same clock as if only the phases had taken time: waiting for other queries is not charged."""
        began = time.perf_counter() - sum(self.timings.values()) / 1000
        return Clock(self.budget_ms, began, self.timings, self.limit_ms)

    def _left_ms(self) -> float:
        allowed = self.limit_ms if self.budget_ms is None else min(self.budget_ms, self.limit_ms)
        return allowed - 1000 * (time.perf_counter() - self.began)
