"""Index: a catalogue partitioned into cells, searched for the best few items of every cell. Phase One.

    index = Index.build(catalog, cells=256)
    index.candidates(user, per_cell=10)          rows of the catalogue, at most cells · per_cell of them

Inside a cell items are ranked by total score, base_i · u⁰ + Σ_h v_i^h · u^h, plus t_i for a user with added scores
(scored_search.py). ``per_head`` adds, for every head alone, the best of each cell by s_i^h: items with a high score in
one head and a low total.

**Changes.** Added items go to the nearest cell and are held in a small overflow segment, searched beside the main
one; removed items are not eligible. ``compact`` rebuilds the index with both applied. A change replaces the index's
state as a whole: a running search keeps the state it began with.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._progress import Progress
from setwise._types import Floats32, Mask, Rows
from setwise._validation import real_number, whole_number
from setwise.errors import DamagedArtifact, Infeasible, InvalidInput
from setwise.kernels import preparation
from setwise.kernels.parts import RETRIEVAL
from setwise.model.catalog import Catalog
from setwise.model.eligibility import Eligibility, require_rows
from setwise.model.ids import IdChoice
from setwise.model.users import User
from setwise.retrieval.backends.brute_force import BruteForce
from setwise.retrieval.backends.protocol import Hits, Neighbors, item_vectors, resolved
from setwise.retrieval.clusters import clusters, default_cells, nearest_cells
from setwise.retrieval.index_state import (
    IndexState,
    Retrieved,
    retrieve_batch,
    retrieve_one,
    search_cells,
    search_vectors,
)
from setwise.retrieval.partition import Partition
from setwise.storage import artifact

_GIVEN = ("vectors", "cell_of", "n_cells", "arrays")  # arguments of every backend; the rest are options


@dataclass(frozen=True)
class Statistics:
    """Sizes and radii of an index."""

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


class Index:
    """Phase One over one catalogue."""

    def __init__(self, state: IndexState, backend: str, options: Mapping[str, Any]) -> None:
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
        """Partition the catalogue by balanced k-means (or use ``partition``) and index every cell.

        ``cells`` is by default 256, or fewer, so that cells hold sixteen items on average. ``options`` go to the
        backend, for instance ``recall=0.99`` to ``tree``. ``progress`` shows a bar; by default on a terminal only.
        """
        name, kind = resolved(backend)
        if not isinstance(catalog, Catalog):
            raise InvalidInput(
                "catalog", "a setwise.Catalog", type(catalog).__name__, "make one: Catalog(query, key, value)"
            )
        if catalog.positions is not None:
            raise InvalidInput(
                "catalog",
                "without positional encodings",
                "some",
                "index the items without them",
            )
        if partition is not None and (cells is not None or not partition.fits(catalog)):
            todo = "leave out cells, and build the partition with Partition.of(catalog, ...)"
            raise InvalidInput("partition", "one of this catalogue, in place of cells", "another, or both", todo)
        preparation.require([RETRIEVAL], progress)
        with Progress("building the index", catalog.n_items, progress) as bar:
            if partition is None:
                wanted = default_cells(len(catalog)) if cells is None else whole_number("cells", cells)
                partition = clusters(catalog, min(wanted, len(catalog)), seed, bar.advance)
            neighbors = _built(kind, name, catalog, partition, options)
        return cls(IndexState(catalog, partition, neighbors, len(catalog), None, None), name, options)

    # --- searching ---

    def candidates(
        self,
        user: ArrayLike | User,
        per_cell: int = 10,
        exclude: ArrayLike = (),
        where: Mapping[str, Any] | None = None,
        per_head: int = 0,
    ) -> Rows:
        """The rows of the ``per_cell`` best eligible items of every cell for this user, in ascending order.

        ``exclude`` are rows; ``where`` filters by attributes: {"genre": "jazz", "year": (1990, None)}.
        """
        snapshot = self.snapshot()
        return snapshot.retrieve(user, per_cell, snapshot.eligible(exclude, where), per_head).best

    def candidates_many(
        self,
        users: Sequence[ArrayLike | User],
        per_cell: int = 10,
        exclude: Sequence[ArrayLike] | None = None,
        where: Mapping[str, Any] | None = None,
        per_head: int = 0,
    ) -> list[Rows]:
        """``candidates`` of many users in one pass over the catalogue; ``exclude`` holds one list of rows per user."""
        snapshot = self.snapshot()
        lists: Sequence[ArrayLike] = [()] * len(users) if exclude is None else exclude
        if len(lists) != len(users):
            todo = "pass an empty list for a user without exclusions"
            raise InvalidInput("exclude", f"one list per user, {len(users)} in all", f"{len(lists)}", todo)
        shared = snapshot.eligible(where=where)
        eligible = [shared.without(rows) for rows in lists]
        return [retrieved.best for retrieved in snapshot.retrieve_many(users, per_cell, eligible, per_head)]

    def eligible(self, exclude: ArrayLike = (), where: Mapping[str, Any] | None = None) -> Eligibility:
        """The items that a slate may hold: not removed, matching ``where``, not among the rows ``exclude``.

        For queries with one filter, call it once and derive the rest by ``without``: they then share their passes.
        """
        state = self._state
        if not where:
            return state.eligible.without(exclude)
        return Eligibility.of(state.catalog, state.removed, where, exclude)

    def retrieve(
        self,
        user: ArrayLike | User,
        per_cell: int = 10,
        eligible: Eligibility | None = None,
        per_head: int = 0,
        reserve: int = 0,
    ) -> Retrieved:
        """``candidates``, and the ``reserve`` next best of every cell by total score, from the same pass.

        ``eligible`` comes from the method of that name; without it, every item that was not removed is eligible.
        """
        state = self._state
        allowed = state.eligible if eligible is None else eligible
        require_rows(allowed, len(state.catalog))
        (search,), passes = search_vectors(state, [user], per_cell, per_head, reserve)
        if getattr(state.neighbors, "fetches_more_than_masks", False):
            return retrieve_batch(state, [search], passes, [allowed])[0]
        return retrieve_one(state, search, passes, allowed)

    def retrieve_many(
        self,
        users: Sequence[ArrayLike | User],
        per_cell: int = 10,
        eligible: Sequence[Eligibility] | None = None,
        per_head: int = 0,
        reserve: int = 0,
    ) -> list[Retrieved]:
        """``retrieve`` for many users; those whose ``eligible`` were derived from one share one pass."""
        state = self._state
        allowed = [state.eligible] * len(users) if eligible is None else eligible
        if len(allowed) != len(users):
            todo = "pass what eligible() returns for each of them"
            raise InvalidInput("eligible", f"one per user, {len(users)} in all", f"{len(allowed)}", todo)
        for each in allowed:
            require_rows(each, len(state.catalog))
        searches, passes = search_vectors(state, users, per_cell, per_head, reserve)
        return retrieve_batch(state, searches, passes, allowed)

    def best_of_cells(self, vectors: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        """The best rows of every cell for search vectors (B, D), with scores: what the parts of an index exchange."""
        return search_cells(self._state, vectors, whole_number("per_cell", per_cell), eligible)

    @property
    def catalog(self) -> Catalog:
        """The items, removed ones included until the next compaction."""
        return self._state.catalog

    @property
    def state(self) -> IndexState:
        """Everything that a search reads, at this moment."""
        return self._state

    def snapshot(self) -> Index:
        """The index as it is now; later changes do not affect it. Nothing is copied."""
        return Index(self._state, self._backend, self._options)

    def is_like(self, other: Index) -> bool:
        """Whether the two hold the same items: a snapshot and its index, until the index changes."""
        return self._state is other._state

    @property
    def removed(self) -> Rows:
        """The rows of removed items, until the next compaction."""
        return self._state.removed_rows

    @property
    def partition(self) -> Partition:
        """The partition into cells."""
        return self._state.partition

    @property
    def cell_of(self) -> NDArray[np.int32]:
        """The cell of each item: (n,)."""
        return self._state.partition.cell_of

    @property
    def statistics(self) -> Statistics:
        """Cell sizes, radii, and the number of items added or removed since the last compaction."""
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
            overflow=len(state.catalog) - state.n_compacted,
            removed=0 if state.removed is None else int(state.removed.sum()),
            backend=self._backend,
        )

    def __repr__(self) -> str:
        return f"Index({len(self.catalog)} items, {self.partition.n_cells} cells, backend '{self._backend}')"

    # --- changes ---

    def add(self, items: Catalog) -> None:
        """Add the items of a catalogue of the same model; each goes to the nearest cell of its reward class.

        The id of a removed item may be added again: the index is then compacted first.
        """
        with self._change:
            state = self._state
            if state.removed is not None and _returns(items, state.catalog, state.removed):
                state = self._compacted(state)
            joined = state.catalog.joined(items)
            near = nearest_cells(joined, np.arange(len(state.catalog), len(joined)), state.partition)
            partition = state.partition.grown(joined, near)
            added = np.arange(state.n_compacted, len(joined))
            overflow = BruteForce.build(item_vectors(joined.taken(added)), partition.cell_of[added], partition.n_cells)
            removed = None if state.removed is None else np.append(state.removed, np.zeros(len(items), bool))
            self._state = IndexState(joined, partition, state.neighbors, state.n_compacted, overflow, removed)

    def remove(self, ids: IdChoice) -> None:
        """Make the items with these ids ineligible for every search."""
        with self._change:
            state = self._state
            removed = np.zeros(len(state.catalog), bool) if state.removed is None else state.removed.copy()
            removed[state.catalog.rows_of(ids)] = True
            if removed.all():
                raise Infeasible("ids", "fewer than all items", "all of them", "build a new index instead")
            self._state = replace(state, removed=removed)

    def compact(self) -> None:
        """Rebuild the index without removed items and with added ones; centres stay, rows are numbered again."""
        with self._change:
            self._state = self._compacted(self._state)

    def _compacted(self, state: IndexState) -> IndexState:
        """The state after a compaction."""
        if state.overflow is None and state.removed is None:
            return state
        kept = np.arange(len(state.catalog)) if state.removed is None else np.flatnonzero(~state.removed)
        catalog, partition = state.catalog.taken(kept), state.partition.taken(kept)
        name, kind = resolved(self._backend)
        return IndexState(
            catalog, partition, _built(kind, name, catalog, partition, self._options), len(catalog), None, None
        )

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write index and catalogue to the folder ``path`` as one artifact, atomically and compacted.

        Options of the backend that are numbers are saved. Texts, which may hold a password, and arrays are not: pass
        them to ``load`` again.
        """
        artifact.write(path, "index", *self.packed())

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> Index:
        """Open a saved index: digests are checked, arrays mapped, nothing copied. Kernels are compiled now.

        ``options`` are those of the backend that are not saved, such as the ``dsn`` of ``pgvector``.
        """
        saved = artifact.read(path, "index")
        return cls.unpacked(path, saved.arrays, saved.meta, **options)

    def packed(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Index and catalogue, compacted, as named arrays and JSON data."""
        with self._change:
            state = self._compacted(self._state)
        arrays, meta = state.catalog.packed()
        parts = {f"catalog.{name}": array for name, array in arrays.items()}
        parts |= {f"partition.{name}": array for name, array in vars(state.partition).items()}
        parts |= {f"backend.{name}": array for name, array in state.neighbors.arrays().items()}
        options = {
            name: float(value) for name, value in self._options.items() if isinstance(value, (int, float, np.number))
        }
        return parts, {"catalog": meta, "backend": self._backend, "options": options}

    @classmethod
    def unpacked(
        cls, path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], **options: Any
    ) -> Index:
        """The inverse of ``packed``; ``path`` is named in errors. Nothing is copied."""
        with artifact.restoring(path):
            name = meta["backend"]
            preparation.require([RETRIEVAL])
            catalog = Catalog.unpacked(artifact.under("catalog.", arrays), meta["catalog"])
            partition = Partition.opened(artifact.under("partition.", arrays), catalog)
            kind, saved = resolved(name)[1], _numbers(meta["options"])
        _refuse_unknown(name, kind.from_arrays, options)
        with nullcontext() if options else artifact.restoring(path):  # what is wrong may be one of the options
            neighbors = kind.from_arrays(artifact.under("backend.", arrays), **options)
            vectors = np.zeros((1, item_vectors(catalog.taken([0])).shape[1]), np.float32)
            hits = neighbors.search(vectors, 1, np.ones(len(catalog), bool))
            if hits.rows.shape[1] != partition.n_cells or hits.rows.max() >= len(catalog):
                raise DamagedArtifact(Path(path), "cells and catalogue do not belong together")
        return cls(IndexState(catalog, partition, neighbors, len(catalog), None, None), name, saved | options)


def _numbers(options: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): real_number(f"option '{name}'", value) for name, value in options.items()}


# --- helpers ------------------------------------------------------------------------------------------------------


def _built(
    kind: type[Neighbors], name: str, catalog: Catalog, partition: Partition, options: Mapping[str, Any]
) -> Neighbors:
    """The backend, built over this catalogue."""
    _refuse_unknown(name, kind.build, options)
    return kind.build(item_vectors(catalog), partition.cell_of, partition.n_cells, **options)


def _refuse_unknown(name: str, function: Callable[..., Neighbors], options: Mapping[str, Any]) -> None:
    known = [option for option in inspect.signature(function).parameters if option not in _GIVEN]
    for option in options:
        if option not in known and "options" not in known:
            raise InvalidInput(f"options of '{name}'", f"among: {', '.join(known) or 'none'}", repr(option), "drop it")


def _returns(items: Catalog, catalog: Catalog, removed: NDArray[np.bool_]) -> bool:
    """Whether ``items`` holds the id of a removed item."""
    gone = set(catalog.ids[np.flatnonzero(removed)].tolist())
    return not items.ids.are_row_numbers and not gone.isdisjoint(items.ids[np.arange(len(items))].tolist())
