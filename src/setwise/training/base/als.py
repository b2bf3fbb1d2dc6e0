"""Alternating least squares for implicit feedback, by the library ``implicit``.

Every (session, item) pair is an example with target 1 if the session holds the item and 0 otherwise; observed pairs
weigh ``confidence`` times as much. The score of an item is the inner product of its factors with those of the history.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from setwise.errors import MissingDependency
from setwise.model.fold_in import FoldIn


def fit_als(
    matrix: Any, factors: int, regularization: float, confidence: float, iterations: int = 15, seed: int = 0
) -> FoldIn:
    """Factorise ``matrix`` (sessions, n); the same matrix, settings and seed give the same factors."""
    try:
        library, pools = importlib.import_module("implicit.als"), importlib.import_module("threadpoolctl")
    except ImportError:
        raise MissingDependency("implicit", "alternating least squares", "train") from None
    with pools.threadpool_limits(1, "blas"):  # implicit runs one thread per core itself
        model = library.AlternatingLeastSquares(
            factors=min(factors, *matrix.shape),
            regularization=regularization,
            alpha=confidence,
            iterations=iterations,
            random_state=seed,
            use_gpu=False,
        )
        model.fit(matrix, show_progress=False)
    return FoldIn.of(np.array(model.item_factors, np.float32), confidence, regularization)
