"""``scan``: a pass over int8 tiles, then exact float32 scores of the few that may be among the best. The default.

Exact, whatever the data: one pass reads a quarter of the memory of float32, and several users share it. The vectors and
the tiles are arrays sorted by cell, mapped from the index's file and never copied. See ``tiles.py`` and ``kernels.py``
for how and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats32
from setwise._validation import real_array, require_shape, whole_number
from setwise.retrieval import int8_tiles as tiles
from setwise.retrieval import kernels
from setwise.retrieval.backends.protocol import Hits, by_cell

Asked = tuple[Floats32, int, NDArray[np.bool_]]

_NOTHING_BARRED = np.zeros(0, np.bool_)


def asked(vectors: Floats32, users: ArrayLike, per_cell: int, barred: NDArray[np.bool_] | None) -> Asked:
    """What ``search`` was asked, in the form compiled code takes: it checks no bounds, so this does."""
    n, width = vectors.shape
    if barred is not None:
        require_shape("barred", barred, (n,))
    rows = real_array("users", users, ("count", width), np.float32)
    return (
        rows,
        whole_number("per_cell", per_cell),
        _NOTHING_BARRED if barred is None else np.ascontiguousarray(barred, np.bool_),
    )


def tiled(ordered: Floats32, start: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Vectors in groups start[g] … start[g + 1] as int8 tiles, each group beginning a tile of its own."""
    tile_start = np.zeros(len(start), np.int64)
    np.cumsum(-(-np.diff(start) // tiles.LANES), out=tile_start[1:])
    groups = (ordered.shape[1] + 1) // 2
    packed = np.zeros(int(tile_start[-1]) * groups * 2 * tiles.LANES, np.int8)
    scale = np.zeros(int(tile_start[-1]) * tiles.LANES, np.float32)
    spread = np.zeros((int(tile_start[-1]), 2))
    tiles.quantise(ordered, start, tile_start, packed, scale, spread)
    return {"tile_start": tile_start, "tiles": packed, "scale": scale, "spread": spread}


class Scan:
    """Vectors sorted by cell, and the same in tiles of sixteen int8."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = dict(arrays)

    @classmethod
    def build(cls, vectors: Floats32, cell_of: NDArray[np.int32], n_cells: int) -> Self:
        order, start = by_cell(cell_of, n_cells)
        ordered = vectors[order]
        return cls({"vectors": ordered, "order": order, "start": start, **tiled(ordered, start)})

    def search(self, users: Floats32, per_cell: int, barred: NDArray[np.bool_] | None = None) -> Hits:
        users, per_cell, out = asked(self._arrays["vectors"], users, per_cell, barred)
        hits = Hits.none(len(users), len(self._arrays["start"]) - 1, per_cell)
        parts = [self._arrays[name] for name in ("vectors", "order", "start", "tile_start", "tiles", "scale", "spread")]
        kernels.scan(*parts, users, out, hits.rows, hits.scores)
        return hits

    def arrays(self) -> dict[str, NDArray[Any]]:
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(arrays)
