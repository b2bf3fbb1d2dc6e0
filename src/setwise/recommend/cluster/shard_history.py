"""What a shard knows of its items for histories, and the scores that a history adds to the items of all shards.

A shard keeps the columns of its items (``history_columns.py``), their neighbours as numbers of the whole cluster, and
their scores for new users. The front fetches the neighbours of the items of a history, adds up their scores as a single
index does, and sends the sums with the request. Scores for new users, which all items have, stay at the shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from setwise._types import Array, Floats, Floats32, Ints, Mask, Rows
from setwise.model.added_scores import AddedScores
from setwise.model.encoder import Encoder
from setwise.model.neighbours import Neighbours
from setwise.recommend.cluster.history_columns import history_columns
from setwise.storage import artifact


class HistoryScores(NamedTuple):
    """Added scores of a history.

    rows      numbers of items, ascending
    values    their scores; others have 0
    new_user  smallest and largest score for new users, where the shards add those; else None
    """

    rows: Ints
    values: Floats
    new_user: tuple[float, float] | None = None

    def of(self, rows: Ints) -> Floats:
        """The scores of these rows, where those for new users are not added."""
        return AddedScores(0, self.values, self.rows).of(rows)

    @property
    def extremes(self) -> list[float]:
        """Scores between which all others are."""
        if self.new_user is not None:
            return [*self.new_user]
        return [float(self.values.min(initial=0.0)), float(self.values.max(initial=0.0))]


class SeenItems(NamedTuple):
    """Items of a history that a shard has.

    places      in the history
    known       whether the encoder knows them
    vectors     the columns of those that it knows
    neighbours  of the same, for each matrix of neighbours
    """

    places: Ints
    known: Mask
    vectors: Floats32
    neighbours: tuple[Neighbours, ...]


@dataclass(frozen=True, eq=False)
class ShardHistory:
    """The first items of a shard, those that the encoder knows; ``lowest`` is what later ones have for new users."""

    vectors: Floats32
    neighbours: tuple[Neighbours, ...] = ()
    new_user: Array | None = None
    lowest: float = 0.0

    @classmethod
    def of(cls, encoder: Encoder, rows: Rows) -> ShardHistory:
        """These rows of an encoder."""
        terms = encoder.base_terms
        neighbours = tuple(matrix.of_rows(rows) for matrix in terms.neighbours)
        if terms.new_user is None:
            return cls(history_columns(encoder, rows), neighbours)
        lowest = float(terms.new_user.min(initial=0.0))
        return cls(history_columns(encoder, rows), neighbours, terms.new_user[rows], lowest)

    def to_arrays(self) -> dict[str, Array]:
        """The arrays by name, to be saved."""
        arrays: dict[str, Array] = {"items": self.vectors}
        for number, matrix in enumerate(self.neighbours):
            parts = {"offsets": matrix.offsets, "items": matrix.items, "weights": matrix.weights}
            arrays |= {f"neighbours.{number}.{name}": part for name, part in parts.items()}
        if self.new_user is not None:
            arrays |= {"new_user": self.new_user, "lowest": np.array([self.lowest])}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> ShardHistory:
        """The inverse of ``to_arrays``."""
        neighbours = list[Neighbours]()
        while part := artifact.under(f"neighbours.{len(neighbours)}.", arrays):
            neighbours.append(Neighbours(part["offsets"], part["items"], part["weights"]))
        if "new_user" not in arrays:
            return cls(arrays["items"], tuple(neighbours))
        return cls(arrays["items"], tuple(neighbours), arrays["new_user"], float(arrays["lowest"][0]))

    def kept(self, mask: Mask) -> ShardHistory:
        """Of these items of the shard only."""
        rows = np.flatnonzero(mask[: len(self.vectors)])
        neighbours = tuple(matrix.of_rows(rows) for matrix in self.neighbours)
        new_user = None if self.new_user is None else self.new_user[rows]
        return ShardHistory(self.vectors[rows], neighbours, new_user, self.lowest)

    def seen(self, places: Ints, rows: Rows) -> SeenItems:
        """The items of these rows of the shard, which have these places in a history."""
        known = rows < len(self.vectors)
        seen = rows[known]
        return SeenItems(places, known, self.vectors[seen], tuple(matrix.of_rows(seen) for matrix in self.neighbours))

    def added(self, scores: HistoryScores, numbers: Ints) -> AddedScores:
        """The scores that a history adds to the items of the shard, whose ``numbers`` are ascending."""
        if scores.new_user is not None and self.new_user is not None:
            values = np.full(len(numbers), self.lowest)
            values[: len(self.new_user)] = self.new_user
            return AddedScores.dense(values)
        places = np.minimum(np.searchsorted(numbers, scores.rows), len(numbers) - 1)
        here = numbers[places] == scores.rows
        return AddedScores.sparse(len(numbers), places[here], scores.values[here])


def joined_neighbours(parts: Sequence[Neighbours]) -> Neighbours:
    """The rows of all ``parts``, one after the other."""
    lengths = np.concatenate([[0], *(np.diff(part.offsets) for part in parts)])
    items, weights = (np.concatenate([getattr(part, name) for part in parts]) for name in ("items", "weights"))
    return Neighbours(np.cumsum(lengths), items, weights, parts[0].decay, parts[0].power)
