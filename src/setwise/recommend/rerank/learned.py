"""What logged lists say of the knob (``diversity.py``): its strength, with its error."""

from __future__ import annotations

from dataclasses import dataclass

from setwise.model.likeness import SHARPNESS

STRONGEST = 4.0  # the strength at diversity 1
SURE = 2.0  # standard errors that a strength must be above 0


@dataclass(frozen=True)
class LearnedDiversity:
    """What the outcomes say of the knob; ``rerank`` takes it as ``diversity``.

    strength, error  the penalty for many copies, in log-odds, and its standard error
    slope, offset    what the scores are as log-odds
    lists            how many were fitted
    by, sharpness    what candidates were compared by
    """

    strength: float
    error: float
    slope: float
    offset: float
    lists: int
    by: tuple[str, ...] | None = None
    sharpness: float = SHARPNESS

    @property
    def found(self) -> bool:
        """Whether the strength is above 0 by two errors or more."""
        return self.strength > SURE * self.error

    @property
    def diversity(self) -> float:
        """The knob, from 0 to 1: 0 where none was found."""
        return min(self.strength / STRONGEST, 1.0) if self.found else 0.0

    def __str__(self) -> str:
        knob, error = self.strength / STRONGEST, self.error / STRONGEST
        if self.found:
            return f"your data want a diversity of {knob:.2f} ± {error:.2f} ({self.lists:,} lists)"
        largest = max(knob + SURE * error, 0.0)
        return f"no diversity was found: {knob:.2f} ± {error:.2f}, not above {largest:.2f} ({self.lists:,} lists)"
