"""ShardReader: what a host computes for the front, from the shard's files as of one version.

Every answer depends on the files and the arguments alone: any replica gives the same one, before and after a restart.
A mistake in the request is an answer too (``Refused``): another replica would find the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Array, Floats, Floats32, Ints, Mask, Rows
from setwise.errors import InvalidInput
from setwise.model.users import User
from setwise.recommend.cluster.files import VECTORS, Change, read_bounds, read_change
from setwise.recommend.cluster.packed import Packed, Records
from setwise.recommend.cluster.required import Needed, Needs, needed_here
from setwise.recommend.cluster.shard_cells import ShardCells, ShardItems, ShardScores, Wanted
from setwise.recommend.cluster.shard_measures import Anchor, Measured, measured_here, pairs_here
from setwise.recommend.independent import best_independent
from setwise.recommend.query import Query
from setwise.retrieval import Index
from setwise.retrieval.backends.protocol import Hits
from setwise.storage import artifact

OPEN = 8  # versions of shards that a host keeps; the one that was read longest ago is closed first


class Refused(NamedTuple):
    """The request is wrong, at every replica alike."""

    error: InvalidInput


class Filter(NamedTuple):
    """What a request says about single items: conditions, ids not to show, ids that must be shown."""

    where: Mapping[str, Any] | None
    exclude: Sequence[Any]
    include: Sequence[Any]


class Found(NamedTuple):
    """The answer to a search; rows are numbers of the whole cluster.

    admitted  eligible items of this shard
    few       their rows where they are at most as many as can be ranked; else None
    passes    the best rows of every cell with their scores, for each pass
    pins      rows of the filter's ``include`` that are here and eligible
    unknown   ids of ``exclude``, and of ``include``, that are not here
    needed    the best items of required groups, and the best alone, where the request needs some
    measured  scores of the best rows; None if there are none
    """

    admitted: int
    few: Ints | None
    passes: list[Hits]
    pins: Ints
    unknown: tuple[list[Any], list[Any]]
    needed: Needed | None = None
    measured: Measured | None = None


class SeenItems(NamedTuple):
    """Items of a history that this shard has: their places in it, vectors (NaN: none), and whether they are current."""

    places: Ints
    vectors: Floats32
    current: Mask


@dataclass(frozen=True, eq=False)
class ShardState:
    """A shard as of one version; ``rows`` (n,) are the numbers of its items, ascending."""

    index: Index
    rows: Ints
    vectors: Floats32 | None  # of the first items, for histories; items that were added have none
    cells: ShardCells | None = None  # of bounds

    @classmethod
    def opened(cls, folder: Path, first: int) -> ShardState:
        """The shard as it was written."""
        index = Index.load(folder / "index")
        vectors = None
        if (folder / "encoder").exists():
            vectors = artifact.read(folder / "encoder", VECTORS).arrays["items"]
        return cls(index, first + np.arange(len(index.catalog)), vectors, read_bounds(folder))

    def changed(self, change: Change) -> ShardState:
        """The shard after one change."""
        items, rows, cells = change.items, change.rows, self.cells
        index, before = self.index.snapshot(), len(self.index.catalog)
        if items is None:
            index.remove(index.catalog.ids[np.searchsorted(self.rows, rows)])
            return ShardState(index, self.rows, self.vectors, cells)
        kept = np.ones(before, bool)
        kept[index.removed] = False
        index.add(items)
        whole = len(index.catalog) == before + len(items)
        if cells is not None and change.cells is not None:
            cells = (cells if whole else cells.kept(kept)).joined(change.cells.cell_of, change.cells.reach)
        if whole:
            return ShardState(index, np.concatenate([self.rows, rows]), self.vectors, cells)
        # A removed id has come back, for which the index has dropped its removed rows.
        vectors = None if self.vectors is None else self.vectors[kept[: len(self.vectors)]]
        return ShardState(index, np.concatenate([self.rows[kept], rows]), vectors, cells)

    def mask(self, asked: Filter) -> Mask:
        """(n,) whether each item is eligible."""
        catalog = self.index.catalog
        mask = catalog.attributes.matching(asked.where) if asked.where else np.ones(len(catalog), bool)
        mask = mask.copy()
        mask[self.index.removed] = False
        mask[catalog.ids.known_rows(list(asked.exclude))[0]] = False
        return mask

    # --- answers ---

    def search(
        self,
        asked: Filter,
        user: User | None = None,
        vectors: Floats32 | None = None,
        counts: Sequence[tuple[int, int]] = (),
        most: int = 0,
        needs: Needs | None = None,
    ) -> Found:
        """The best rows of every cell, and the reserve: (best, reserve) by the first of ``vectors``, and by the others.

        Without vectors, only what the filter leaves.
        """
        ids, mask = self.index.catalog.ids, self.mask(asked)
        count = int(np.count_nonzero(mask))
        unknown = ids.known_rows(list(asked.exclude))[1], ids.known_rows(list(asked.include))[1]
        pins = ids.known_rows(list(asked.include))[0]
        few = self.rows[mask] if count <= most else None
        parts = [slice(0, 1), slice(1, None)][: len(counts)]
        passes = [
            self.index.best_of_cells(vectors[part], sum(depth), mask)
            for part, depth in zip(parts, counts, strict=True)
            if count and vectors is not None
        ]
        needed = None
        if needs is not None:
            needed = needed_here(self.index.catalog, self.rows, np.flatnonzero(mask), needs)
        measured = None
        if user is not None and count:
            best = [one.rows[:, :, : depth[0]].reshape(-1) for one, depth in zip(passes, counts, strict=True)]
            at = np.unique(np.concatenate(best))
            measured = measured_here(self.index.catalog, self.rows, self.index.cell_of, user, at[at >= 0])
        numbered = [self._numbered(one) for one in passes]
        return Found(count, few, numbered, self.rows[pins[mask[pins]]], unknown, needed, measured)

    def _numbered(self, hits: Hits) -> Hits:
        return Hits(np.where(hits.rows >= 0, self.rows[hits.rows], -1), hits.scores)

    def vectors_of(self, rows: Ints) -> Packed:
        """The vectors of these rows."""
        return self.index.catalog.bare(self._at(rows)).packed()

    def bases(self, rows: Ints) -> Array:
        """The base vectors of these rows."""
        base = self.index.catalog.base
        assert base is not None
        return base[self._at(rows)]

    def pairs(self, rows: Ints, base: Floats, anchor: Anchor, user: User) -> Floats:
        """The values of the pairs of these rows with an anchor."""
        return pairs_here(self.index.catalog, user, self._at(rows), base, anchor)

    def records(self, rows: Ints) -> Records:
        """These rows with vectors, ids and attributes."""
        at, catalog = self._at(rows), self.index.catalog
        columns = {name: column[at] for name, column in catalog.attributes.items()}
        return Records(rows, catalog.bare(at).packed(), catalog.ids[at], columns)

    def independent(self, asked: Filter, user: User, k: int, limits: Mapping[str, Any]) -> Found:
        """The best k items where items do not interact: the best of all shards are among them."""
        found = self.search(asked)
        if not found.admitted:
            return found
        here = self.index.catalog.ids.known_rows(list(asked.exclude))[0]
        exclude = self.index.catalog.ids[here]
        query = Query.parse(self.index, user, k=k, where=asked.where, exclude=exclude, certify=False, **limits)
        return found._replace(few=self.rows[best_independent(query)])

    def bound_scores(self, asked: Filter, user: User, pad: Floats, padding: float) -> ShardScores:
        """The scores of all items, for a bound over all shards."""
        assert self.cells is not None
        catalog = self.index.catalog
        pins = catalog.ids.known_rows(list(asked.include))[0]
        mask = self.mask(asked)
        return self.cells.scored(catalog, user, pad, padding, mask, pins[mask[pins]])

    def bound_items(self, wanted: Wanted) -> ShardItems:
        """The vectors of items that the search for a bound opens."""
        assert self.cells is not None
        return self.cells.items(self.index.catalog, self.rows, wanted)

    def seen(self, history: Sequence[Any]) -> SeenItems:
        """The items of a history that are here."""
        ids = self.index.catalog.ids
        unknown = set(ids.known_rows(list(history))[1])
        places = np.array([place for place, one in enumerate(history) if one not in unknown], np.int64)
        at = ids.rows_of([history[place] for place in places])
        current = ~np.isin(at, self.index.removed)
        width = 0 if self.vectors is None else self.vectors.shape[1]
        found = np.full((len(at), width), np.nan, np.float32)
        if self.vectors is not None:
            has = at < len(self.vectors)
            found[has] = self.vectors[at[has]]
        return SeenItems(places, found, current)

    def located(self, ids: Sequence[Any]) -> tuple[Ints, list[Any]]:
        """The rows of those of these ids that are here and were not removed, and the ids themselves."""
        catalog = self.index.catalog
        at = catalog.ids.known_rows(list(ids))[0]
        at = at[~np.isin(at, self.index.removed)]
        return self.rows[at], catalog.ids[at].tolist()

    def _at(self, rows: Ints) -> Rows:
        return np.searchsorted(self.rows, rows)


ANSWERS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        ShardState.search,
        ShardState.vectors_of,
        ShardState.bases,
        ShardState.pairs,
        ShardState.records,
        ShardState.independent,
        ShardState.bound_scores,
        ShardState.bound_items,
        ShardState.seen,
        ShardState.located,
    )
}


class ShardReader:
    """Opens shards when they are first asked for, and keeps the most recent ones. Many threads may call it."""

    def __init__(self, most: int = OPEN) -> None:
        self._most, self._lock = most, threading.Lock()
        self._open: OrderedDict[tuple[str, int], ShardState] = OrderedDict()

    def answer(self, what: str, folder: str, first: int, version: int, *arguments: Any) -> Any:
        """One of ``ANSWERS``, from the shard in ``folder`` with its first ``version`` changes."""
        state = self._state(folder, first, version)
        try:
            return ANSWERS[what](state, *arguments)
        except InvalidInput as error:
            return Refused(error)

    def _state(self, folder: str, first: int, version: int) -> ShardState:
        with self._lock:  # also while one is opened: others would open the same
            key = folder, version
            if key not in self._open:
                self._open[key] = self._read(folder, first, version)
                while len(self._open) > self._most:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return self._open[key]

    def _read(self, folder: str, first: int, version: int) -> ShardState:
        """The latest state that is open and not later, with the changes since then."""
        known = max((at for where, at in self._open if where == folder and at < version), default=None)
        state = ShardState.opened(Path(folder), first) if known is None else self._open[folder, known]
        for number in range(known or 0, version):
            state = state.changed(read_change(Path(folder), number + 1))
        return state
