"""Index: a catalogue cut into cells, ready to give any user the best few of every cell. Phase One, offline and online.

    index = Index.build(catalog, cells=256)
    index.candidates(user, per_cell=10)          rows of the catalogue, at most cells · per_cell of them

The score that ranks items inside a cell is the total one, base_i · u⁰ + Σ_h v_i^h · u^h. ``per_head`` adds, for every
head alone, the best of each cell by s_i^h: items that one head wants and the total hides.

**Changing it.** New items go to the nearest cell and are held in a small segment that is searched beside the main one;
removed items are barred from every answer. ``compact`` folds both in. A change replaces the index's state in one step:
a search under way keeps the state it began with.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.catalog import Catalog
from setwise.checks import index_array, whole_number
from setwise.errors import DamagedArtifact, Infeasible, InvalidInput
from setwise.ids import IdChoice
from setwise.progress import Progress
from setwise.retrieval.backends.oracle import Oracle
from setwise.retrieval.clusters import clusters, default_cells, nearest_cells
from setwise.retrieval.neighbors import Floats32, Hits, Neighbors, item_vectors, resolved, tamed, user_vector
from setwise.retrieval.partition import Partition
from setwise.storage import artifact
from setwise.users import User

Rows = NDArray[np.intp]

_MOST_HIDDEN = 32  # exclusions in one cell up to which users share a pass
_GIVEN = ("vectors", "cell_of", "n_cells", "arrays")  # what every backend is built from; the rest are options


@dataclass(frozen=True)
class Statistics:
    """What an index looks like from outside."""

    n_items: int
    n_cells: int
    empty_cells: int
    smallest_cell: int
    median_cell: float
    largest_cell: int
    query_radius: float  # mean over cells and heads
    key_radius: float
    overflow: int  # items added since the last compaction
    removed: int  # items removed since then
    backend: str


@dataclass(frozen=True, eq=False)
class _State:
    """Everything a search reads, replaced as a whole."""

    catalog: Catalog
    partition: Partition
    neighbors: Neighbors  # the rows before ``settled``
    settled: int
    overflow: Oracle | None  # the rows from ``settled`` on
    removed: NDArray[np.bool_] | None  # (n,)


class Index:
    """Phase One over one catalogue."""

    def __init__(self, state: _State, backend: str, options: Mapping[str, Any]) -> None:
        self._state, self._backend, self._options = state, backend, dict(options)
        self._change = threading.Lock()

    @classmethod
    def build(
        cls,
        catalog: Catalog,
        cells: int | None = None,
        backend: str = "auto",
        seed: int = 0,
        partition: Partition | None = None,
        progress: bool | None = None,
        **options: Any,
    ) -> Index:
        """Cut the catalogue into cells by balanced k-means (or take ``partition``) and index every cell.

        Without a number of ``cells`` there are 256, or as many as leave sixteen items for each on average.
        ``options`` go to the backend, for instance ``recall=0.99`` to ``tree``. ``progress`` shows a bar; without it, a
        terminal decides.
        """
        name, kind = resolved(backend)
        if catalog.positions is not None:
            raise InvalidInput("catalog", "without positional encodings", "some", "index the items, rank the positions")
        if partition is not None and (cells is not None or not partition.fits(catalog)):
            todo = "leave out cells, and measure the partition on this catalogue by Partition.of"
            raise InvalidInput("partition", "one of this catalogue, in place of cells", "another, or both", todo)
        with Progress("building the index", catalog.n_items, progress) as bar:
            if partition is None:
                wanted = default_cells(len(catalog)) if cells is None else whole_number("cells", cells)
                partition = clusters(catalog, min(wanted, len(catalog)), seed, bar.advance)
            neighbors = _built(kind, name, catalog, partition, options)
        return cls(_State(catalog, partition, neighbors, len(catalog), None, None), name, options)

    # --- asking ---

    def candidates(
        self,
        user: ArrayLike | User,
        per_cell: int = 10,
        exclude: ArrayLike = (),
        where: Mapping[str, Any] | None = None,
        per_head: int = 0,
    ) -> Rows:
        """The rows of the ``per_cell`` best of every cell for this user, in ascending order.

        ``exclude`` are rows; ``where`` filters by attributes: {"genre": "jazz", "year": (1990, None)}.
        """
        state = self._state
        heads_too = whole_number("per_head", per_head, least=0) > 0 and state.catalog.heads > 1
        asked = _asked(state.catalog.user(user), heads_too)
        barred = _barred(state, exclude, where)
        hits = _search(state, asked[:1], whole_number("per_cell", per_cell), barred)
        found = [hits.rows[0]]
        if heads_too:
            found.append(_search(state, asked[1:], per_head, barred).rows)
        return _distinct(np.concatenate([rows.reshape(-1) for rows in found]))

    def candidates_many(
        self, users: Sequence[ArrayLike | User], per_cell: int = 10, exclude: Sequence[ArrayLike] | None = None
    ) -> list[Rows]:
        """The candidates of many users, each with exclusions of their own, in one pass over the catalogue."""
        state = self._state
        lists: Sequence[ArrayLike] = [()] * len(users) if exclude is None else exclude
        if len(lists) != len(users):
            raise InvalidInput(
                "exclude", f"one list a user, {len(users)}", f"{len(lists)}", "pass an empty list where none"
            )
        per_cell = whole_number("per_cell", per_cell)
        if not len(users):
            return []
        asked = np.concatenate([_asked(state.catalog.user(user), False) for user in users])
        unwanted = [_excluded(rows, state.catalog) for rows in lists]
        # A user's exclusions cannot hide more rows of a cell than they have in it: so many more are asked for. Those
        # with very many in one cell are served alone, so that they do not make the pass wide for all.
        most = np.array([int(np.bincount(state.partition.cell_of[rows]).max(initial=0)) for rows in unwanted])
        together = np.flatnonzero(most <= _MOST_HIDDEN)
        result: list[Rows] = [np.zeros(0, np.intp)] * len(users)
        if len(together):
            hits = _search(state, asked[together], per_cell + int(most[together].max()), state.removed)
            for number, rows in zip(together, hits.rows, strict=True):
                kept = (rows >= 0) & ~np.isin(rows, unwanted[number])
                result[number] = _distinct(rows[kept & (np.cumsum(kept, axis=1) <= per_cell)])
        for number in np.flatnonzero(most > _MOST_HIDDEN):
            barred = _barred(state, unwanted[number], None)
            result[number] = _distinct(_search(state, asked[number][None], per_cell, barred).rows)
        if not all(len(rows) for rows in result):
            raise Infeasible(
                "exclude", "lists that leave an item to every user", "one that leaves none", "exclude fewer"
            )
        return result

    @property
    def catalog(self) -> Catalog:
        """The items, removed ones included until the next compaction."""
        return self._state.catalog

    def snapshot(self) -> Index:
        """The index as it is now: later changes do not reach it. Nothing is copied."""
        return Index(self._state, self._backend, self._options)

    def is_like(self, other: Index) -> bool:
        """Whether the two hold the same items: a snapshot and its index, until the index changes."""
        return self._state is other._state

    @property
    def removed(self) -> Rows:
        """The rows of items taken out and not yet compacted away."""
        removed = self._state.removed
        return np.empty(0, np.intp) if removed is None else np.flatnonzero(removed)

    @property
    def partition(self) -> Partition:
        """The cells."""
        return self._state.partition

    @property
    def cell_of(self) -> NDArray[np.int32]:
        """The cell of each item: (n,)."""
        return self._state.partition.cell_of

    @property
    def statistics(self) -> Statistics:
        """Cell sizes, radii, and what waits for a compaction."""
        state, cells = self._state, self._state.partition
        sizes = cells.sizes
        return Statistics(
            n_items=len(state.catalog),
            n_cells=cells.n_cells,
            empty_cells=int((sizes == 0).sum()),
            smallest_cell=int(sizes.min()),
            median_cell=float(np.median(sizes)),
            largest_cell=int(sizes.max()),
            query_radius=float(cells.query_radius[sizes > 0].mean()),
            key_radius=float(cells.key_radius[sizes > 0].mean()),
            overflow=len(state.catalog) - state.settled,
            removed=0 if state.removed is None else int(state.removed.sum()),
            backend=self._backend,
        )

    def __repr__(self) -> str:
        return f"Index({len(self.catalog)} items, {self.partition.n_cells} cells, backend '{self._backend}')"

    # --- changing ---

    def add(self, items: Catalog) -> None:
        """Add the items of a catalogue of the same model; each goes to the nearest cell of its reward class.

        An id that was removed may come back: the removed item is then compacted away first.
        """
        with self._change:
            state = self._state
            if state.removed is not None and _returns(items, state.catalog, state.removed):
                state = self._compacted(state)
            joined = state.catalog.joined(items)
            near = nearest_cells(joined, np.arange(len(state.catalog), len(joined)), state.partition)
            partition = state.partition.grown(joined, near)
            late = np.arange(state.settled, len(joined))
            overflow = Oracle.build(item_vectors(joined.taken(late)), partition.cell_of[late], partition.n_cells)
            removed = None if state.removed is None else np.append(state.removed, np.zeros(len(items), bool))
            self._state = _State(joined, partition, state.neighbors, state.settled, overflow, removed)

    def remove(self, ids: IdChoice) -> None:
        """Take the items with these ids out of every answer."""
        with self._change:
            state = self._state
            removed = np.zeros(len(state.catalog), bool) if state.removed is None else state.removed.copy()
            removed[state.catalog.rows_of(ids)] = True
            if removed.all():
                raise Infeasible("ids", "fewer than all items", "all of them", "build a new index instead")
            self._state = replace(state, removed=removed)

    def compact(self) -> None:
        """Fold added items in and removed ones out; cells stay where they are, rows are numbered anew."""
        with self._change:
            self._state = self._compacted(self._state)

    def _compacted(self, state: _State) -> _State:
        """The same items, all settled."""
        if state.overflow is None and state.removed is None:
            return state
        stay = np.arange(len(state.catalog)) if state.removed is None else np.flatnonzero(~state.removed)
        catalog, partition = state.catalog.taken(stay), state.partition.taken(stay)
        name, kind = resolved(self._backend)
        return _State(
            catalog, partition, _built(kind, name, catalog, partition, self._options), len(catalog), None, None
        )

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write index and catalogue to the folder ``path`` as one artifact, atomically and compacted.

        Of the backend's options numbers are saved. Texts, which may hold a password, and arrays are not: give them to
        ``load`` again.
        """
        with self._change:
            state = self._compacted(self._state)
        arrays, meta = state.catalog.packed()
        parts = {f"catalog.{name}": array for name, array in arrays.items()}
        parts |= {f"partition.{name}": array for name, array in vars(state.partition).items()}
        parts |= {f"backend.{name}": array for name, array in state.neighbors.arrays().items()}
        options = {
            name: float(value) for name, value in self._options.items() if isinstance(value, (int, float, np.number))
        }
        artifact.write(path, "index", parts, {"catalog": meta, "backend": self._backend, "options": options})

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> Index:
        """Open a saved index: digests checked, arrays mapped, nothing copied; kernels are compiled here, not later.

        ``options`` are those of the backend that are not saved, such as the ``dsn`` of ``pgvector``.
        """
        saved = artifact.read(path, "index")

        def part(name: str) -> dict[str, NDArray[Any]]:
            prefix = f"{name}."
            return {full.removeprefix(prefix): array for full, array in saved.arrays.items() if full.startswith(prefix)}

        name = saved.meta["backend"]
        catalog = Catalog.unpacked(part("catalog"), saved.meta["catalog"])
        partition = Partition(**part("partition"))
        if not partition.fits(catalog):
            raise DamagedArtifact(Path(path), "cells and catalogue do not belong together")
        kind = resolved(name)[1]
        _refuse_unknown(name, kind.from_arrays, options)
        neighbors = kind.from_arrays(part("backend"), **options)
        neighbors.search(np.zeros((1, item_vectors(catalog.taken([0])).shape[1]), np.float32), 1)
        return cls(
            _State(catalog, partition, neighbors, len(catalog), None, None), name, saved.meta["options"] | options
        )


