"""What re-ranking compiles (kernels/parts.py)."""

from __future__ import annotations

import numpy as np

from setwise.recommend.rerank.rerank import rerank


def use_lists() -> None:
    """The search of a list, and its bound."""
    vectors = np.eye(4)
    vectors[1] = [0.8, 0.6, 0.0, 0.0]
    order = rerank(np.array([0.3, 0.2, 0.1, 0.0]), 3, embeddings=vectors)
    assert order.upper_bound >= order.value
