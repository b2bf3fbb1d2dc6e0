"""``faiss``: an inverted file whose lists are our cells, every list of it scanned for every user.

By default faiss searches the nearest lists and merges their results; Phase One needs every list, unmerged. So each
(user, cell) pair is a query of its own, preassigned to the list of its cell, and faiss scans that list. The scan is
exact.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from setwise._types import Floats32, Ints, Mask
from setwise.errors import InvalidInput
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.backends.sorted_vectors import SortedVectors


class Faiss(SortedVectors):
    """The vectors sorted by cell, which are saved, and faiss's copy of them, which is made again on loading.

    faiss's own files are never read: a damaged one can crash the process.
    """

    def __init__(self, vectors: Floats32, order: Ints, start: Ints) -> None:
        super().__init__(vectors, order, start)
        width, cells = vectors.shape[1], len(start) - 1
        # The quantizer would assign queries to lists. Ours are preassigned: it is empty, the index counts as trained.
        index: Any = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, cells, faiss.METRIC_INNER_PRODUCT)
        index.is_trained = True
        lists = np.repeat(np.arange(cells), np.diff(start))
        index.add_core(len(vectors), faiss.swig_ptr(vectors), faiss.swig_ptr(order), faiss.swig_ptr(lists))
        self._index = index

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        self._check(users)
        cells = len(self.start) - 1
        queries = np.repeat(users, cells, axis=0)
        lists = np.tile(np.arange(cells), len(users))
        unused = np.zeros(len(queries), np.float32)  # distances to centroids, which a flat list does not need
        rows = np.empty((len(users), cells, per_cell), np.int64)
        scores = np.empty((len(users), cells, per_cell), np.float32)
        # The wrapper without "_c" takes no search parameters, hence no selector. Both run on the calling thread:
        # faiss divides queries among OpenMP threads in ``search`` only.
        self._index.search_preassigned_c(
            len(queries),
            faiss.swig_ptr(queries),
            per_cell,
            faiss.swig_ptr(lists),
            faiss.swig_ptr(unused),
            faiss.swig_ptr(scores),
            faiss.swig_ptr(rows),
            False,  # rows, not (list, offset) pairs
            None if eligible is None else _only(eligible),
        )
        scores[rows < 0] = -np.inf  # faiss fills empty places with the lowest finite float
        return Hits(rows, scores)

    def _check(self, users: Floats32) -> None:
        """Refuse users of another width: faiss reads bare pointers and would read past their end."""
        width = self.vectors.shape[1]
        if users.ndim != 2 or users.shape[1] != width:
            raise InvalidInput("users", f"of shape (B, {width})", f"shape {users.shape}", "pass one row per user")


def _only(eligible: Mask) -> Any:
    """Search parameters that admit the ``eligible`` rows."""
    allowed = np.packbits(eligible, bitorder="little")
    return faiss.SearchParametersIVF(sel=faiss.IDSelectorBitmap(allowed), nprobe=1)
