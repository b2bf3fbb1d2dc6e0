"""``scan``: a pass over int8 tiles, then exact float32 scores of the few rows that may be among the best. The default.

The result is exact for any data. A pass reads a quarter of the memory of float32, and several users share it. Vectors
and tiles are arrays sorted by cell, mapped from the index's file and never copied. ``int8_tiles.py`` and
``retrieval/kernels.py`` explain the method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Array, Floats32, Ints, Mask
from setwise._validation import frozen, read_only, real_array, require_shape, whole_number
from setwise.errors import InvalidInput
from setwise.retrieval import int8_tiles as tiles
from setwise.retrieval import kernels
from setwise.retrieval.backends.protocol import Hits, by_cell
from setwise.retrieval.backends.sorted_vectors import checked_rows
from setwise.storage import saved_arrays

_ALL_ELIGIBLE = frozen(np.zeros(0, np.bool_))  # compiled code reads an empty mask as no restriction


def checked(vectors: Floats32, users: ArrayLike, per_cell: int, eligible: Mask | None) -> tuple[Floats32, int, Mask]:
    """The arguments of ``search``, checked and converted for compiled code, which does not check bounds."""
    n, width = vectors.shape
    if eligible is not None:
        require_shape("eligible", eligible, (n,))
    rows = real_array("users", users, ("count", width), np.float32)
    return (
        rows,
        whole_number("per_cell", per_cell),
        _ALL_ELIGIBLE if eligible is None else read_only(np.asarray(eligible, np.bool_)),
    )


def tiled(ordered: Floats32, start: Ints) -> dict[str, Array]:
    """Vectors in groups start[g] … start[g + 1] as int8 tiles, each group starting a new tile."""
    tile_start = np.zeros(len(start), np.int64)
    np.cumsum(-(-np.diff(start) // tiles.LANES), out=tile_start[1:])
    groups = (ordered.shape[1] + 1) // 2
    packed = np.zeros(int(tile_start[-1]) * groups * 2 * tiles.LANES, np.int8)
    scale = np.zeros(int(tile_start[-1]) * tiles.LANES, np.float32)
    spread = np.zeros((int(tile_start[-1]), 2))
    tiles.quantise(ordered, start, tile_start, packed, scale, spread)
    return {"tile_start": tile_start, "tiles": packed, "scale": scale, "spread": spread}


def checked_tiles(arrays: Mapping[str, Array]) -> None:
    """Refuse tiles that were read from a file and are not those of the groups ``start`` of the vectors."""
    start, width = arrays["start"], arrays["vectors"].shape[1]
    ends = np.cumsum(-(-np.diff(start) // tiles.LANES))
    count = int(ends[-1]) if len(ends) else 0
    saved_arrays.offsets("tile_start", arrays["tile_start"], len(start) - 1, count)
    if not np.array_equal(arrays["tile_start"][1:], ends):
        raise InvalidInput("array 'tile_start'", "the tiles of each group", "others", "save it again")
    saved_arrays.typed("tiles", arrays["tiles"], np.int8, (count * ((width + 1) // 2) * 2 * tiles.LANES,))
    saved_arrays.finite("scale", saved_arrays.typed("scale", arrays["scale"], np.float32, (count * tiles.LANES,)))
    saved_arrays.finite("spread", saved_arrays.typed("spread", arrays["spread"], np.float64, (count, 2)))


class Scan:
    """Vectors sorted by cell, and the same vectors as tiles of sixteen int8 items."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = {name: read_only(array) for name, array in arrays.items()}

    @classmethod
    def build(cls, vectors: Floats32, cell_of: NDArray[np.int32], n_cells: int) -> Self:
        order, start = by_cell(cell_of, n_cells)
        ordered = vectors[order]
        return cls({"vectors": ordered, "order": order, "start": start, **tiled(ordered, start)})

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        users, per_cell, mask = checked(self._arrays["vectors"], users, per_cell, eligible)
        hits = Hits.none(len(users), len(self._arrays["start"]) - 1, per_cell)
        parts = [self._arrays[name] for name in ("vectors", "order", "start", "tile_start", "tiles", "scale", "spread")]
        kernels.scan(*parts, users, mask, hits.rows, hits.scores)
        return hits

    def arrays(self) -> dict[str, Array]:
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        checked_rows(arrays)
        checked_tiles(arrays)
        return cls(arrays)
