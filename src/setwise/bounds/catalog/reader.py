"""CatalogReader: how a search over a whole catalogue reads it. Items are here, or at shards (``recommend/cluster``).

A search needs little of most items: the bounds of their cell, and their scores for the user. It needs the vectors of
items of cells that it opens, and of items that it lists. So the items that are elsewhere are scored there, in one pass,
and their vectors are fetched cell by cell when the search asks for them. Here they are arrays, and nothing is fetched.

**Numbers.** The *place* of an item is its number in the order of the cells, by row within a cell: the items of cell c
have the places start[c] to start[c + 1] − 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Ints, Rows
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.group_bounds import Groups, RewardArrays
from setwise.bounds.catalog.score_order import Scored
from setwise.bounds.catalog.user_scores import scores
from setwise.model import objective
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility
from setwise.model.users import User


class GroupLimit(NamedTuple):
    """A set has at most ``most`` items of each label.

    ``attribute`` says where labels come from: they are those of its values. With ``values``, an item that has one of
    these values is not counted, and all others are of one label.
    """

    labels: NDArray[np.int64]  # (n,) by row of the catalogue; −1 for items that are not counted
    most: int
    attribute: str | None = None
    values: tuple[Any, ...] | None = None


class Vectors(NamedTuple):
    """Vectors of L items as columns, and their labels, if a limit has some."""

    query: Array  # (H, d, L)
    key: Array  # (H, d, L)
    label: Array  # (L,), or (0,)


class CatalogReader(Protocol):
    """A catalogue in cells, for one request."""

    @property
    def catalog(self) -> Catalog:
        """The catalogue, or what has its sizes, rewards and sink."""
        ...

    @property
    def norms(self) -> Floats:
        """(4, H), as ``CellBounds.norms``."""
        ...

    @property
    def table(self) -> RewardArrays:
        """The rewards."""
        ...

    @property
    def cell_groups(self) -> Groups:
        """The cells."""
        ...

    @property
    def n_cells(self) -> int:
        """The number of cells, C."""
        ...

    @property
    def start(self) -> Ints:
        """(C + 1,) the places of the items of each cell; known once the items are scored."""
        ...

    def added(self, user: User) -> AddedScores | None:
        """The added scores of a request for this user: of all items, in any order."""
        ...

    def scored(self, user: User, eligible: Eligibility | None) -> Scored:
        """The scores of all items by place, raised as ``user_scores`` does."""
        ...

    def places(self, rows: Rows) -> Ints:
        """The places of these rows."""
        ...

    def labels(self, limit: GroupLimit | None) -> Array:
        """(n,) labels by place, those of items at hand at least; (0,) without a limit."""
        ...

    def items(self) -> tuple[Groups, Array]:
        """The items at hand as columns, and where each cell begins among them: (C,), −1 if it is not at hand.

        (0,) if all are, in the order of their places.
        """
        ...

    def fetch(self, cells: Ints) -> None:
        """Bring the items of these cells; ``items`` has them from now on."""
        ...

    def vectors(self, places: Ints) -> Vectors:
        """The vectors of these items."""
        ...

    def reward_classes(self) -> Array:
        """(n,) the reward class of every item, by place."""
        ...

    def valued(self, user: User, places: Ints) -> tuple[Rows, float]:
        """The rows of a set in ascending order, and its value by the reference objective."""
        ...


class LocalReader:
    """A catalogue whose arrays are here."""

    def __init__(self, cells: CellBounds) -> None:
        self._cells = cells
        self.catalog, self.norms, self.table = cells.catalog, cells.norms, cells.table
        self.cell_groups, self.n_cells, self.start = cells.cell_groups, cells.n_cells, cells.start
        self._label: Array = np.empty(0, np.int64)

    def added(self, user: User) -> AddedScores | None:
        """The added scores of this user."""
        return user.scores

    def scored(self, user: User, eligible: Eligibility | None) -> Scored:
        """One pass over the values."""
        return scores(self._cells, [user], [eligible])[0]

    def places(self, rows: Rows) -> Ints:
        """The places of these rows."""
        return self._cells.place[rows]

    def labels(self, limit: GroupLimit | None) -> Array:
        """All labels."""
        if limit is not None:
            self._label = np.ascontiguousarray(limit.labels[self._cells.rows], np.int64)
        return self._label

    def items(self) -> tuple[Groups, Array]:
        """All items."""
        return self._cells.item_groups, np.empty(0, np.int64)

    def fetch(self, cells: Ints) -> None:
        """All items are here."""

    def vectors(self, places: Ints) -> Vectors:
        """The vectors of these items."""
        groups, label = self._cells.item_groups, self._label
        return Vectors(groups.query[:, :, places], groups.key[:, :, places], label[places] if len(label) else label)

    def reward_classes(self) -> Array:
        """Of all items."""
        return self._cells.item_groups.reward_class

    def valued(self, user: User, places: Ints) -> tuple[Rows, float]:
        """The rows of a set, and its value."""
        rows = np.sort(self._cells.rows[places])
        return rows, objective.set_value(self.catalog, user, rows)
