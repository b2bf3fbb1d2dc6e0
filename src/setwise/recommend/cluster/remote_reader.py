"""RemoteReader: how a search for a bound reads items that are in shards (``bounds/catalog/reader.py``).

The score pass is made at the shards: their answers are the scores of all items, one number for each head and item, and
the front orders them by cell. Vectors come later, of the cells that the search opens and of the items that it lists,
many at a time, and are kept for the request.

**Equality.** An item has the place that it has in a single index: cells are the same, and within a cell the shards
follow each other in the order of rows. So the search takes the same steps, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from setwise._types import Array, Floats32, Ints, Rows
from setwise.bounds.catalog.group_bounds import Groups, RewardArrays
from setwise.bounds.catalog.reader import GroupLimit, Vectors
from setwise.bounds.catalog.score_order import Scored, lead_scores
from setwise.bounds.catalog.user_scores import rounding_pads
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility
from setwise.model.users import User
from setwise.recommend.cluster.calls import Shards
from setwise.recommend.cluster.front_cells import FrontCells
from setwise.recommend.cluster.shard_cells import ShardItems, ShardScores, Wanted
from setwise.recommend.cluster.shard_reader import Filter
from setwise.recommend.cluster.sizes import Sizes

NONE: Ints = np.empty(0, np.int64)
FIRST = 2048  # columns of the store at first

Value = Callable[[dict[int, Ints]], tuple[Rows, float]]


class RemoteReader:
    """The items of all shards, for one request.

    ``value`` is called with the rows of a set at each shard, and returns them as rows of the front's own catalogue,
    ascending in the cluster's order, and the value of the set.
    """

    def __init__(
        self,
        cells: FrontCells,
        groups: tuple[Groups, RewardArrays],
        sizes: Sizes,
        shards: Shards,
        asked: Filter,
        user: User,
        value: Value,
    ) -> None:
        self._cells, self._shards, self._asked, self._own, self._value = cells, shards, asked, user, value
        self.catalog, self.norms, self.n_cells = cast(Catalog, sizes), cells.norms, cells.n_cells
        self.cell_groups, self.table = groups
        self.start: Ints = NONE
        self._pins: Ints = NONE
        self._counts = self._starts = np.empty((0, 0), np.int64)
        self._limit: GroupLimit | None = None
        self._label: Array = NONE
        self._codes: dict[Any, int] = {}
        self._store = _Store(sizes.pattern.query, FIRST)
        self._column = np.full(self.n_cells, -1, np.int64)
        self._single: dict[int, int] = {}  # columns of single items by place

    # --- scores ---

    def added(self, user: User) -> AddedScores | None:
        """Scores that include the smallest and the largest of the request's: no item has one beyond these."""
        scores, floor, history = self._asked.scores, self._asked.floor, self._asked.history
        if scores is None:
            return None if history is None else AddedScores.dense(history.extremes)
        ends = [*scores.values(), *([] if floor is None else [floor])]
        if history is None:
            return AddedScores.dense(ends)
        return AddedScores.dense([end(ends) + end(history.extremes) for end in (min, max)])

    def scored(self, user: User, eligible: Eligibility | None) -> Scored:
        """The scores of all items, made at the shards."""
        pad, padding = rounding_pads(self, user)
        shards = range(len(self._shards))
        answers: dict[int, ShardScores] = self._shards.ask(
            "bound_scores", dict.fromkeys(shards, (self._asked, self._own, pad, padding))
        )
        parts = [answers[shard] for shard in shards]
        self._counts = np.stack([np.pad(part.counts, (0, self.n_cells - len(part.counts))) for part in parts])
        self._starts = np.cumsum(np.pad(self._counts, ((0, 0), (1, 0))), axis=1)
        self.start = np.concatenate([[0], np.cumsum(self._counts.sum(axis=0))])
        n, heads = int(self.start[-1]), len(pad)
        score, base = np.empty((heads, n)), np.full(n, padding)
        pins: list[Ints] = []
        for shard, part in enumerate(parts):
            places = self._places(shard)
            score[:, places] = part.score
            if part.base is not None:
                base[places] = part.base
            pins.append(places[part.pins])
        self._pins = np.sort(np.concatenate(pins))
        away = np.isneginf(score[0])
        score[:, away] = 0.0
        total = score.sum(axis=0) if heads > 1 else score[0].copy()
        total[away] = -np.inf
        if heads > 1:
            lead_scores(score, total)
        return Scored(score, base, total)

    def _places(self, shard: int) -> Ints:
        """The place of each of the shard's items, which are in the order of its cells."""
        counts, before = self._counts[shard], self._counts[:shard].sum(axis=0)
        shift = self.start[:-1] + before - self._starts[shard, :-1]
        return np.repeat(shift, counts) + np.arange(counts.sum())

    def places(self, rows: Rows) -> Ints:
        """The places of the items that must be shown, which the shards have found."""
        return self._pins

    def labels(self, limit: GroupLimit | None) -> Array:
        """Labels by place; those of an item are there when it has been fetched."""
        if limit is not None and self._limit is None:
            self._limit = limit
            self._label = np.full(int(self.start[-1]), -1, np.int64)
        return self._label

    def reward_classes(self) -> Array:
        """The items of a cell have one reward class."""
        return np.repeat(self.cell_groups.reward_class, np.diff(self.start))

    # --- vectors ---

    def items(self) -> tuple[Groups, Array]:
        """The items of the cells that were fetched."""
        return self._store.groups, self._column

    def fetch(self, cells: Ints) -> None:
        """Bring the items of these cells from all shards that have some."""
        away = np.unique(cells[self._column[cells] < 0])
        counts = self._counts[:, away]
        cells_of = [away[row > 0] for row in counts]
        answers = self._ask({shard: Wanted(opened, NONE) for shard, opened in enumerate(cells_of) if len(opened)})
        sizes = counts.sum(axis=0)
        first = self._store.end + np.cumsum(sizes) - sizes
        before = np.cumsum(counts, axis=0) - counts
        self._store.grow(int(sizes.sum()))
        self._column[away] = first
        for shard, items in answers.items():
            within = np.arange(len(items.rows)) - np.repeat(np.cumsum(counts[shard]) - counts[shard], counts[shard])
            columns = np.repeat(first + before[shard], counts[shard]) + within
            places = np.repeat(self.start[away] + before[shard], counts[shard]) + within
            self._put(shard, columns, places, np.repeat(away, counts[shard]), items)

    def vectors(self, places: Ints) -> Vectors:
        """The vectors of these items; those that are not at hand are brought one by one, in one call of each shard."""
        cells = np.searchsorted(self.start, places, side="right") - 1
        columns = np.where(self._column[cells] >= 0, self._column[cells] + places - self.start[cells], -1)
        for at in np.flatnonzero(columns < 0).tolist():
            columns[at] = self._single.get(int(places[at]), -1)
        away = columns < 0
        if away.any():
            columns[away] = self._fetch_single(places[away], cells[away])
        groups, label = self._store.groups, self._label
        return Vectors(groups.query[:, :, columns], groups.key[:, :, columns], label[places] if len(label) else label)

    def _fetch_single(self, places: Ints, cells: Ints) -> Ints:
        """The columns of these items, after they were brought."""
        shards, own_places = self._own_places(places, cells)
        of_shard = {shard: np.flatnonzero(shards == shard) for shard in np.unique(shards).tolist()}
        answers = self._ask({shard: Wanted(NONE, own_places[at]) for shard, at in of_shard.items()})
        columns = self._store.end + np.arange(len(places))
        self._store.grow(len(places))
        for shard, items in answers.items():
            at = of_shard[shard]
            self._put(shard, columns[at], places[at], cells[at], items)
        self._single |= dict(zip(places.tolist(), columns.tolist(), strict=True))
        return columns

    def _own_places(self, places: Ints, cells: Ints) -> tuple[Ints, Ints]:
        """The shard of each item, and its place there."""
        offset = places - self.start[cells]
        until = np.cumsum(self._counts, axis=0)[:, cells]  # (S, m)
        shards = (until <= offset).sum(axis=0)
        before = until[shards, np.arange(len(cells))] - self._counts[shards, cells]
        return shards, self._starts[shards, cells] + offset - before

    def _ask(self, wanted: Mapping[int, Wanted]) -> dict[int, ShardItems]:
        limit = self._limit
        if limit is not None:
            of = limit.attribute, limit.values
            wanted = {shard: request._replace(attribute=of[0], values=of[1]) for shard, request in wanted.items()}
        return self._shards.ask("bound_items", {shard: (request,) for shard, request in wanted.items()})

    def _put(self, shard: int, columns: Ints, places: Ints, cells: Ints, items: ShardItems) -> None:
        """Keep items that were fetched."""
        reach = self._cells.raised(items.query, items.reach)
        self._store.put(columns, items, reach, self.cell_groups.reward_class[cells], shard)
        if items.values is not None:
            self._label[places] = [self._label_of(value) for value in items.values]

    def _label_of(self, value: Any) -> int:
        """The label of a value: see ``GroupLimit``."""
        if self._limit is not None and self._limit.values is not None:
            return int(value)
        return -1 if value is None else self._codes.setdefault(value, len(self._codes))

    def valued(self, user: User, places: Ints) -> tuple[Rows, float]:
        """A set as rows of the front's catalogue, and its value."""
        cells = np.searchsorted(self.start, places, side="right") - 1
        columns = np.where(self._column[cells] >= 0, self._column[cells] + places - self.start[cells], -1)
        for at in np.flatnonzero(columns < 0).tolist():
            columns[at] = self._single[int(places[at])]
        rows, shards = self._store.row[columns], self._store.shard[columns]
        return self._value({shard: np.sort(rows[shards == shard]) for shard in np.unique(shards).tolist()})


