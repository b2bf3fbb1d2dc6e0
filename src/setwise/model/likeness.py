"""Likeness: how much the candidates of a list are alike, by vectors or by attributes.

cosine c_ij     −1 to 1: of two vectors; of attributes, the share of them on which i and j agree
weight w_ij     0 to 1: how much of a copy of i candidate j is

    w_ij = e^(sharpness (c_ij − 1))   of vectors: 1 for a copy, e^−sharpness for one at a right angle
    w_ij = c_ij                       of attributes

A candidate without a vector, or without any of the attributes, is like no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from setwise._types import Array, Floats, Floats32, Ints, Rows
from setwise.model.instance import unit_rows

SHARPNESS = 10.0  # halves the weight of a copy at a cosine of 0.93
SAFE = (1e-30, 1e30)  # squares of lengths that single precision can divide by


class Likeness(Protocol):
    """How much the candidates of a list are alike."""

    def taken(self, rows: Rows) -> Likeness:
        """The same for these candidates."""
        ...

    def unit(self) -> Floats32:
        """Vectors (m, d) whose inner products are the cosines c_ij, of length 1 or 0."""
        ...

    def weights(self) -> Floats32:
        """w_ij in single precision, 0 on the diagonal."""
        ...

    def logits(self) -> Floats:
        """Log w_ij in double precision, −∞ on the diagonal."""
        ...


class VectorLikeness:
    """Candidates are alike by the cosine of their vectors (m, d)."""

    def __init__(self, vectors: Array, sharpness: float = SHARPNESS, square: Floats | None = None) -> None:
        """``square`` has the squares of the lengths of the vectors, if they are known."""
        self._vectors, self._sharpness = vectors, sharpness
        self._square = np.einsum("ij,ij->i", vectors, vectors) if square is None else square

    def taken(self, rows: Rows) -> VectorLikeness:
        return VectorLikeness(self._vectors[rows], self._sharpness, self._square[rows])

    def unit(self) -> Floats32:
        """The vectors with length 1 in single precision; a zero one stays zero, and is like no other."""
        square = self._square
        if len(square) and SAFE[0] < square.min() and square.max() < SAFE[1]:
            unit = self._vectors.astype(np.float32)
            unit *= (1.0 / np.sqrt(square)).astype(np.float32)[:, None]
            return unit
        return unit_rows(self._vectors.astype(np.float64)).astype(np.float32)

    def weights(self) -> Floats32:
        from setwise.kernels.nearness import nearness

        unit = self.unit()
        cosine = unit @ unit.T
        nearness(cosine, float(self._sharpness))
        return cosine

    def logits(self) -> Floats:
        unit = unit_rows(self._vectors.astype(np.float64))
        logit = self._sharpness * (unit @ unit.T - 1)
        np.fill_diagonal(logit, -np.inf)
        return np.asarray(logit)


class AttributeLikeness:
    """Candidates are alike by the share of the attributes on which they agree; labels (attributes, m), −1: missing."""

    def __init__(self, labels: Sequence[Ints] | Ints) -> None:
        self._labels = np.asarray(labels)

    def taken(self, rows: Rows) -> AttributeLikeness:
        return AttributeLikeness(self._labels[:, rows])

    def unit(self) -> Floats32:
        """One coordinate for each value of each attribute; 1/√A where a candidate has it."""
        columns = []
        for labels in self._labels:
            values, code = np.unique(labels, return_inverse=True)
            columns.append(np.eye(len(values), dtype=np.float32)[code][:, values >= 0])
        return np.concatenate(columns, axis=1) / np.float32(np.sqrt(len(self._labels)))

    def weights(self) -> Floats32:
        return self._agreement().astype(np.float32)

    def logits(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._agreement()))

    def _agreement(self) -> Floats:
        share = np.zeros((self._labels.shape[1],) * 2)
        for labels in self._labels:
            share += (labels[:, None] == labels) & (labels >= 0)
        np.fill_diagonal(share, 0.0)
        return share / len(self._labels)


class NoLikeness:
    """No candidate is like another."""

    def __init__(self, m: int) -> None:
        self._m = m

    def taken(self, rows: Rows) -> NoLikeness:
        return NoLikeness(len(rows))

    def unit(self) -> Floats32:
        return np.eye(self._m, dtype=np.float32)

    def weights(self) -> Floats32:
        return np.zeros((self._m, self._m), np.float32)

    def logits(self) -> Floats:
        return np.full((self._m, self._m), -np.inf)
