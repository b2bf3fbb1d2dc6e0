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
from typing import Any, NamedTuple, cast

import numpy as np

from setwise._types import Array, Floats, Floats32, Ints, Mask, Rows
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.model.added_scores import AddedScores
from setwise.model.users import User
from setwise.recommend.caller_scores import CallerScores
from setwise.recommend.cluster.files import (
    VECTORS,
    Change,
    Version,
    read_bounds,
    read_change,
    shard_digest,
    version_reached,
)
from setwise.recommend.cluster.packed import Packed, Records
from setwise.recommend.cluster.required import Needed, Needs, RequiredGroup, needed_here, varied_here
from setwise.recommend.cluster.shard_cells import ShardCells, ShardItems, ShardScores, Wanted
from setwise.recommend.cluster.shard_history import HistoryScores, SeenItems, ShardHistory
from setwise.recommend.cluster.shard_items import ITEM_ANSWERS
from setwise.recommend.cluster.shard_measures import Anchor, Measured, Paired, measured_here, pairs_here
from setwise.recommend.independent import best_independent
from setwise.recommend.lower_limits import Variety
from setwise.recommend.query import Query
from setwise.retrieval import Index
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.scored_search import best_by_total
from setwise.storage import artifact

OPEN = 8  # versions of shards that a host keeps; the one that was read longest ago is closed first


class Refused(NamedTuple):
    """The request is wrong, at every replica alike."""

    error: InvalidInput


class Filter(NamedTuple):
    """What a request says about single items: conditions, ids not to show, ids that must be shown, and added scores.

    Items that ``scores`` does not name have the score ``floor``; they are not eligible if that is None. The scores of
    a ``history`` are added to these.
    """

    where: Mapping[str, Any] | None
    exclude: Sequence[Any]
    include: Sequence[Any]
    scores: Mapping[Any, float] | None = None
    floor: float | None = None
    history: HistoryScores | None = None

    @property
    def adds_scores(self) -> bool:
        """Whether items have added scores."""
        return self.scores is not None or self.history is not None


class Found(NamedTuple):
    """The answer to a search; rows are numbers of the whole cluster.

    admitted  eligible items of this shard
    few       their rows where they are at most as many as can be ranked; else None
    passes    the best rows of every cell with their scores, for each pass
    pins      rows of the filter's ``include`` that are here and eligible
    unknown   ids of ``exclude``, of ``include`` and of ``scores`` that are not here
    needed    the best items of required groups, and the best alone, where the request needs some
    measured  scores of the best rows; None if there are none
    """

    admitted: int
    few: Ints | None
    passes: list[Hits]
    pins: Ints
    unknown: tuple[list[Any], list[Any], list[Any]]
    needed: Needed | None = None
    measured: Measured | None = None


