"""Numeric contrast: an item beside dearer ones, x_i − mean of x over the slate, or − its lowest or highest x.

The mean is one head with equal weights and no sink. Against the mean of the n others instead, which the words state,
the contrast is larger by (n + 1) / n. The lowest and the highest are means with weights e^(∓10 x), in standard
deviations: a head whose keys are the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.training.effects.columns import NO_SINK, Block, Family, Head, Shown, in_odds
from setwise.training.effects.features import Number

SHARPNESS = 10.0  # of the mean that is an extreme


@dataclass(frozen=True, eq=False)
class MeanContrast(Family):
    """A coefficient for x_i − mean of the slate."""

    number: Number
    size: float  # of the slates on average

    @property
    def name(self) -> str:
        return f"{self.number.name} against the others"

    def block(self, shown: Shown) -> Block:
        x = np.where(shown.filled, self.number.x[shown.rows], 0.0)
        mean = x.sum(axis=1, keepdims=True) / shown.filled.sum(axis=1, keepdims=True)
        return Block(self.name, shown.flat(x - mean)[:, None], shrunken=False)

    def heads(self, theta: Floats) -> Sequence[Head]:
        zeros = np.zeros((len(self.number.x), 1))
        return (Head(zeros, zeros, -theta[0] * self.number.x, NO_SINK),)

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        share = (self.size - 1) / self.size
        return [_in_words(self.number, "mean of the others", theta[0] * share, covariance[0, 0] * share**2)]


@dataclass(frozen=True, eq=False)
class ExtremeContrast(Family):
    """A coefficient for x_i − the lowest, or the highest, x of the slate."""

    number: Number
    highest: bool

    @property
    def name(self) -> str:
        return f"{self.number.name} against the {self._extreme}"

    @property
    def _extreme(self) -> str:
        return "highest" if self.highest else "lowest"

    @property
    def _logit(self) -> Floats:
        """Of every item, 0 for the most extreme."""
        logit = SHARPNESS * (self.number.x if self.highest else -self.number.x)
        return np.asarray(logit - logit.max())

    def block(self, shown: Shown) -> Block:
        x, logit = self.number.x[shown.rows], np.where(shown.filled, self._logit[shown.rows], -np.inf)
        weight = np.exp(logit - logit.max(axis=1, keepdims=True))
        extreme = (weight * x).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
        return Block(self.name, shown.flat(x - extreme)[:, None], shrunken=False)

    def heads(self, theta: Floats) -> Sequence[Head]:
        logit = self._logit
        sink = float(logit.min()) + NO_SINK
        return (Head(np.ones((len(logit), 1)), logit[:, None], -theta[0] * self.number.x, sink),)

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        return [_in_words(self.number, f"{self._extreme} of the slate", theta[0], covariance[0, 0])]


def _in_words(number: Number, other: str, effect: float, variance: float) -> str:
    """What 10 % more does, or one more where numbers are not compared by their logarithm."""
    step = float(np.log(1.1)) if number.logged else 1.0
    change, error = float(effect) / number.scale * step, float(np.sqrt(variance)) / number.scale * step
    above = f"10 % above the {other}" if number.logged else f"above the {other} by one"
    return f"{number.name} {above}: {change:+.3g} ± {error:.2g} log-odds ({in_odds(change)})"
