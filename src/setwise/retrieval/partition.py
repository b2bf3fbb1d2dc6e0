"""Partition: cells of items with similar queries and similar keys, so that within a cell only the score matters.

A cell holds items of one reward class whose queries lie close together and whose keys lie close together, in every
head. ``Partition`` keeps the centre and radius of each cell, because guarantees and bounds are stated in them:
for i in cell c and j in cell c',  |q_i · k_j − q̄_c · k̄_c'|  ≤  ‖q̄_c‖ r_c'  +  r_c ‖k̄_c'‖  +  r_c r_c'.

Two constructions: the paper's δ-cover (``cover.py``), whose loss is bounded in advance and whose size is exponential in
the dimension, and balanced k-means (``clusters.py``), whose size is chosen and whose radii are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Array, Floats32
from setwise._validation import require_shape
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.storage import saved_arrays


@dataclass(frozen=True, eq=False)
class Partition:
    """C cells of n items, with their centres and radii in query and key space.

    Centres and reward classes are fixed when the partition is built; items added later do not move them.
    """

    cell_of: NDArray[np.int32]  # (n,)
    reward_class: NDArray[np.int32]  # (C,) the class of all items of the cell; −1 for a cell without items
    query_centre: Floats32  # (C, H, d_kq)
    key_centre: Floats32  # (C, H, d_kq)
    query_radius: Floats32  # (C, H): no query of the cell is farther from the centre, rounding included
    key_radius: Floats32  # (C, H)
    query_unit: Floats32  # (H,) factor of queries in distances between items
    key_unit: Floats32  # (H,)

    @property
    def n_cells(self) -> int:
        """The number of cells, C."""
        return len(self.reward_class)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of items of each cell: (C,)."""
        return np.bincount(self.cell_of, minlength=self.n_cells)

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        cell_of: ArrayLike,
        n_cells: int,
        query_unit: Floats32 | None = None,
        key_unit: Floats32 | None = None,
    ) -> Partition:
        """Measure the cells that ``cell_of`` (n,) describes; each must hold items of one reward class."""
        cells = _checked(catalog, cell_of, n_cells)
        reward_class = np.full(n_cells, -1, np.int32)
        reward_class[cells] = catalog.reward_class
        if (reward_class[cells] != catalog.reward_class).any():
            raise InvalidInput("cell_of", "cells of one reward class each", "a mixture", "split them by reward class")
        query_centre, key_centre = (_centres(part, cells, n_cells) for part in (catalog.query, catalog.key))
        ones = np.ones(catalog.heads, np.float32)
        return cls(
            cells,
            reward_class,
            query_centre,
            key_centre,
            _radii(catalog.query, cells, query_centre),
            _radii(catalog.key, cells, key_centre),
            ones if query_unit is None else query_unit,
            ones if key_unit is None else key_unit,
        )

    @classmethod
    def opened(cls, arrays: Mapping[str, Array], catalog: Catalog) -> Partition:
        """The partition of this catalogue that was read from a file, checked."""
        (cells,), (heads, d) = arrays["reward_class"].shape, catalog.query.shape[1:]
        shapes: dict[str, tuple[type[Any], tuple[int, ...]]] = {
            "cell_of": (np.int32, (len(catalog),)),
            "reward_class": (np.int32, (cells,)),
            "query_centre": (np.float32, (cells, heads, d)),
            "key_centre": (np.float32, (cells, heads, d)),
            "query_radius": (np.float32, (cells, heads)),
            "key_radius": (np.float32, (cells, heads)),
            "query_unit": (np.float32, (heads,)),
            "key_unit": (np.float32, (heads,)),
        }
        for name, (dtype, shape) in shapes.items():
            saved_arrays.typed(name, arrays[name], dtype, shape)
        saved_arrays.ranged("cell_of", arrays["cell_of"], 0, cells - 1)
        for name in ("query_radius", "key_radius"):
            saved_arrays.ranged(name, arrays[name], 0, np.inf)
        for name in ("query_centre", "key_centre", "query_unit", "key_unit"):
            saved_arrays.finite(name, arrays[name])
        partition = cls(**arrays)
        if not partition.fits(catalog):
            raise InvalidInput("cells", "those of this catalogue", "others", "build them again")
        return partition

    def fits(self, catalog: Catalog) -> bool:
        """Whether this is a partition of the catalogue's items."""
        shape = (self.n_cells, *catalog.query.shape[1:])
        right = len(self.cell_of) == len(catalog) and self.query_centre.shape == shape
        return right and bool((self.reward_class[self.cell_of] == catalog.reward_class).all())

    def grown(self, catalog: Catalog, cells: NDArray[np.int32]) -> Partition:
        """The partition with the last items of ``catalog`` added to ``cells``: radii grow as needed, centres stay."""
        added = slice(len(self.cell_of), len(catalog))
        return replace(
            self,
            cell_of=np.concatenate([self.cell_of, cells]),
            query_radius=np.maximum(self.query_radius, _radii(catalog.query[added], cells, self.query_centre)),
            key_radius=np.maximum(self.key_radius, _radii(catalog.key[added], cells, self.key_centre)),
        )

    def taken(self, rows: NDArray[np.intp]) -> Partition:
        """The partition of these rows only; centres and radii stay, as they hold for fewer items too."""
        return replace(self, cell_of=self.cell_of[rows])


def _checked(catalog: Catalog, cell_of: ArrayLike, n_cells: int) -> NDArray[np.int32]:
    cells = np.asarray(cell_of)
    require_shape("cell_of", cells, (len(catalog),))
    if cells.dtype.kind not in "iu" or cells.min() < 0 or cells.max() >= n_cells:
        raise InvalidInput("cell_of", f"whole numbers from 0 to {n_cells - 1}", "others", "number the cells from 0")
    return cells.astype(np.int32)


_CHUNK = 1 << 16  # rows per step, to keep the working memory small


def _centres(vectors: NDArray[np.floating], cell_of: NDArray[np.int32], n_cells: int) -> Floats32:
    """The mean of each cell's vectors (n, H, d): (C, H, d), zero for an empty cell."""
    total = np.zeros((n_cells, *vectors.shape[1:]))
    for start in range(0, len(vectors), _CHUNK):
        np.add.at(total, cell_of[start : start + _CHUNK], vectors[start : start + _CHUNK])
    count = np.maximum(np.bincount(cell_of, minlength=n_cells), 1)
    return np.asarray(total / count[:, None, None], np.float32)


def _radii(vectors: NDArray[np.floating], cell_of: NDArray[np.int32], centre: Floats32) -> Floats32:
    """The largest distance of each cell's vectors (n, H, d) from its centre: (C, H), rounded outwards."""
    radius = np.zeros(centre.shape[:2])
    for start in range(0, len(vectors), _CHUNK):
        cells = cell_of[start : start + _CHUNK]
        distance = np.linalg.norm(vectors[start : start + _CHUNK].astype(np.float64) - centre[cells], axis=2)
        np.maximum.at(radius, cells, distance)
    return np.nextafter(radius.astype(np.float32), np.float32(np.inf))
