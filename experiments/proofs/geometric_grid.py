"""Phase Two: a grid of constant ratio 1 + δ for a sum y = row·x, row ≥ 0, over the solutions of a partial solution.

A solution contains the fixed items, at most k in all, and none of the excluded ones; so y lies in [least, most]. The
grid is least, (1 + δ) least, (1 + δ)² least, … A value between two points is rounded up for denominators
(discretization.py) and down for thresholds (linearization.py), and changes by at most the factor 1 + δ. No smallest
weight enters. A coordinate that can be 0 has a cell {0} of its own, and least is then its smallest positive entry.

For thresholds, row = d_j and X_j are the λ largest entries. The others are at most the smallest of X_j, so
most ≤ (k/λ) least, and there are at most 1 + ln(k/λ) / ln(1 + δ) points, whatever the scores and the weights are.
"""

from __future__ import annotations

import numpy as np

from proofs.enumeration import PartialSolution
from setwise._types import Floats

_ROUNDING = 1e-12  # relative: a sum in another order may lie this much beside a grid point


def reach(row: Floats, partial: PartialSolution, k: int) -> tuple[float, float]:
    """The smallest and the largest row·x, row ≥ 0, over the solutions that contain the partial solution."""
    least = float(row[partial.fixed].sum())
    room = k - int(partial.fixed.sum())
    most = least + float(np.sort(row[partial.free])[::-1][:room].sum())
    return least, most


class Axis:
    """The grid of one sum y = row·x."""

    def __init__(self, row: Floats, partial: PartialSolution, k: int, delta: float) -> None:
        self.step = float(np.log1p(delta))
        self.least, self.most = reach(row, partial, k)
        self.has_zero = self.least == 0
        if self.has_zero:
            self.least = float(row[partial.free & (row > 0)].min(initial=np.inf))
        self.steps = 0.0 if self.most == 0 else max(0.0, float(np.log(self.most / self.least)) / self.step)

    @property
    def number_of_uppers(self) -> int:
        """The number of cells by ``uppers``."""
        return self.has_zero + (0 if self.most == 0 else 1 + int(np.ceil(self.steps)))

    def uppers(self) -> Floats:
        """The upper end of every cell, at most 1 + δ times any y in it."""
        growing = self._powers(self.number_of_uppers - self.has_zero - 1)
        return np.concatenate((self._zero(), growing, [] if self.most == 0 else [max(self.least, self.most)]))

    @property
    def number_of_lowers(self) -> int:
        """The number of cells by ``lowers``."""
        return self.has_zero + (0 if self.most == 0 else 1 + int(self.steps * (1 + _ROUNDING)))

    def lowers(self) -> Floats:
        """The lower end of every cell, at least 1/(1 + δ) of any y in it."""
        return np.concatenate((self._zero(), self._powers(self.number_of_lowers - self.has_zero)))

    def _zero(self) -> Floats:
        return np.zeros(int(self.has_zero))

    def _powers(self, count: int) -> Floats:
        """The first grid points."""
        return np.asarray(self.least * np.exp(self.step * np.arange(max(0, count))))