# --- the pieces ------------------------------------------------------------------------------------------------------


def _asked(user: User, heads_too: bool) -> Floats32:
    """Y = (u^1, …, u^H, u⁰), and after it, if wanted, each head alone: (1, D) or (1 + H, D)."""
    rows = [user_vector(user)]
    heads, d = user.heads.shape
    for h in range(heads if heads_too else 0):
        row = np.zeros(len(rows[0]))
        row[h * d : (h + 1) * d] = user.heads[h]
        rows.append(tamed(row))
    return np.stack(rows)


def _barred(state: _State, exclude: ArrayLike, where: Mapping[str, Any] | None) -> NDArray[np.bool_] | None:
    """The rows that must not be returned, or None when all may be."""
    rows = _excluded(exclude, state.catalog)
    if not len(rows) and not where:
        return state.removed
    barred = ~state.catalog.attributes.matching(where) if where else np.zeros(len(state.catalog), bool)
    barred[rows] = True
    if state.removed is not None:
        barred |= state.removed
    if barred.all():
        raise Infeasible("where and exclude", "conditions that leave an item", "ones that leave none", "loosen them")
    return barred


def _search(state: _State, users: Floats32, per_cell: int, barred: NDArray[np.bool_] | None) -> Hits:
    """The best of every cell among settled and late rows; no more of them than the largest cell has."""
    per_cell = min(per_cell, int(state.partition.sizes.max()))
    hits = state.neighbors.search(users, per_cell, None if barred is None else barred[: state.settled])
    if state.overflow is None:
        return hits
    late = state.overflow.search(users, per_cell, None if barred is None else barred[state.settled :])
    late_rows = np.where(late.rows >= 0, late.rows + state.settled, -1)
    rows, scores = np.concatenate([hits.rows, late_rows], axis=2), np.concatenate([hits.scores, late.scores], axis=2)
    best = np.argsort(-scores, axis=2, kind="stable")[:, :, :per_cell]
    return Hits(np.take_along_axis(rows, best, axis=2), np.take_along_axis(scores, best, axis=2))


