"""Taste: what the history of a user says about an item by its attributes.

    label     the share of the history that has the item's value
    vector    the inner product of the item's unit vector with the mean of those of the history

Both are x_i · x̄ for some vectors x of the items and their mean x̄ over the history, which is the form of an encoder, so
each is a column of the base with one coefficient. An empty history has x̄ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.model.encoder import HISTORY
from setwise.model.ragged import Ragged
from setwise.training.effects.columns import Block, Shown
from setwise.training.effects.features import Features
from setwise.training.effects.regression import Fit
from setwise.training.effects.same_value import codes

TOGETHER = 4096  # histories


@dataclass(frozen=True, eq=False)
class Tastes:
    """The vectors of the items by attribute; empty where no slate has a history."""

    vectors: dict[str, Floats]

    @classmethod
    def of(cls, features: Features, history: Ragged) -> Tastes:
        """One for every label and vector of the items."""
        if not len(history.values):
            return cls({})
        labels = {f"taste for {label.name}": codes(label)[0] for label in features.labels}
        return cls(labels | {f"taste for {vector.name}": vector.unit for vector in features.vectors})

    def blocks(self, history: Ragged, shown: Shown) -> list[Block]:
        """A column for each attribute, for the items shown to the users of these histories."""
        return [Block(name, _column(x, history, shown)[:, None], shrunken=False) for name, x in self.vectors.items()]

    def of_items(self, fit: Fit) -> tuple[Floats, Floats]:
        """The vectors of the items for the encoder, and the same times their coefficients for the base: (n, D) each."""
        if not self.vectors:
            return np.zeros((0, 0)), np.zeros((0, 0))
        weighed = [float(fit.of(name)[0][0]) * x for name, x in self.vectors.items()]
        return np.concatenate(list(self.vectors.values()), axis=1), np.concatenate(weighed, axis=1)


def _column(x: Floats, history: Ragged, shown: Shown) -> Floats:
    rows, filled = history.padded(min(HISTORY, max(1, int(history.lengths.max(initial=0)))))
    mean = np.zeros((len(rows), x.shape[1]))
    for start in range(0, len(rows), TOGETHER):
        part = slice(start, start + TOGETHER)
        total = np.einsum("bt,btd->bd", filled[part].astype(np.float64), x[rows[part]])
        mean[part] = total / np.maximum(filled[part].sum(axis=1, keepdims=True), 1)
    return np.asarray(np.einsum("rd,rd->r", mean[shown.owner], x[shown.item]))
