"""Sessions as a sparse matrix, and sparse matrices cut to the strongest entries of each row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from setwise._types import Array, Ints
from setwise.errors import MissingDependency
from setwise.model.ragged import Ragged


def session_matrix(lists: Ragged, n: int) -> Any:
    """X (sessions, n) in compressed rows: 1 where a session holds an item; repeated items count once."""
    matrix = scipy_sparse().csr_matrix(
        (np.ones(len(lists.values), np.float32), lists.values, lists.offsets), shape=(len(lists), n)
    )
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def strongest(block: Array, most: int) -> tuple[Ints, Array, Ints]:
    """The ``most`` largest positive entries of each row of a dense block: columns, values, and counts per row."""
    limit = np.zeros(len(block), block.dtype)
    if most < block.shape[1]:
        limit = np.maximum(np.partition(block, -most, axis=1)[:, -most], 0)
    kept = (block >= limit[:, None]) & (block > 0)
    return np.nonzero(kept)[1], block[kept], kept.sum(axis=1)


def cut(matrix: Any, most: int) -> Any:
    """A sparse matrix with the ``most`` largest positive entries of each row only; ``matrix`` is overwritten."""
    matrix = matrix.tocsr()
    for start, end in itertools.pairwise(matrix.indptr):
        row = matrix.data[start:end]
        limit = np.partition(row, -most)[-most] if len(row) > most else 0.0
        row[row < max(limit, 0.0)] = 0.0
    matrix.eliminate_zeros()
    return matrix


def scipy_sparse() -> Any:
    """scipy.sparse, or an error that says how to install it."""
    return scipy_for("training a base model").sparse


def scipy_for(purpose: str) -> Any:
    """Scipy with sparse matrices and optimisers, or an error that says how to install it."""
    try:
        import scipy.optimize
        import scipy.sparse
    except ImportError:
        raise MissingDependency("scipy", purpose, "train") from None
    return scipy
