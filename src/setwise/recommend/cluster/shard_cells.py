"""What a shard knows of its items for bounds over all shards: the fine cell and the reach of each, by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Floats32, Ints, Mask, Rows
from setwise.bounds.catalog.user_scores import scores_by_place, self_terms
from setwise.model.attributes import Categorical
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.retrieval.backends.protocol import by_cell


class ShardScores(NamedTuple):
    """The scores of a shard's items in the order of its cells, by row within a cell.

    score   (H, n), raised; −∞ in the first head for items that are not eligible
    base    (n,) self terms, or None where all are the padding
    counts  (C,) the items of each cell; cells with higher numbers have none here
    pins    the places, in this order, of the items that must be shown
    """

    score: Floats
    base: Floats | None
    counts: Ints
    pins: Ints


class Wanted(NamedTuple):
    """Items of a shard: all of some cells, one cell after the other, then single ones by their places."""

    cells: Ints
    places: Ints
    attribute: str | None = None  # whose values are wanted too,
    values: tuple[Any, ...] | None = None  # or whether they are among these: 0, and −1 if they are


class ShardItems(NamedTuple):
    """Vectors of items, their reach, their rows, and the values of an attribute, if one was named."""

    query: Array  # (m, H, d)
    key: Array
    reach: Floats32  # (m, H)
    rows: Ints
    values: Sequence[Any] | None


@dataclass(frozen=True, eq=False)
class ShardCells:
    """The cell (n,) and the reach (n, H) of every item of a shard."""

    cell_of: NDArray[np.int32]
    reach: Floats32

    def joined(self, cell_of: NDArray[np.int32], reach: Floats32) -> ShardCells:
        """With items added."""
        return ShardCells(np.concatenate([self.cell_of, cell_of]), np.concatenate([self.reach, reach]))

    def kept(self, mask: Mask) -> ShardCells:
        """Of these items only."""
        return ShardCells(self.cell_of[mask], self.reach[mask])

    @cached_property
    def order(self) -> tuple[Ints, Ints, Ints]:
        """The rows by cell, where each cell starts among them, and the place of each row."""
        rows, start = by_cell(self.cell_of, int(self.cell_of.max(initial=0)) + 1)
        return rows, start, np.argsort(rows)

    def scored(self, catalog: Catalog, user: User, pad: Floats, padding: float, mask: Mask, pins: Rows) -> ShardScores:
        """The scores of all items for this user."""
        rows, start, place = self.order
        (score,), (total,) = scores_by_place(catalog, [user], [pad], mask[None], place)
        score[0, np.isneginf(total)] = -np.inf
        plain = catalog.base is None and user.scores is None
        base = None if plain else self_terms(catalog, user, padding, rows, place)
        return ShardScores(score, base, np.diff(start), place[pins])

    def items(self, catalog: Catalog, numbers: Ints, wanted: Wanted) -> ShardItems:
        """The items that are wanted; ``numbers`` (n,) are their rows in the cluster."""
        rows, start, _ = self.order
        parts = [rows[start[c] : start[c + 1]] for c in wanted.cells.tolist()]
        at = np.concatenate([*parts, rows[wanted.places]])
        values = None if wanted.attribute is None else _values(catalog, wanted.attribute, wanted.values, at)
        return ShardItems(catalog.query[at], catalog.key[at], self.reach[at], numbers[at], values)


def _values(catalog: Catalog, attribute: str, among: tuple[Any, ...] | None, rows: Rows) -> list[Any]:
    """The values of these rows, None where one is missing; or whether they are among some."""
    if among is not None:
        has = np.any([catalog.attributes.matching({attribute: value})[rows] for value in among], axis=0)
        return [-1 if member else 0 for member in has.tolist()]
    column = catalog.attributes[attribute]
    if isinstance(column, Categorical):
        return list(column[rows])
    return [None if cell != cell else cell for cell in column[rows].tolist()]