@dataclass(frozen=True, eq=False)
class ShardState:
    """A shard as of one version; ``rows`` (n,) are the numbers of its items, ascending."""

    index: Index
    rows: Ints
    history: ShardHistory | None  # None: without an encoder
    cells: ShardCells | None = None  # of bounds

    @classmethod
    def opened(cls, folder: Path, first: int) -> ShardState:
        """The shard as it was written."""
        index = Index.load(folder / "index")
        history = None
        if (folder / "encoder").exists():
            history = ShardHistory.from_arrays(artifact.read(folder / "encoder", VECTORS).arrays)
        return cls(index, first + np.arange(len(index.catalog)), history, read_bounds(folder))

    def changed(self, change: Change) -> ShardState:
        """The shard after one change."""
        items, rows, cells = change.items, change.rows, self.cells
        index, before = self.index.snapshot(), len(self.index.catalog)
        if items is None:
            index.remove(index.catalog.ids[np.searchsorted(self.rows, rows)])
            return ShardState(index, self.rows, self.history, cells)
        kept = np.ones(before, bool)
        kept[index.removed] = False
        index.add(items)
        whole = len(index.catalog) == before + len(items)
        if cells is not None and change.cells is not None:
            cells = (cells if whole else cells.kept(kept)).joined(change.cells.cell_of, change.cells.reach)
        if whole:
            return ShardState(index, np.concatenate([self.rows, rows]), self.history, cells)
        # A removed id has come back, for which the index has dropped its removed rows.
        history = None if self.history is None else self.history.kept(kept)
        return ShardState(index, np.concatenate([self.rows[kept], rows]), history, cells)

    def mask(self, asked: Filter) -> Mask | None:
        """(n,) whether each item is eligible; None: all are. A search without a mask is quicker."""
        catalog = self.index.catalog
        if not (asked.where or len(asked.exclude) or len(self.index.removed) or asked.scores is not None):
            return None
        mask = catalog.attributes.matching(asked.where).copy() if asked.where else np.ones(len(catalog), bool)
        mask[self.index.removed] = False
        mask[self._known(asked.exclude)[0]] = False
        if asked.scores is not None and asked.floor is None:
            named = np.zeros(len(mask), bool)
            named[catalog.ids.known_rows(list(asked.scores))[0]] = True
            mask &= named
        return mask

    def scored(self, asked: Filter, user: User) -> User:
        """The user with the added scores of the request, of the items that are here."""
        of_history = self._of_history(asked)
        if asked.scores is None:
            return user if of_history is None else user.with_scores(of_history)
        catalog = self.index.catalog
        places = catalog.ids.places_of(list(asked.scores))
        values, known = np.array(list(asked.scores.values()), np.float64), places >= 0
        floor = 0.0 if asked.floor is None else asked.floor
        added = AddedScores.sparse(len(catalog), places[known], values[known], floor)
        return user.with_scores(CallerScores(added, added.rows if asked.floor is None else None).combined(of_history))

    def _of_history(self, asked: Filter) -> AddedScores | None:
        """The scores that the history adds to the items that are here."""
        if asked.history is None or self.history is None:
            return None
        return self.history.added(asked.history, self.rows)

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
        mask = self.mask(asked)
        count = len(self.rows) if mask is None else int(np.count_nonzero(mask))
        named = asked.exclude, asked.include, () if asked.scores is None else tuple(asked.scores)
        without, within, unscored = (self._known(ids)[1] for ids in named)
        scored_user = None if user is None else self.scored(asked, user)
        pins = self._known(asked.include)[0]
        pins = pins if mask is None else pins[mask[pins]]
        few = (self.rows if mask is None else self.rows[mask]) if count <= most else None
        parts = [slice(0, 1), slice(1, None)][: len(counts)]
        passes = [
            self._best(vectors[part], sum(depth), mask, scored_user if part.start == 0 else None)
            for part, depth in zip(parts, counts, strict=True)
            if count and vectors is not None
        ]
        needed = None
        if needs is not None:
            needs = needs._replace(user=self.scored(asked, needs.user))
            eligible = np.arange(len(self.rows)) if mask is None else np.flatnonzero(mask)
            needed = needed_here(self.index.catalog, self.rows, eligible, needs)
        measured = None
        if scored_user is not None and count:
            best = [hits.rows[:, :, : depth[0]] for hits, depth in zip(passes, counts, strict=True)]
            measured = measured_here(self.index.catalog, self.rows, scored_user, best)
        numbered = [self._numbered(hits) for hits in passes]
        unknown = without, within, unscored
        return Found(count, few, numbered, self.rows[pins], unknown, needed, measured)

    def _known(self, ids: Sequence[Any]) -> tuple[Rows, list[Any]]:
        """The rows of those of these ids that are here, and the others; mostly there are none to look up."""
        return self.index.catalog.ids.known_rows(list(ids)) if len(ids) else (np.empty(0, np.intp), [])

    def _best(self, vectors: Floats32, count: int, mask: Mask | None, user: User | None) -> Hits:
        """The best rows of every cell, by total score where the user has added scores."""
        if user is None or user.scores is None:
            return self.index.best_of_cells(vectors, count, mask)
        state = self.index.state
        depth = min(count, state.largest_cell)
        rows, totals = best_by_total(state.catalog, state.cells, user, user.scores, depth, mask)
        return Hits(rows[None], cast(Any, totals[None]))  # in double precision, as they are merged

    def _numbered(self, hits: Hits) -> Hits:
        """Rows as numbers of the whole cluster, in 32 bits where they fit: most of an answer are rows."""
        kind = np.int32 if self.rows[-1] <= np.iinfo(np.int32).max else np.int64
        return Hits(np.where(hits.rows >= 0, self.rows[hits.rows], -1).astype(kind), hits.scores)

    def vectors_of(self, rows: Ints) -> Packed:
        """The vectors of these rows."""
        return self.index.catalog.bare(self._at(rows)).packed()

    def bases(self, rows: Ints) -> Array:
        """The base vectors of these rows."""
        base = self.index.catalog.base
        assert base is not None
        return base[self._at(rows)]

    def added(self, rows: Ints, asked: Filter, user: User) -> Floats:
        """The added scores of these rows."""
        scores = self.scored(asked, user).scores
        assert scores is not None
        return scores.of(self._at(rows))

    def pairs(self, rows: Ints, base: Floats | None, anchor: Anchor, user: User) -> Floats:
        """The values of the pairs of these rows with an anchor."""
        return pairs_here(self.index.catalog, user, self._at(rows), base, anchor)

    def paired(
        self, rows: Ints, base: Floats | None, sure: Ints, anchor: Anchor, user: User, most: int, fetched: int
    ) -> Paired:
        """The best ``most`` + 1 of the pairs of these rows with an anchor.

        The first ``fetched`` of them come as records, and so do the rows ``sure``.
        """
        values = self.pairs(rows, base, anchor, user)
        order = np.argsort(-values, kind="stable")[: most + 1]
        best = rows[order]
        return Paired(best, values[order], len(rows), self.records(np.union1d(sure, best[:fetched])))

    def records(self, rows: Ints) -> Records:
        """These rows with vectors, ids and attributes."""
        at, catalog = self._at(rows), self.index.catalog
        columns = {name: column[at] for name, column in catalog.attributes.items()}
        return Records(rows, catalog.bare(at).packed(), catalog.ids[at], columns)

    def varied(self, asked: Filter, user: User, groups: list[RequiredGroup], variety: Variety) -> Records:
        """Items of other values, where no set of the candidates keeps all limits."""
        mask = self.mask(asked)
        eligible = np.arange(len(self.rows)) if mask is None else np.flatnonzero(mask)
        scored_user = self.scored(asked, user)
        return self.records(varied_here(self.index.catalog, self.rows, eligible, scored_user, groups, variety))

    def independent(self, asked: Filter, user: User, k: int, limits: Mapping[str, Any]) -> Found:
        """The best k items where items do not interact: the best of all shards are among them."""
        answer = self.search(asked)
        if not answer.admitted:
            return answer
        exclude = self.index.catalog.ids[self._known(asked.exclude)[0]]
        if asked.scores is not None:
            known = set(self.index.catalog.ids.known_rows(list(asked.scores))[1])
            here = {id_: score for id_, score in asked.scores.items() if id_ not in known}
            limits = {**limits, "scores": here, "scores_floor": asked.floor}
        user = user.with_scores(self._of_history(asked))
        query = Query.parse(self.index, user, k=k, where=asked.where, exclude=exclude, certify=False, **limits)
        return answer._replace(few=self.rows[best_independent(query)])

    def bound_scores(self, asked: Filter, user: User, pad: Floats, padding: float) -> ShardScores:
        """The scores of all items, for a bound over all shards."""
        assert self.cells is not None
        catalog = self.index.catalog
        pins = self._known(asked.include)[0]
        mask = self.mask(asked)
        mask = np.ones(len(catalog), bool) if mask is None else mask
        return self.cells.scored(catalog, self.scored(asked, user), pad, padding, mask, pins[mask[pins]])

    def bound_items(self, wanted: Wanted) -> ShardItems:
        """The vectors of items that the search for a bound opens."""
        assert self.cells is not None
        return self.cells.items(self.index.catalog, self.rows, wanted)

    def seen(self, history: Sequence[Any]) -> SeenItems:
        """The items of a history that are here and were not removed."""
        at, others = self.index.catalog.ids.known_rows(list(history), self.index.removed)
        unknown = set(others)
        places = np.array([place for place, id_ in enumerate(history) if id_ not in unknown], np.int64)
        assert self.history is not None  # the front refuses histories otherwise
        return self.history.seen(places, at)

    def new_user_scores(self, asked: Filter, rows: Ints) -> Floats:
        """The scores for new users of these rows, NaN for those that are not here."""
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        scores = self._of_history(asked)
        assert scores is not None
        return np.where(self.rows[places] == rows, scores.of(places), np.nan)

    def located(self, ids: Sequence[Any]) -> tuple[Ints, list[Any]]:
        """The rows of those of these ids that are here and were not removed, and the ids themselves."""
        catalog = self.index.catalog
        at = catalog.ids.known_rows(list(ids), self.index.removed)[0]
        return self.rows[at], catalog.ids[at].tolist()

    def _at(self, rows: Ints) -> Rows:
        return np.searchsorted(self.rows, rows)


