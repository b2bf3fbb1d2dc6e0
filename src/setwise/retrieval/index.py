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

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.catalog import Catalog
from setwise.checks import index_array, whole_number
from setwise.errors import Infeasible, InvalidInput
from setwise.ids import IdChoice
from setwise.retrieval.backends.oracle import Oracle
from setwise.retrieval.clusters import clusters, default_cells
from setwise.retrieval.neighbors import Floats32, Hits, Neighbors, backend_named, item_vectors, user_vector
from setwise.retrieval.partition import Partition
from setwise.retrieval.progress import Progress
from setwise.storage import artifact
from setwise.users import User

Rows = NDArray[np.intp]


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
        name = "scan" if backend == "auto" else backend
        kind = backend_named(name)
        if catalog.positions is not None:
            raise InvalidInput("catalog", "without positional encodings", "some", "index the items, rank the positions")
        with Progress("building the index", catalog.n_items, progress) as bar:
            if partition is None:
                wanted = default_cells(len(catalog)) if cells is None else whole_number("cells", cells)
                partition = clusters(catalog, min(wanted, len(catalog)), seed, bar.advance)
            neighbors = kind.build(item_vectors(catalog), partition.cell_of, partition.n_cells, **options)
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
        asked = _asked(state.catalog.user(user))
        barred = _barred(state, exclude, where)
        hits = _search(state, asked[:1], whole_number("per_cell", per_cell), barred)
        found = [hits.rows[0]]
        if whole_number("per_head", per_head, least=0) and state.catalog.heads > 1:
            found.append(_search(state, asked[1:], per_head, barred).rows)
        return _distinct(np.concatenate([rows.reshape(-1) for rows in found]))

    def candidates_many(
        self, users: Sequence[ArrayLike | User], per_cell: int = 10, exclude: Sequence[ArrayLike] | None = None
    ) -> list[Rows]:
        """The candidates of many users, each with exclusions of their own, in one pass over the catalogue."""
        state = self._state
        if exclude is not None and len(exclude) != len(users):
            raise InvalidInput(
                "exclude", f"one list a user, {len(users)}", f"{len(exclude)}", "pass an empty list where none"
            )
        per_cell = whole_number("per_cell", per_cell)
        if not len(users):
            return []
        asked = np.concatenate([_asked(state.catalog.user(user))[:1] for user in users])
        out = [
            index_array("exclude", rows, len(state.catalog), "the catalogue") for rows in exclude or [()] * len(users)
        ]
        # A user's exclusions cannot hide more rows of a cell than they have in it: so many more are asked for.
        most = max((int(np.bincount(state.partition.cell_of[rows]).max(initial=0)) for rows in out), default=0)
        hits = _search(state, asked, per_cell + most, state.removed)
        result = []
        for rows, unwanted in zip(hits.rows, out, strict=True):
            kept = (rows >= 0) & ~np.isin(rows, unwanted)
            kept &= np.cumsum(kept, axis=1) <= per_cell
            result.append(_distinct(rows[kept]))
        return result

    @property
    def catalog(self) -> Catalog:
        """The items, removed ones included until the next compaction."""
        return self._state.catalog

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
        """Add the items of a catalogue of the same model; each goes to the nearest cell of its reward class."""
        with self._change:
            state = self._state
            joined = state.catalog.joined(items)
            newcomers = np.arange(len(state.catalog), len(joined))
            near = _nearest_cells(joined, newcomers, state.partition)
            partition = Partition.of(joined, np.concatenate([state.partition.cell_of, near]), state.partition.n_cells)
            late = np.arange(state.settled, len(joined))
            overflow = Oracle.build(item_vectors(joined)[late], partition.cell_of[late], partition.n_cells)
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
            self._state = _State(
                state.catalog, state.partition, state.neighbors, state.settled, state.overflow, removed
            )

    def compact(self) -> None:
        """Fold added items in and removed ones out; cells stay where they are, rows are numbered anew."""
        with self._change:
            state = self._state
            stay = np.arange(len(state.catalog)) if state.removed is None else np.flatnonzero(~state.removed)
            catalog = state.catalog.taken(stay)
            partition = Partition.of(catalog, state.partition.cell_of[stay], state.partition.n_cells)
            kind = backend_named(self._backend)
            neighbors = kind.build(item_vectors(catalog), partition.cell_of, partition.n_cells, **self._options)
            self._state = _State(catalog, partition, neighbors, len(catalog), None, None)

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write index and catalogue to the folder ``path`` as one artifact, atomically; changes are compacted first."""
        if self._state.overflow is not None or self._state.removed is not None:
            self.compact()
        state = self._state
        arrays, meta = state.catalog.packed()
        parts = {f"catalog.{name}": array for name, array in arrays.items()}
        parts |= {f"partition.{name}": array for name, array in vars(state.partition).items()}
        parts |= {f"backend.{name}": array for name, array in state.neighbors.arrays().items()}
        artifact.write(path, "index", parts, {"catalog": meta, "backend": self._backend, "options": self._options})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Index:
        """Open a saved index: digests checked, arrays mapped, nothing copied."""
        saved = artifact.read(path, "index")

        def part(name: str) -> dict[str, NDArray[Any]]:
            prefix = f"{name}."
            return {full.removeprefix(prefix): array for full, array in saved.arrays.items() if full.startswith(prefix)}

        name = saved.meta["backend"]
        catalog = Catalog.unpacked(part("catalog"), saved.meta["catalog"])
        neighbors = backend_named(name).from_arrays(part("backend"))
        state = _State(catalog, Partition(**part("partition")), neighbors, len(catalog), None, None)
        return cls(state, name, saved.meta["options"])


# --- the pieces ------------------------------------------------------------------------------------------------------


def _asked(user: User) -> Floats32:
    """Y = (u^1, …, u^H, u⁰), and after it each head alone: (1 + H, D)."""
    whole = user_vector(user)
    heads, d = user.heads.shape
    rows = np.zeros((1 + heads, len(whole)), np.float32)
    rows[0] = whole
    for h in range(heads):
        rows[1 + h, h * d : (h + 1) * d] = user.heads[h]
    return rows


def _barred(state: _State, exclude: ArrayLike, where: Mapping[str, Any] | None) -> NDArray[np.bool_] | None:
    """The rows that must not be returned, or None when all may be."""
    rows = index_array("exclude", exclude, len(state.catalog), "the catalogue")
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
    """The best of every cell among settled and late rows."""
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


def _nearest_cells(catalog: Catalog, rows: Rows, partition: Partition) -> NDArray[np.int32]:
    """For each row the cell of its reward class whose centres are nearest, or any cell's when the class is new."""
    centres = np.concatenate([partition.query_centre, partition.key_centre], axis=2).reshape(partition.n_cells, -1)
    points = np.concatenate([catalog.query[rows], catalog.key[rows]], axis=2).reshape(len(rows), -1)
    result = np.empty(len(rows), np.int32)
    for number in np.unique(catalog.reward_class[rows]):
        mine = catalog.reward_class[rows] == number
        cells = np.flatnonzero(partition.reward_class == number)
        if not len(cells):
            todo = "build a new index, or give them a reward function the index knows"
            raise InvalidInput("the new items' reward", "one that the index has cells for", "another", todo)
        distance = ((points[mine][:, None, :] - centres[cells]) ** 2).sum(axis=2)
        result[mine] = cells[np.argmin(distance, axis=1)]
    return result
