"""Neighbours: scores that the items of a history give to the few items that are related to each of them.

    t_i = Σ_{j∈h} r_j W_ji / (Σ_{j∈h} r_j)^η       r_j: recency weights (recency.py)

W (n, n) is sparse: every item j has a few hundred neighbours i. Item-kNN and EASE have this form. A product of two
matrices of low rank cannot replace it without a loss: the strongest weights belong to pairs, not to directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from setwise._display import short_repr
from setwise._types import Array, Floats, Ints, Mask, Rows
from setwise._validation import real_array, real_number
from setwise.errors import InvalidInput
from setwise.model.recency import recency_weights


@dataclass(frozen=True, eq=False)
class Neighbours:
    """W in compressed rows: the neighbours of j are items[offsets[j] : offsets[j + 1]], with their weights."""

    offsets: Array  # (n + 1,)
    items: Array  # (m,)
    weights: Array  # (m,)
    decay: float = 1.0  # γ of the recency weights
    power: float = 0.0  # η

    __repr__ = short_repr

    def checked(self, n: int) -> Neighbours:
        """The same with its arrays checked, for a catalogue of ``n`` items."""
        offsets, items = np.asarray(self.offsets), np.asarray(self.items)
        weights = real_array("encoder's neighbour weights", self.weights, (len(items),), np.float32)
        sound = offsets.dtype.kind == items.dtype.kind == "i" and items.ndim == 1
        sound = sound and offsets.shape == (n + 1,) and offsets[0] == 0 and offsets[-1] == len(items)
        sound = sound and bool((np.diff(offsets) >= 0).all())
        if not sound or (len(items) and not (items.min() >= 0 and items.max() < n)):
            must, todo = f"compressed rows over the {n} items of the catalogue", "save the encoder with its catalogue"
            raise InvalidInput("encoder's neighbours", must, f"{len(offsets) - 1} rows", todo)
        names = ("decay", "power")
        return Neighbours(
            offsets, items, weights, *(real_number(f"encoder's neighbour {one}", getattr(self, one)) for one in names)
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def taken(self, rows: Rows) -> Neighbours:
        """The neighbours among these rows only, in this order."""
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        kept = np.flatnonzero((place[owner] >= 0) & (place[self.items] >= 0))
        kept = kept[np.argsort(place[owner[kept]], kind="stable")]
        counts = np.bincount(place[owner[kept]], minlength=len(rows))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return replace(self, offsets=offsets, items=place[self.items[kept]], weights=self.weights[kept])

    def of_rows(self, rows: Rows) -> Neighbours:
        """All neighbours of these rows, in this order; the items keep their numbers."""
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = np.repeat(starts, lengths) + within
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return replace(self, offsets=offsets, items=self.items[places], weights=self.weights[places])

    def scores(self, rows: Ints, filled: Mask) -> list[tuple[Ints, Floats]]:
        """For each padded history (B, T) the rows that have a score, ascending, and their scores."""
        weight = recency_weights(filled, self.decay)
        weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-300) ** self.power
        return [self._of_one(seen[mask], given[mask]) for seen, given, mask in zip(rows, weight, filled, strict=True)]

    def _of_one(self, seen: Ints, weight: Floats) -> tuple[Ints, Floats]:
        some = self.of_rows(seen)
        related, place = np.unique(some.items, return_inverse=True)
        scores = np.bincount(place, np.repeat(weight, np.diff(some.offsets)) * some.weights, minlength=len(related))
        return related.astype(np.int64), np.asarray(scores, np.float64)
