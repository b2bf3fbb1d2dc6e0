"""Similarity: what near copies do, Σ_{j∈T} g(cos_ij) with g(c) = Σ_β θ_β e^(β (c − 1)).

A few exponentials make any smooth curve: one that rises from a cosine of 0, or only near copies. Each is a sum by
attention whose queries and keys are the vectors themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.training.effects.columns import Block, Head, Shown, in_words, sink_of_sums
from setwise.training.effects.features import Vector

SHARPNESS = (0.7, 2.0, 5.0, 12.0)  # β
TOGETHER = 1 << 24  # products in memory
TOLD = (1.0, 0.5)  # cosines in words


@dataclass(frozen=True, eq=False)
class Similarity:
    """The coefficients of g for one vector of the items."""

    vector: Vector
    most: int

    @property
    def name(self) -> str:
        return f"similar {self.vector.name}"

    def block(self, shown: Shown) -> Block:
        count, k = shown.rows.shape
        total = np.zeros((count, k, len(SHARPNESS)))
        size = max(1, TOGETHER // (k * (k + self.vector.unit.shape[1])))
        for start in range(0, count, size):
            part = slice(start, start + size)
            unit, filled = self.vector.unit[shown.rows[part]], shown.filled[part]
            cosine = unit @ unit.transpose(0, 2, 1)
            for number, sharpness in enumerate(SHARPNESS):
                weight = np.exp(sharpness * (cosine - 1)) * filled[:, None, :]
                total[part, :, number] = weight.sum(axis=2) - np.diagonal(weight, axis1=1, axis2=2)
        return Block(self.name, np.asarray(total[shown.filled]))

    def pairs(self, pairs: Shown) -> Block:
        return self.block(pairs)

    def heads(self, theta: Floats) -> Sequence[Head]:
        unit = self.vector.unit
        key = np.column_stack([unit, np.ones(len(unit))])
        heads = []
        for sharpness, effect in zip(SHARPNESS, theta, strict=True):
            sink = sink_of_sums(abs(effect) ** 0.5 * self.most)
            query = np.column_stack([sharpness * unit, np.full(len(unit), -sharpness)])
            heads.append(Head(query, key, np.full(len(unit), effect * np.exp(sink)), sink))
        return heads

    def words(self, theta: Floats, covariance: Floats) -> list[str]:
        said = []
        for cosine in TOLD:
            change = np.array([np.exp(beta * (cosine - 1)) - np.exp(-beta) for beta in SHARPNESS])
            said.append(in_words(float(change @ theta), float(change @ covariance @ change)))
        near, half = said
        return [f"each further item alike by {self.vector.name}: {near} for a copy, {half} at a cosine of 0.5"]
