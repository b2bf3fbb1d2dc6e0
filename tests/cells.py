"""Vectors, cells and comparisons for the tests of retrieval backends."""

from __future__ import annotations

import numpy as np


def random_cells(seed: int):
    """Vectors and cells of many shapes: skewed, tiny, empty and low-norm cells, repeated vectors."""
    rng = np.random.default_rng(seed)
    n, d, cells = int(rng.integers(1, 400)), int(rng.integers(1, 40)), int(rng.integers(1, 12))
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    popularity = rng.random(cells) ** 4 * (rng.random(cells) < 0.9)
    popularity = popularity if popularity.sum() else np.ones(cells)
    cell_of = rng.choice(cells, size=n, p=popularity / popularity.sum()).astype(np.int32)
    vectors *= (10.0 ** rng.uniform(-3, 1, size=cells)).astype(np.float32)[cell_of, None]
    if rng.random() < 0.3:
        vectors[: n // 2] = vectors[0]
    if rng.random() < 0.2:
        vectors[rng.random(n) < 0.3] = 0.0
    users = rng.normal(size=(int(rng.integers(1, 4)), d)).astype(np.float32)
    barred = rng.random(n) < rng.random() if rng.random() < 0.5 else None
    return vectors, cell_of, cells, users, int(rng.integers(1, 15)), barred


def agree(hits, truth, vectors, users) -> None:
    """The same scores in the same places, up to the rounding of float32: rows may differ in ties only."""
    size = (np.abs(vectors).max(initial=0) * np.abs(users).sum(axis=1))[:, None, None]
    both = np.isfinite(truth.scores)
    np.testing.assert_array_equal(both, np.isfinite(hits.scores))
    difference = np.abs(np.where(both, hits.scores, 0) - np.where(both, truth.scores, 0))
    assert (difference <= 2e-6 * size).all()


def trained_kind(n: int, cells: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors, cells and users as a trained model has them: few directions matter, and items of a cell are alike."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(200, 16))[rng.integers(200, size=n)] + 0.5 * rng.normal(size=(n, 16))
    vectors = latent @ (rng.normal(size=(16, 48)) * np.linspace(1.5, 0.3, 16)[:, None]) + 0.1 * rng.normal(size=(n, 48))
    cell_of = np.argmax(latent @ rng.normal(size=(16, cells)), axis=1).astype(np.int32)
    users = vectors[rng.integers(n, size=(12, 5))].mean(axis=1)
    return vectors.astype(np.float32), cell_of, users.astype(np.float32)