class _Store:
    """Columns of fetched items; there is room for more than there are."""

    def __init__(self, query: Array, room: int) -> None:
        _, heads, d = query.shape
        none = np.zeros((heads, 0))
        vectors = np.empty((2, heads, d, room), query.dtype)
        numbers = np.empty((heads, room), np.float32), np.zeros(room, np.int64)
        self.groups = Groups(vectors[0].copy(), vectors[1].copy(), none, none, none, none, *numbers)
        self.row, self.shard, self.end = np.empty(room, np.int64), np.empty(room, np.int64), 0

    def grow(self, more: int) -> None:
        """Make room for so many more columns, and count them."""
        end, room = self.end + more, len(self.row)
        if end > room:
            extra = max(end, 2 * room) - room
            widened = {
                name: _widened(getattr(self.groups, name), extra) for name in ("query", "key", "reach", "reward_class")
            }
            self.groups = self.groups._replace(**widened)
            self.row, self.shard = _widened(self.row, extra), _widened(self.shard, extra)
        self.end = end

    def put(self, columns: Ints, items: ShardItems, reach: Floats32, classes: Array, shard: int) -> None:
        """Write items to columns."""
        groups = self.groups
        groups.query[:, :, columns] = np.moveaxis(items.query, 0, -1)
        groups.key[:, :, columns] = np.moveaxis(items.key, 0, -1)
        groups.reach[:, columns], groups.reward_class[columns] = reach.T, classes
        self.row[columns], self.shard[columns] = items.rows, shard


def _widened(array: Array, extra: int) -> Array:
    """The array with so many more columns, whose content does not matter."""
    return np.concatenate([array, np.zeros((*array.shape[:-1], extra), array.dtype)], axis=-1)
