"""FrontCells: what bounds over all items read of the cells, kept at the front; the items of cells are at the shards.

They are computed when the cluster is written, as a single index computes them (``bounds/catalog/cells.py``). They stay
valid upper bounds while items change. Items that are added get cells of their own, so no cell grows; but logits with
the new keys may be larger than all before. So the reach of every older cell is raised to what it has with the new
ones, and the reach of an older item when it is fetched. An item that is removed leaves the cells as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats, Floats32
from setwise.bounds.catalog.cells import (
    CellBounds,
    cell_groups,
    default_cells,
    finite_balls,
    largest_of_cells,
    reach_over,
)
from setwise.bounds.catalog.group_bounds import Groups, RewardArrays
from setwise.bounds.compiled import parts_of
from setwise.kernels import preparation
from setwise.model.catalog import Catalog
from setwise.model.reward_table import RewardTable
from setwise.recommend.cluster.shard_cells import ShardCells
from setwise.storage import saved_arrays

ALONE = 64  # added items have one cell each up to this many; beyond, a cell for PER_CELL of them
PER_CELL = 32
_MARGIN = 1e-6  # relative, more than the rounding of products in double precision and of sums


@dataclass(frozen=True, eq=False)
class FrontCells:
    """C cells; those from ``first_added`` on are of items that were added."""

    reward_class: NDArray[np.int32]  # (C,)
    query_centre: Floats32  # (C, H, d)
    key_centre: Floats32
    query_radius: Floats32  # (C, H)
    key_radius: Floats32
    self_low: Floats  # (C, H), as ``CellBounds`` has them
    self_high: Floats
    reach: Floats32  # (C, H) the largest reach of the cell's items
    norms: Floats  # (4, H)
    first_added: int

    @classmethod
    def of(cls, cells: CellBounds) -> FrontCells:
        """The cells of a catalogue that is split."""
        part = cells.partition
        reach = largest_of_cells(cells.reach[cells.rows], cells.start)
        balls = part.reward_class, part.query_centre, part.key_centre, part.query_radius, part.key_radius
        return cls(*balls, cells.self_low, cells.self_high, reach, cells.norms, part.n_cells)

    @property
    def n_cells(self) -> int:
        """The number of cells, C."""
        return len(self.reward_class)

    def groups(self, dtype: np.dtype[np.floating]) -> Groups:
        """The cells as columns for the search, of the type of the catalogue's vectors."""
        return cell_groups(dtype, self, self.self_low, self.self_high, self.norms, self.reach)

    def to_arrays(self) -> dict[str, Array]:
        """The arrays to save; ``from_arrays`` reads them."""
        arrays = {name: np.asarray(part) for name, part in vars(self).items() if isinstance(part, np.ndarray)}
        return {**arrays, "first_added": np.array([self.first_added])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], pattern: Catalog) -> FrontCells:
        """The cells that ``to_arrays`` saved, checked."""
        (cells,), (heads, d) = arrays["reward_class"].shape, pattern.query.shape[1:]
        shapes = {
            "reward_class": (np.int32, (cells,)),
            "query_centre": (np.float32, (cells, heads, d)),
            "key_centre": (np.float32, (cells, heads, d)),
            "query_radius": (np.float32, (cells, heads)),
            "key_radius": (np.float32, (cells, heads)),
            "self_low": (np.float64, (cells, heads)),
            "self_high": (np.float64, (cells, heads)),
            "reach": (np.float32, (cells, heads)),
            "norms": (np.float64, (4, heads)),
        }
        read = {name: saved_arrays.typed(name, arrays[name], *shape) for name, shape in shapes.items()}
        return cls(**read, first_added=int(arrays["first_added"][0]))

    # --- additions ---

    def grown(self, items: Catalog) -> tuple[FrontCells, ShardCells]:
        """The cells with new ones for ``items``, and the cells and the reach of these items.

        Their reward classes are numbered as those of the cluster.
        """
        wanted = len(items) if len(items) <= ALONE else max(1, len(items) // PER_CELL)
        new = CellBounds.build(items, min(wanted, default_cells(len(items))))
        norms = np.maximum(self.norms, new.norms)
        key, radius = finite_balls(self.key_centre, self.key_radius, norms[1])
        reach = np.maximum(new.reach, reach_over(items.query, key, radius))
        added = FrontCells.of(new)
        of_cells = largest_of_cells(reach[new.rows], new.start)
        names = ("reward_class", "query_centre", "key_centre", "query_radius", "key_radius", "self_low", "self_high")
        joined = {name: np.concatenate([getattr(self, name), getattr(added, name)]) for name in names}
        older = np.maximum(self.reach, self._reach_of(added, norms))
        whole = np.concatenate([older, of_cells])
        cells = FrontCells(**joined, reach=whole, norms=norms, first_added=self.first_added)
        return cells, ShardCells((self.n_cells + new.partition.cell_of).astype(np.int32), reach)

    def _reach_of(self, others: FrontCells, norms: Floats) -> Floats32:
        """For each cell an upper bound on the logits of its items with those of other cells: (C, H)."""
        query, spread = finite_balls(self.query_centre, self.query_radius, norms[0])
        key, radius = finite_balls(others.key_centre, others.key_radius, norms[1])
        reach = np.empty(spread.shape)
        for h in range(spread.shape[1]):
            mine, theirs = query[:, h].astype(np.float64), key[:, h].astype(np.float64)
            own, far = np.linalg.norm(mine, axis=1), np.linalg.norm(theirs, axis=1) + radius[:, h]
            logit = mine @ theirs.T + np.multiply.outer(own, radius[:, h]) + np.multiply.outer(spread[:, h], far)
            reach[:, h] = logit.max(axis=1) + _MARGIN * (np.multiply.outer(own + spread[:, h], far)).max(axis=1)
        with np.errstate(over="ignore"):
            return np.nextafter(reach.astype(np.float32), np.float32(np.inf))

    def raised(self, query: Array, reach: Floats32) -> Floats32:
        """The reach (m, H) of items with these queries (m, H, d), with the keys that were added since."""
        if self.first_added == self.n_cells or not len(query):
            return reach
        return np.maximum(reach, reach_over(query, *self._added_keys))

    @cached_property
    def _added_keys(self) -> tuple[Array, Array]:
        added = slice(self.first_added, None)
        return finite_balls(self.key_centre[added], self.key_radius[added], self.norms[1])


def warm_up_bounds(pattern: Catalog) -> None:
    """Compile the search for bounds over items like these, so that no request waits for the compiler."""
    preparation.require(parts_of(pattern))


def reward_arrays(catalog: Catalog) -> RewardArrays:
    """The rewards of a catalogue for the search."""
    table = RewardTable.of(catalog.rewards)
    return RewardArrays(table.code, table.parameter, table.first_knot, table.knot)
