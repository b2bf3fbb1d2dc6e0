"""The base: what an item is worth alone, by its attributes and an intercept of its own.

Items that were never shown have the part that their attributes say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Floats, Ints
from setwise.training.effects.columns import Block
from setwise.training.effects.features import Features, Label
from setwise.training.effects.regression import Fit

ALL = "all items"
MOST_VALUES = 100  # of a label with a coefficient each: the most frequent ones
MOST_DIM = 64  # of vectors: the principal components


@dataclass(frozen=True, eq=False)
class Base:
    """Columns (n, p) of every item by the name of their block."""

    columns: dict[str, Floats]

    @classmethod
    def of(cls, features: Features) -> Base:
        """Labels one value a column, numbers with their squares, vectors by component."""
        columns: dict[str, Floats] = {ALL: np.ones((features.items, 1))}
        for label in features.labels:
            columns[f"{label.name} alone"] = np.asarray(label.code[:, None] == kept_values(label), np.float64)
        for number in features.numbers:
            parts = [number.x, number.x**2 - 1] + ([number.missing] if number.missing.any() else [])
            columns[f"{number.name} alone"] = np.column_stack(parts)
        for vector in features.vectors:
            columns[f"{vector.name} alone"] = vector.unit @ components(vector.unit)
        return cls(columns)

    @property
    def blocks(self) -> list[Block]:
        """A block of items for each attribute; the constant is not shrunken."""
        return [Block(name, part, shrunken=name != ALL) for name, part in self.columns.items()]

    def with_column(self, name: str, column: Floats) -> Base:
        """The base with one more number of every item, in standard deviations."""
        scaled = (column - column.mean()) / max(float(column.std()), 1e-12)
        return Base({**self.columns, name: scaled[:, None]})

    def alone(self, fit: Fit) -> Floats:
        """The logit of every item by itself."""
        total = fit.intercept.copy()
        for name, part in self.columns.items():
            total += part @ fit.of(name)[0]
        return total


def kept_values(label: Label) -> Ints:
    """The values with a coefficient each: the most frequent ones."""
    times = np.bincount(label.code[label.code >= 0])
    return np.asarray(np.argsort(-times, kind="stable")[:MOST_VALUES])


def components(unit: Floats) -> Floats:
    """What vectors (n, d) are multiplied by for the columns of the base: (d, p)."""
    if unit.shape[1] <= MOST_DIM:
        return np.asarray(np.eye(unit.shape[1]) * np.sqrt(unit.shape[1]))
    turned = np.linalg.svd(unit, full_matrices=False)[2][:MOST_DIM]
    return np.asarray(turned.T * np.sqrt(MOST_DIM))
