"""Vectors sorted by cell: what several backends save. An engine's own copy is rebuilt from them on loading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Floats32, Ints
from setwise.retrieval.backends.protocol import by_cell
from setwise.storage import saved_arrays


def checked_rows(arrays: Mapping[str, Array]) -> None:
    """Refuse sorted vectors that were read from a file and are not what ``build`` makes."""
    vectors = saved_arrays.finite("vectors", saved_arrays.typed("vectors", arrays["vectors"], np.float32, (None, None)))
    saved_arrays.permutation("order", arrays["order"], len(vectors))
    saved_arrays.offsets("start", arrays["start"], None, len(vectors))


class SortedVectors:
    """Vectors in the order of their cells: row ``order[p]`` is at place p, cell c from ``start[c]`` on.

    ``build`` and ``from_arrays`` pass options on to the backend's constructor.
    """

    def __init__(self, vectors: Floats32, order: Ints, start: Ints) -> None:
        self.vectors, self.order, self.start = vectors, order, start

    @classmethod
    def build(cls, vectors: Floats32, cell_of: NDArray[np.int32], n_cells: int, **options: Any) -> Self:
        """Sort ``vectors`` by cell."""
        order, start = by_cell(cell_of, n_cells)
        return cls(vectors[order], order, start, **options)

    def arrays(self) -> dict[str, Array]:
        """The sorted vectors."""
        return {"vectors": self.vectors, "order": self.order, "start": self.start}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], **options: Any) -> Self:
        """The backend that ``arrays`` saved."""
        checked_rows(arrays)
        return cls(arrays["vectors"], arrays["order"], arrays["start"], **options)
