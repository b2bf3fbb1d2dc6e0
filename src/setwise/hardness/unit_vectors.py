"""More unit vectors than dimensions, all nearly orthogonal; the paper derives them from Johnson and Lindenstrauss.

The lemma states only that exp(c δ²d) vectors of R^d with |u_i · u_j| ≤ δ exist; tests need actual vectors. Their Gram
matrix (1) has a unit diagonal and off-diagonal entries of at most δ and (2) is positive semi-definite of rank d. The
method projects on the two sets in turn: clip the entries; keep the d largest eigenvalues and scale the vectors to
length 1 (Tropp et al., "Designing structured tight frames via an alternating projection method").
"""

from __future__ import annotations

import math

import numpy as np

from setwise._types import Floats
from setwise._validation import real_number, whole_number
from setwise.errors import InvalidInput

_ROUNDS = 1000
_AIM = 0.95  # clip at this share of δ: the iterates approach the clipped value from above


def near_orthogonal(count: int, dimension: int, coherence: float, seed: int = 0) -> Floats:
    """``count`` unit vectors of R^dimension with |u_i · u_j| ≤ coherence for i ≠ j: (count, dimension).

    By Welch's bound there are none when coherence² < (count − dimension) / (dimension · (count − 1)).
    """
    count, dimension = whole_number("count", count), whole_number("dimension", dimension)
    coherence = real_number("coherence", coherence)
    if count <= dimension:
        return np.eye(count, dimension)
    least = math.sqrt((count - dimension) / (dimension * (count - 1)))
    todo = "raise the dimension or the coherence"
    if coherence < least:
        must = f"at least {least:.4f} for {count} vectors in {dimension} dimensions"
        raise InvalidInput("coherence", must, coherence, todo)
    vectors = _unit(np.random.default_rng(seed).standard_normal((count, dimension)))
    for _ in range(_ROUNDS):
        gram = vectors @ vectors.T
        np.fill_diagonal(gram, 0.0)
        if np.abs(gram).max() <= coherence:
            return vectors
        vectors = _unit(_factor(np.clip(gram, -_AIM * coherence, _AIM * coherence) + np.eye(count), dimension))
    reached = f"no such vectors in {_ROUNDS} rounds"
    raise InvalidInput("coherence", f"within reach for {count} vectors in {dimension} dimensions", reached, todo)


def _factor(gram: Floats, dimension: int) -> Floats:
    """U with U Uᵀ the nearest positive semi-definite matrix of rank ``dimension``."""
    eigenvalue, eigenvector = np.linalg.eigh(gram)
    return np.asarray(eigenvector[:, -dimension:] * np.sqrt(np.maximum(eigenvalue[-dimension:], 0.0)))


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
