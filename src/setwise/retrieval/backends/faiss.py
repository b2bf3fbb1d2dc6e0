"""``faiss``: an inverted file whose lists are our cells, every list of it scanned for every user.

faiss is made to find the nearest lists and to merge what it finds in them; we want every list, unmerged. So each
(user, cell) pair is a query of its own, assigned beforehand to the one list of its cell, and faiss is left with what
it does well: a fast scan of a list of vectors. The scan is exact.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats32
from setwise.errors import InvalidInput
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.backends.sorted_vectors import SortedVectors


class Faiss(SortedVectors):
    """The vectors sorted by cell, which are saved, and faiss's copy of them, which is made anew on loading.

    faiss's own files are never read: a damaged one can crash the process.
    """

    def __init__(self, vectors: Floats32, order: NDArray[np.int64], start: NDArray[np.int64]) -> None:
        super().__init__(vectors, order, start)
        self._index = _inverted_file(vectors, order, start)

    def search(self, users: Floats32, per_cell: int, barred: NDArray[np.bool_] | None = None) -> Hits:
        self._check(users)
        cells = len(self.start) - 1
        queries = np.repeat(users, cells, axis=0)
        lists = np.tile(np.arange(cells), len(users))
        unused = np.zeros(len(queries), np.float32)  # distances to centroids, which a flat list does not need
        rows = np.empty((len(users), cells, per_cell), np.int64)
        scores = np.empty((len(users), cells, per_cell), np.float32)
        # The wrapper without "_c" takes no parameters, so no selector either. In either, the calling thread does all
        # the work: faiss divides queries among OpenMP threads in ``search`` only.
        self._index.search_preassigned_c(
            len(queries),
            faiss.swig_ptr(queries),
            per_cell,
            faiss.swig_ptr(lists),
            faiss.swig_ptr(unused),
            faiss.swig_ptr(scores),
            faiss.swig_ptr(rows),
            False,  # rows, not (list, offset) pairs
            None if barred is None else _all_but(barred),
        )
        scores[rows < 0] = -np.inf  # where faiss has left the lowest finite float
        return Hits(rows, scores)

    def _check(self, users: Floats32) -> None:
        """Refuse users of another width: faiss gets bare pointers and would read past their end."""
        width = self.vectors.shape[1]
        if users.ndim != 2 or users.shape[1] != width:
            raise InvalidInput("users", f"of shape (B, {width})", users.shape, "give one row per user")


def _inverted_file(vectors: Floats32, order: NDArray[np.int64], start: NDArray[np.int64]) -> Any:
    """The index with ``order`` as ids and, as list c, the vectors from ``start[c]`` to ``start[c + 1]``."""
    width, cells = vectors.shape[1], len(start) - 1
    # The quantizer finds lists, and ours are given: it stays empty, and the index is declared trained.
    index: Any = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, cells, faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    lists = np.repeat(np.arange(cells), np.diff(start))
    index.add_core(len(vectors), faiss.swig_ptr(vectors), faiss.swig_ptr(order), faiss.swig_ptr(lists))
    return index


def _all_but(barred: NDArray[np.bool_]) -> Any:
    """Search parameters that admit the rows which are not ``barred``."""
    allowed = np.packbits(~barred, bitorder="little")
    return faiss.SearchParametersIVF(sel=faiss.IDSelectorBitmap(allowed), nprobe=1)