def _distinct(rows: NDArray[np.int64]) -> Rows:
    found = np.unique(rows)
    return found[found >= 0].astype(np.intp)


def _built(
    kind: type[Neighbors], name: str, catalog: Catalog, partition: Partition, options: Mapping[str, Any]
) -> Neighbors:
    """The backend over this catalogue."""
    _refuse_unknown(name, kind.build, options)
    return kind.build(item_vectors(catalog), partition.cell_of, partition.n_cells, **options)


def _refuse_unknown(name: str, function: Callable[..., Neighbors], options: Mapping[str, Any]) -> None:
    known = [option for option in inspect.signature(function).parameters if option not in _GIVEN]
    for option in options:
        if option not in known and "options" not in known:
            raise InvalidInput(f"options of '{name}'", f"among: {', '.join(known) or 'none'}", repr(option), "drop it")


def _returns(items: Catalog, catalog: Catalog, removed: NDArray[np.bool_]) -> bool:
    """Whether an id of ``items`` is one of a removed item."""
    gone = set(catalog.ids[np.flatnonzero(removed)].tolist())
    return not items.ids.are_row_numbers and not gone.isdisjoint(items.ids[np.arange(len(items))].tolist())


def _excluded(rows: ArrayLike, catalog: Catalog) -> Rows:
    """Rows checked; a history may repeat itself."""
    return index_array("exclude", np.unique(np.asarray(rows)), len(catalog), "the catalogue")
