"""The score test: whether further columns would lower the loss of a fit, from one step of Newton's method.

With g the gradient of the new coefficients where they are 0, and V their block of the inverse Hessian with the
intercepts and the other coefficients eliminated, gᵀ V g is about χ² where the columns have no effect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.training.effects.columns import Block
from setwise.training.effects.regression import WIDE, Curvature, Design, Fit, Rows, System, errors, prices


@dataclass(frozen=True)
class Score:
    """Whether further columns would lower the loss, from one step of Newton's method."""

    statistic: float  # about χ² of so many columns where they have no effect
    errors: Floats  # of their coefficients

    @property
    def excess(self) -> float:
        """The statistic above what noise gives on average."""
        return self.statistic - len(self.errors)

    @property
    def promising(self) -> bool:
        """Whether the statistic is more than two standard deviations above what noise gives."""
        return bool(self.excess > 2 * np.sqrt(2 * len(self.errors)))


class ScoreTest:
    """The score test of blocks that a fit does not have."""

    def __init__(self, rows: Rows, design: Design, result: Fit) -> None:
        p = 1 / (1 + np.exp(-result.argument(rows, design)))
        self.design, self.weight, self.residual = design, rows.weight * p * (1 - p), rows.weight * (rows.outcome - p)
        price = prices(design, result.variances)
        self.system = System(Curvature.of(design, self.weight), result.item_variance, price)

    def of(self, more: Block) -> Score:
        """Of one block."""
        sums, cross, own = self.design.beside(more, self.weight)
        beside = cross - self.system.scaled.T @ sums
        scaled = sums / self.system.diagonal[:, None]
        schur = own + np.eye(len(own)) / WIDE - sums.T @ scaled - beside.T @ self.system.solve(beside)
        toward = np.asarray(more.columns.T @ self.residual)
        covariance = np.asarray(np.linalg.inv(schur), np.float64)
        return Score(float(toward @ covariance @ toward), errors(covariance))