ANSWERS: dict[str, Callable[..., Any]] = {
    method.__name__: method
    for method in (
        ShardState.search,
        ShardState.vectors_of,
        ShardState.bases,
        ShardState.added,
        ShardState.pairs,
        ShardState.paired,
        ShardState.records,
        ShardState.varied,
        ShardState.independent,
        ShardState.bound_scores,
        ShardState.bound_items,
        ShardState.seen,
        ShardState.new_user_scores,
        ShardState.located,
    )
} | ITEM_ANSWERS


class ShardReader:
    """Opens shards when they are first asked for, and keeps the most recent ones. Many threads may call it."""

    def __init__(self, most: int = OPEN) -> None:
        self._most, self._lock = most, threading.Lock()
        self._open: OrderedDict[tuple[str, Version], ShardState] = OrderedDict()

    def answer(self, what: str, folder: str, first: int, version: Version, *arguments: Any) -> Any:
        """One of ``ANSWERS``, from the shard in ``folder`` with the changes of ``version``."""
        state = self._state(folder, first, version)
        try:
            return ANSWERS[what](state, *arguments)
        except InvalidInput as error:
            return Refused(error)

    def _state(self, folder: str, first: int, version: Version) -> ShardState:
        with self._lock:  # also while one is opened: others would open the same
            key = folder, version
            if key not in self._open:
                self._open[key] = self._read(folder, first, version)
                while len(self._open) > self._most:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return self._open[key]

    def _read(self, folder: str, first: int, version: Version) -> ShardState:
        """The latest state that is open and from which the files lead to this version, with the changes since then."""
        path = Path(folder)
        known = sorted(
            (at for where, at in self._open if where == folder and at.changes < version.changes), reverse=True
        )
        before = next((at for at in known if version_reached(path, at, version.changes) == version), None)
        if before is not None:
            state = self._open[folder, before]
        else:
            before = Version(0, version.digest and shard_digest(path))
            if version_reached(path, before, version.changes) != version:
                reason = "it is not the shard that the cluster was split into, or its changes are others"
                todo = "reload the front if the items were split again; else split them again"
                raise DamagedArtifact(path, reason, todo)
            state = ShardState.opened(path, first)
        for number in range(before.changes, version.changes):
            state = state.changed(read_change(path, number + 1))
        return state
