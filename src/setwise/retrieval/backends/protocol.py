"""The interface of retrieval backends (best rows of every cell) and their registry.

Phase One finds, for a user, the items of highest score in each cell. The score of item i is

    base_i · u⁰ + Σ_h v_i^h · u^h  =  x_i · y,      x_i = (v_i^1, …, v_i^H, base_i),   y = (u^1, …, u^H, u⁰),

one inner product. So a backend is given n vectors, the cell of each, and a batch of users. For every user and cell it
returns the ``per_cell`` best rows, best first. It must cover every cell, and return fewer rows only where a cell has
fewer eligible ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Floats32, Ints, Mask
from setwise._validation import did_you_mean
from setwise.errors import InvalidInput, MissingDependency
from setwise.model.catalog import Catalog
from setwise.model.users import User

_LARGEST_VALUE = 1e18  # squares of such entries, and sums of them, are still float32


@dataclass(frozen=True, eq=False)
class Hits:
    """For B users and C cells, the best rows of each cell, best first.

    rows    (B, C, per_cell)   −1 where a cell has no more eligible rows
    scores  (B, C, per_cell)   their scores x_i · y, −∞ in empty places
    """

    rows: Ints
    scores: Floats32

    @classmethod
    def none(cls, users: int, cells: int, per_cell: int) -> Hits:
        """Empty places only."""
        shape = (users, cells, per_cell)
        return cls(np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32))


class Neighbors(Protocol):
    """A backend: built once from vectors and cells, then searched by many threads at once.

    One for which a mask of all rows costs more than a few more rows of each cell sets ``fetches_more_than_masks``: an
    index then drops a user's few excluded rows from what is returned.
    """

    @classmethod
    def build(cls, vectors: Floats32, cell_of: NDArray[np.int32], n_cells: int, **options: Any) -> Self:
        """Index ``vectors`` (n, D), row i being in cell ``cell_of[i]``; some cells may be empty."""
        ...

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        """The ``per_cell`` best rows of every cell for each of ``users`` (B, D), among the ``eligible`` (n,) ones."""
        ...

    def arrays(self) -> dict[str, Array]:
        """The arrays to save, from which ``from_arrays`` restores the backend."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """The backend that ``arrays`` saved. The arrays may be mapped from a file and must not be copied.

        Options that are not saved, such as an address with a password, are passed again.
        """
        ...


@dataclass(frozen=True)
class Backend:
    """A registry entry: what is known of a backend without importing it."""

    name: str
    module: str  # in setwise.retrieval.backends; it defines the class ``cls``
    cls: str
    exact: bool  # returns exactly the best rows, ties aside
    library: str | None = None  # the optional library that it needs
    extra: str | None = None  # the extra of setwise that installs it

    @property
    def available(self) -> bool:
        """Whether its library is installed, checked without importing it."""
        return self.library is None or find_spec(self.library) is not None

    def load(self) -> type[Neighbors]:
        """The class itself."""
        if self.library is not None and self.extra is not None and not self.available:
            raise MissingDependency(self.library, f"the retrieval backend '{self.name}'", self.extra)
        return getattr(import_module(f"setwise.retrieval.backends.{self.module}"), self.cls)  # type: ignore[no-any-return]


BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend("numpy", "brute_force", "BruteForce", exact=True),
        Backend("scan", "scan", "Scan", exact=True),
        Backend("tree", "tree", "Tree", exact=False),
        Backend("gpu", "gpu", "GPU", exact=True, library="torch", extra="gpu"),
        Backend("faiss", "faiss", "Faiss", exact=True, library="faiss", extra="faiss"),
        Backend("pgvector", "pgvector", "PgVector", exact=True, library="psycopg", extra="postgres"),
    )
}


def resolved(name: str) -> tuple[str, type[Neighbors]]:
    """The name and class of a backend; ``auto`` is ``scan``."""
    if name == "auto":
        name = "scan"
    if name not in BACKENDS:
        todo = did_you_mean(name, BACKENDS) or "choose one of those"
        raise InvalidInput("backend", f"'auto' or one of {', '.join(BACKENDS)}", repr(name), todo)
    return name, BACKENDS[name].load()


def item_vectors(catalog: Catalog) -> Floats32:
    """The vectors x_i = (v_i^1, …, v_i^H, base_i) of all items: (n, D); entries of at most 10^18 in size."""
    value = catalog.value.reshape(len(catalog), -1)  # a view: without a base term nothing is copied
    whole = value if catalog.base is None else np.hstack([value, catalog.base])
    for part in np.array_split(whole, max(1, len(whole) >> 16)):  # scanned in pieces: nothing large is allocated
        if (largest := float(np.abs(part).max(initial=0.0))) > _LARGEST_VALUE:
            todo = "scale values down and users up"
            raise InvalidInput("value and base", f"at most {_LARGEST_VALUE:g} in size", f"{largest:g}", todo)
    return np.asarray(whole, np.float32)


def user_vector(user: User) -> Floats32:
    """The user's vector y = (u^1, …, u^H, u⁰), scaled for float32: (D,)."""
    return scaled(user.heads.reshape(-1) if user.base is None else np.append(user.heads.reshape(-1), user.base))


def scaled(vector: Floats) -> Floats32:
    """``vector`` divided by a power of two that brings its largest entry near 1.

    The order of scores stays the same, and products in float32 neither overflow nor underflow.
    """
    return np.asarray(np.ldexp(vector, -exponent(vector)), np.float32)


def exponent(vector: Floats) -> int:
    """The power of two by which ``scaled`` divides."""
    return int(np.frexp(np.abs(vector).max(initial=0.0))[1])


def by_cell(cell_of: NDArray[np.int32], n_cells: int) -> tuple[Ints, Ints]:
    """The rows sorted by cell (stable), and where each cell starts among them: (n,), (C + 1,)."""
    order = np.argsort(cell_of, kind="stable")
    start = np.zeros(n_cells + 1, np.int64)
    np.cumsum(np.bincount(cell_of, minlength=n_cells), out=start[1:])
    return order, start
