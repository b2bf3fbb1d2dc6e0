"""Recency weights: how much each item of a history counts, r = γ^age with age 0 for the latest item."""

from __future__ import annotations

import numpy as np

from setwise._types import Floats, Mask


def recency_weights(filled: Mask, decay: float) -> Floats:
    """(B, T): γ^age in the filled places of padded histories, which are the first of each row; 0 elsewhere."""
    age = filled.sum(axis=1, keepdims=True) - 1 - np.arange(filled.shape[1])
    return np.where(filled, decay ** np.maximum(age, 0), 0.0)
