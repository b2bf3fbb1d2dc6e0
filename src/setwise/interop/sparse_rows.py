"""Histories as rows of a sparse matrix, which is how implicit and scikit-learn take users."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from setwise._types import Rows
from setwise.errors import MissingDependency


def history_matrix(histories: Sequence[Rows], n_items: int) -> Any:
    """A matrix (histories, n_items) in compressed rows with 1 for every item of a history; repeats count once."""
    if find_spec("scipy") is None:
        raise MissingDependency("scipy", "folding in a history", "interop")
    from scipy.sparse import csr_matrix

    distinct = [np.unique(rows) for rows in histories]
    start = np.zeros(len(distinct) + 1, np.int32)
    np.cumsum([len(rows) for rows in distinct], out=start[1:])
    columns = np.concatenate([np.empty(0, np.int32), *distinct]).astype(np.int32)
    return csr_matrix((np.ones(len(columns), np.float32), columns, start), shape=(len(distinct), n_items))
