"""Numeric contrast: an item beside dearer ones, x_i − mean of x over the slate.

The mean is one head with equal weights and no sink. Against the mean of the n others instead, which the words state,
the contrast is larger by (n + 1) / n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.training.effects.columns import NO_SINK, Block, Head, Shown, in_odds
from setwise.training.effects.features import Number


@dataclass(frozen=True, eq=False)
class MeanContrast:
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

    def pairs(self, pairs: Shown) -> Block:
        return self.block(pairs)

    def heads(self, theta: Floats) -> Sequence[Head]:
        zeros = np.zeros((len(self.number.x), 1))
        return (Head(zeros, zeros, -theta[0] * self.number.x, NO_SINK),)

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        name, error = self.number.name, float(np.sqrt(covariance[0, 0]))
        effect = float(theta[0]) / self.number.scale * (self.size - 1) / self.size
        if self.number.logged:
            tenth = effect * float(np.log(1.1))
            said = f"{name} 10 % above the mean of the others: {tenth:+.3f} ± {abs(tenth / theta[0]) * error:.3f}"
        else:
            said = f"{name} above the mean of the others by one: {effect:+.3g} ± {abs(effect / theta[0]) * error:.2g}"
            tenth = effect
        return [f"{said} log-odds ({in_odds(tenth)})"]
