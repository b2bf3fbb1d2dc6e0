"""What several backends keep and save: the vectors sorted by cell. An engine's own copy is made from them anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats32
from setwise.retrieval.backends.protocol import by_cell


class SortedVectors:
    """Vectors in the order of their cells: row ``order[p]`` stands at place p, cell c from ``start[c]`` on.

    Options of a backend's constructor may be given to ``build`` and to ``from_arrays``.
    """

    def __init__(self, vectors: Floats32, order: NDArray[np.int64], start: NDArray[np.int64]) -> None:
        self.vectors, self.order, self.start = vectors, order, start

    @classmethod
    def build(cls, vectors: Floats32, cell_of: NDArray[np.int32], n_cells: int, **options: Any) -> Self:
        """Sort ``vectors`` by cell."""
        order, start = by_cell(cell_of, n_cells)
        return cls(vectors[order], order, start, **options)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The sorted vectors."""
        return {"vectors": self.vectors, "order": self.order, "start": self.start}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], **options: Any) -> Self:
        """The same backend again, from what ``arrays`` gave."""
        return cls(arrays["vectors"], arrays["order"], arrays["start"], **options)
