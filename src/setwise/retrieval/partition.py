"""Cells: groups of items that attend alike and are attended alike, so that within a cell only the score matters.

A cell holds items of one reward class whose queries lie close together and whose keys lie close together, in every
head. ``Partition`` keeps the centre and radius of each cell, because losses and certificates are stated in them:
for i in cell c and j in cell c',  |q_i · k_j − q̄_c · k̄_c'|  ≤  ‖q̄_c‖ r_c'  +  r_c ‖k̄_c'‖  +  r_c r_c'.

Two ways to make cells: the paper's δ-cover (``cover.py``), whose loss is bounded in advance and whose size is
astronomic in high dimensions, and balanced k-means (``clusters.py``), whose size is chosen and whose radii are
measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.catalog import Catalog

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Partition:
    """C cells of n items, with where they lie in query and key space."""

    cell_of: NDArray[np.int32]  # (n,)
    reward_class: NDArray[np.int32]  # (C,) the class of all items of the cell; −1 for an empty cell
    query_centre: Floats32  # (C, H, d_kq)
    key_centre: Floats32  # (C, H, d_kq)
    query_radius: Floats32  # (C, H): no query of the cell is farther from the centre, rounding included
    key_radius: Floats32  # (C, H)

    @property
    def n_cells(self) -> int:
        """C."""
        return len(self.reward_class)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many items each cell holds: (C,)."""
        return np.bincount(self.cell_of, minlength=self.n_cells)

    @classmethod
    def of(cls, catalog: Catalog, cell_of: NDArray[np.int32], n_cells: int) -> Partition:
        """Measure the cells that ``cell_of`` (n,) describes."""
        reward_class = np.full(n_cells, -1, np.int32)
        reward_class[cell_of] = catalog.reward_class
        query_centre, query_radius = _balls(catalog.query, cell_of, n_cells)
        key_centre, key_radius = _balls(catalog.key, cell_of, n_cells)
        return cls(cell_of, reward_class, query_centre, key_centre, query_radius, key_radius)


_CHUNK = 1 << 16  # rows measured in one go: the working memory stays small beside the catalogue


def _balls(vectors: NDArray[np.floating], cell_of: NDArray[np.int32], n_cells: int) -> tuple[Floats32, Floats32]:
    """Centre (C, H, d) and radius (C, H) of each cell's vectors (n, H, d)."""
    n, heads, d = vectors.shape
    total = np.zeros((n_cells, heads, d))
    for start in range(0, n, _CHUNK):
        np.add.at(total, cell_of[start : start + _CHUNK], vectors[start : start + _CHUNK])
    count = np.maximum(np.bincount(cell_of, minlength=n_cells), 1)
    centre = (total / count[:, None, None]).astype(np.float32)
    radius = np.zeros((n_cells, heads))
    for start in range(0, n, _CHUNK):
        cells = cell_of[start : start + _CHUNK]
        distance = np.linalg.norm(vectors[start : start + _CHUNK].astype(np.float64) - centre[cells], axis=2)
        np.maximum.at(radius, cells, distance)
    return centre, np.nextafter(radius.astype(np.float32), np.float32(np.inf))  # rounded outwards
