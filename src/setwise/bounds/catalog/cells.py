"""CellBounds: intervals for the logits of fine cells, computed offline for whole-catalogue bounds.

For a cell c, in every head: the centre and radius of its queries and of its keys (so that q_i · k_j of its items i lies
within q̄_c · k_j ± r_c ‖k_j‖ for any item j, and likewise for keys), and the least and largest q_i · k_i of its items
with themselves. For an item its reach, an upper bound on its logits with all items of the catalogue, computed from the
cells of keys: max_c (q_i · k̄_c + ‖q_i‖ r_c). Nothing here depends on a user.

Every partition gives a valid bound; a finer one gives a tighter bound. ``build`` makes its own by k-means; ``of`` uses
an existing one, such as an index's, and costs one pass over the items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Floats32
from setwise._validation import whole_number
from setwise.bounds.catalog.group_bounds import Groups, RewardArrays
from setwise.bounds.lifts.pair_weights import PairWeights
from setwise.errors import InvalidInput
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.reward_table import RewardTable
from setwise.model.users import User
from setwise.retrieval.backends.protocol import by_cell
from setwise.retrieval.clusters import clusters
from setwise.retrieval.partition import Partition
from setwise.storage import artifact, saved_arrays

_CHUNK = 1 << 16
_LOGITS = 1 << 22  # logits in memory at a time


def default_cells(n_items: int) -> int:
    """The default number of fine cells: one per item up to 2048 items; beyond, one per 32 items, 1024 to 4096 cells."""
    return n_items if n_items <= 2048 else min(4096, max(1024, n_items // 32))


@dataclass(frozen=True, eq=False)
class CellBounds:
    """A catalogue, its fine cells, and bounds on their logits."""

    catalog: Catalog
    partition: Partition
    self_low: Floats  # (C, H): the least q_i · k_i of the cell's items
    self_high: Floats  # (C, H): the largest
    reach: NDArray[np.float32]  # (n, H): upper bound on q_i · k_j over all j
    norms: Floats  # (4, H): the largest ‖q_i‖, ‖k_i‖, ‖v_i‖ in each head, and ‖base_i‖ in every column
    rows: NDArray[np.int64]  # (n,) the items by cell: those of cell c are rows[start[c] : start[c + 1]]
    start: NDArray[np.int64]  # (C + 1,)
    place: NDArray[np.int64]  # (n,) where each item is in ``rows``
    table: RewardArrays
    cell_groups: Groups  # cells and items by column, for the compiled search
    item_groups: Groups

    @classmethod
    def build(cls, catalog: Catalog, cells: int | None = None, seed: int = 0) -> Self:
        """Partition the catalogue into fine cells and compute their bounds."""
        _refuse_positions(catalog)
        wanted = default_cells(len(catalog)) if cells is None else whole_number("cells", cells)
        if wanted < len(catalog):
            return cls.of(catalog, clusters(catalog, wanted, seed))
        alone = np.argsort(np.argsort(catalog.reward_class, kind="stable"))  # sorted by reward class
        return cls.of(catalog, Partition.of(catalog, alone, len(catalog)))

    @classmethod
    def of(cls, catalog: Catalog, partition: Partition) -> Self:
        """Compute the bounds of a partition of this catalogue."""
        _refuse_positions(catalog)
        if not partition.fits(catalog):
            raise InvalidInput("partition", "one of this catalogue", "another", "measure it by Partition.of")
        low = np.full((partition.n_cells, catalog.heads), np.inf)
        high = np.full((partition.n_cells, catalog.heads), -np.inf)
        for start in range(0, len(catalog), _CHUNK):
            part, cell_of = slice(start, start + _CHUNK), partition.cell_of[start : start + _CHUNK]
            own = np.einsum("ihd,ihd->ih", catalog.query[part], catalog.key[part], dtype=np.float64)
            np.minimum.at(low, cell_of, own)
            np.maximum.at(high, cell_of, own)
        return cls._ready(catalog, partition, low, high, _reach(catalog, partition), _norms(catalog))

    @classmethod
    def _ready(
        cls,
        catalog: Catalog,
        partition: Partition,
        low: Floats,
        high: Floats,
        reach: NDArray[np.float32],
        norms: Floats,
    ) -> Self:
        rows, start = by_cell(partition.cell_of, partition.n_cells)
        table = RewardTable.of(catalog.rewards)
        return cls(
            catalog,
            partition,
            low,
            high,
            reach,
            norms,
            rows,
            start,
            np.argsort(rows),
            RewardArrays(table.code, table.parameter, table.first_knot, table.knot),
            cell_groups(catalog.query.dtype, partition, low, high, norms, largest_of_cells(reach[rows], start)),
            _item_groups(catalog, rows, reach),
        )

    @property
    def n_cells(self) -> int:
        """The number of cells, C."""
        return self.partition.n_cells

    def added(self, user: User) -> AddedScores | None:
        """The added scores of this user."""
        return user.scores

    @cached_property
    def pair_weights(self) -> PairWeights | None:
        """The weights of all pairs of items, by place, computed when first used; None where they have no use."""
        return PairWeights.of(self.catalog, self.rows)

    def to_arrays(self) -> dict[str, Array]:
        """The arrays to save beside the catalogue; ``from_arrays`` reads them."""
        own: dict[str, Array] = {"self_low": self.self_low, "self_high": self.self_high, "reach": self.reach}
        own["norms"] = self.norms
        return own | {f"partition.{name}": array for name, array in vars(self.partition).items()}

    @classmethod
    def from_arrays(cls, catalog: Catalog, arrays: Mapping[str, Array]) -> Self:
        """The bounds saved by ``to_arrays``, for the same catalogue; no large array is copied."""
        partition, heads = Partition.opened(artifact.under("partition.", arrays), catalog), catalog.heads
        low, high = (
            saved_arrays.typed(name, arrays[name], np.float64, (partition.n_cells, heads))
            for name in ("self_low", "self_high")
        )
        reach = saved_arrays.typed("reach", arrays["reach"], np.float32, (len(catalog), heads))
        norms = saved_arrays.typed("norms", arrays["norms"], np.float64, (4, heads))
        saved_arrays.ranged("norms", norms, 0, np.inf)
        for name, array in (("self_low", low), ("self_high", high), ("reach", reach)):
            saved_arrays.ranged(name, array, -np.inf, np.inf)
        return cls._ready(catalog, partition, low, high, reach, norms)


def _refuse_positions(catalog: Catalog) -> None:
    if catalog.positions is not None:
        raise InvalidInput(
            "catalog", "without positional encodings", "some", "certify the candidates of a slate instead"
        )


class Balls(Protocol):
    """Cells as balls of queries and of keys, as a ``Partition`` has them."""

    @property
    def reward_class(self) -> NDArray[np.int32]:
        """(C,)."""
        ...

    @property
    def query_centre(self) -> Floats32:
        """(C, H, d)."""
        ...

    @property
    def key_centre(self) -> Floats32:
        """(C, H, d)."""
        ...

    @property
    def query_radius(self) -> Floats32:
        """(C, H)."""
        ...

    @property
    def key_radius(self) -> Floats32:
        """(C, H)."""
        ...


def cell_groups(dtype: Any, partition: Balls, low: Floats, high: Floats, norms: Floats, reach: Array) -> Groups:
    """The cells as columns, with the least and the largest q_i · k_i of each, and its largest reach (C, H)."""
    query, query_radius = finite_balls(partition.query_centre, partition.query_radius, norms[0])
    key, key_radius = finite_balls(partition.key_centre, partition.key_radius, norms[1])
    return Groups(
        _columns(query, dtype),
        _columns(key, dtype),
        _columns(query_radius, np.float64),
        _columns(key_radius, np.float64),
        _columns(low, np.float64),
        _columns(high, np.float64),
        _columns(reach, np.float32),
        partition.reward_class.astype(np.int64).clip(0),  # −1 marks an empty cell, which is never used
    )


def finite_balls(centre: Array, radius: Array, norm: Floats) -> tuple[Array, Array]:
    """Centres and radii; a cell that overflows float32 gets the ball around 0 that holds all items."""
    good = np.isfinite(centre).all(axis=2) & np.isfinite(radius)
    return np.where(good[:, :, None], centre, 0.0), np.where(good, radius, norm)


def _item_groups(catalog: Catalog, rows: NDArray[np.int64], reach: Array) -> Groups:
    none = np.zeros((catalog.heads, 0))
    return Groups(
        _columns(catalog.query[rows], catalog.query.dtype),
        _columns(catalog.key[rows], catalog.query.dtype),
        none,
        none,
        none,
        none,
        _columns(reach[rows], np.float32),
        catalog.reward_class[rows].astype(np.int64),
    )


def _columns(array: Array, dtype: Any) -> Array:
    """(G, H, …) as (H, …, G), one column a group."""
    # Writable, because numba compiles another version for read-only arrays, such as those mapped from a file.
    return np.require(np.moveaxis(array, 0, -1), dtype, ["C", "W"])


def _reach(catalog: Catalog, partition: Partition) -> NDArray[np.float32]:
    """For each item and head an upper bound on the logits with all items of the catalogue: (n, H)."""
    key, radius = finite_balls(partition.key_centre, partition.key_radius, _norms(catalog)[1])
    return reach_over(catalog.query, key[partition.sizes > 0], radius[partition.sizes > 0])


def reach_over(queries: Array, key: Array, radius: Array) -> NDArray[np.float32]:
    """Upper bounds on the logits of queries (m, H, d) with all keys in balls (C, H, d), (C, H): (m, H)."""
    reach = np.empty(queries.shape[:2], np.float32)
    size = max(1, _LOGITS // len(key))
    for start in range(0, len(queries), size):
        part = slice(start, start + size)
        for h in range(queries.shape[1]):
            query = queries[part, h].astype(np.float64)
            logit = query @ key[:, h].T.astype(np.float64) + np.linalg.norm(query, axis=1)[:, None] * radius[:, h]
            largest = logit.max(axis=1)
            with np.errstate(over="ignore"):  # beyond float32 the bound is infinite
                reach[part, h] = np.nextafter((largest + 1e-7 * np.abs(logit).max(axis=1)).astype(np.float32), np.inf)
    return reach


def largest_of_cells(values: Array, start: NDArray[np.int64]) -> Array:
    """The largest of each cell's values, which are sorted by cell: (C, H); arbitrary for an empty cell."""
    return np.maximum.reduceat(values, np.minimum(start[:-1], len(values) - 1), axis=0)


def _norms(catalog: Catalog) -> Floats:
    """The largest norms of queries, keys and values, head by head, and of the base term: (4, H)."""
    largest = np.zeros((4, catalog.heads))
    for start in range(0, len(catalog), _CHUNK):
        part = slice(start, start + _CHUNK)
        for row, array in zip(largest, (catalog.query, catalog.key, catalog.value), strict=False):
            np.maximum(row, np.linalg.norm(array[part].astype(np.float64), axis=2).max(axis=0), out=row)
        if catalog.base is not None:
            length = np.linalg.norm(catalog.base[part].astype(np.float64), axis=1).max()
            largest[3] = np.maximum(largest[3], length)
    return largest
