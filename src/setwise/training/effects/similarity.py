"""Similarity by a vector: what near copies do, and what items in the same or the opposite direction do.

``Similarity`` is Σ_{j∈T} g(cos_ij) with g(c) = Σ_β θ_β e^(β (c − 1)). A few exponentials make any curve that rises
from a cosine of 0, or for near copies alone; each is a sum by attention whose queries and keys are the vectors.
``Cosine`` is θ Σ_{j∈T} cos_ij, with the difference of two of them: c ≈ (e^(βc) − e^(−βc)) / (2 sinh β). One number says
more about opposite directions, of which a log has few, than four: they are rivals, and a log shows which is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.training.effects.columns import Block, Family, Head, Shown, in_words, sink_of_sums
from setwise.training.effects.features import Vector

SHARPNESS = (0.7, 2.0, 5.0, 12.0)  # β
BEND = 0.3  # β of the cosine itself: off by 0.006 at most
TOGETHER = 1 << 24  # products in memory
SCALE = float(np.exp(BEND) / (2 * np.sinh(BEND)))  # from the difference of the sums to the cosine
TOLD = (1.0, 0.5)  # cosines in words


@dataclass(frozen=True, eq=False)
class Similarity(Family):
    """The coefficients of g for one vector of the items."""

    vector: Vector
    most: int

    @property
    def name(self) -> str:
        return f"similar {self.vector.name}"

    def block(self, shown: Shown) -> Block:
        return Block(self.name, _sums(self.vector, shown, SHARPNESS))

    def heads(self, theta: Floats) -> Sequence[Head]:
        return [_head(self.vector, beta, effect, self.most) for beta, effect in zip(SHARPNESS, theta, strict=True)]

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        said = []
        for cosine in TOLD:
            change = np.array([np.exp(beta * (cosine - 1)) - np.exp(-beta) for beta in SHARPNESS])
            said.append(in_words(float(change @ theta), float(change @ covariance @ change)))
        near, half = said
        return [f"each further item alike by {self.vector.name}: {near} for a copy, {half} at a cosine of 0.5"]


@dataclass(frozen=True, eq=False)
class Cosine(Family):
    """One coefficient for the sum of the cosines with the others."""

    vector: Vector
    most: int

    @property
    def name(self) -> str:
        return f"cosine of {self.vector.name}"

    def block(self, shown: Shown) -> Block:
        along, against = _sums(self.vector, shown, (BEND, -BEND)).T
        return Block(self.name, ((along - against) * SCALE)[:, None], shrunken=False)

    def heads(self, theta: Floats) -> Sequence[Head]:
        effect = float(theta[0]) * SCALE
        return [_head(self.vector, BEND, effect, self.most), _head(self.vector, -BEND, -effect, self.most)]

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        half = in_words(float(theta[0]) / 2, float(covariance[0, 0]) / 4)
        return [f"each further item, by its cosine of {self.vector.name}: {half} at 0.5, the opposite at -0.5"]


def _sums(vector: Vector, shown: Shown, sharpness: Sequence[float]) -> Floats:
    """Σ_{j∈T} e^(β cos_ij − |β|) of every item shown, a column for each β."""
    count, k = shown.rows.shape
    total = np.zeros((count, k, len(sharpness)))
    size = max(1, TOGETHER // (k * (k + vector.unit.shape[1])))
    for start in range(0, count, size):
        part = slice(start, start + size)
        unit, filled = vector.unit[shown.rows[part]], shown.filled[part]
        cosine = unit @ unit.transpose(0, 2, 1)
        for number, beta in enumerate(sharpness):
            weight = np.exp(beta * cosine - abs(beta)) * filled[:, None, :]
            total[part, :, number] = weight.sum(axis=2) - np.diagonal(weight, axis1=1, axis2=2)
    return np.asarray(total[shown.filled])


def _head(vector: Vector, beta: float, effect: float, most: int) -> Head:
    """The head that computes ``effect`` times such a sum."""
    unit = vector.unit
    sink = sink_of_sums(abs(effect) ** 0.5 * most)
    query, key = (
        np.column_stack([beta * unit, np.full(len(unit), -abs(beta))]),
        np.column_stack([unit, np.ones(len(unit))]),
    )
    return Head(query, key, np.full(len(unit), effect * np.exp(sink)), sink)
