"""Vectors, cells and comparisons for the tests of retrieval backends."""

from __future__ import annotations

import numpy as np


def random_cells(seed: int):
    """Vectors and cells of many shapes: skewed, tiny, empty and low-norm cells, repeated vectors, a few long ones.

    One seed in twenty has a cell beyond a segment of ``scan``, one in twenty is wide, one in ten has many users.
    """
    rng = np.random.default_rng(seed)
    kind = seed % 20
    n, d, cells = int(rng.integers(1, 400)), int(rng.integers(1, 40)), int(rng.integers(1, 12))
    if kind == 19:
        d = int(rng.integers(500, 701))
    popularity = rng.random(cells) ** 4 * (rng.random(cells) < 0.9)
    popularity = popularity if popularity.sum() else np.ones(cells)
    cell_of = rng.choice(cells, size=n, p=popularity / popularity.sum()).astype(np.int32)
    if kind == 9:
        large = int(rng.choice([4095, 4096, 4097, 8192, 8193, rng.integers(4098, 9001)]))
        cell_of = rng.permutation(np.append(cell_of, np.full(large, rng.integers(cells), np.int32)))
        n = len(cell_of)
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    vectors *= (10.0 ** rng.uniform(-3, 1, size=cells)).astype(np.float32)[cell_of, None]
    if rng.random() < 0.3:
        vectors[: n // 2] = vectors[0]
    if rng.random() < 0.2:
        vectors[rng.random(n) < 0.3] = 0.0
    if rng.random() < 0.3:
        vectors *= np.where(rng.random(n) < 0.02, 1000, 10.0 ** rng.uniform(-1, 0, size=n)).astype(np.float32)[:, None]
    users = rng.normal(size=(int(rng.integers(7, 41) if kind in (4, 9) else rng.integers(1, 4)), d)).astype(np.float32)
    eligible = rng.random(n) >= rng.random() if rng.random() < 0.5 else None
    per_cell = int(rng.choice([1, rng.integers(2, 15), rng.integers(15, 60)], p=[0.2, 0.6, 0.2]))
    return vectors, cell_of, cells, users, per_cell, eligible


def agree(hits, truth, vectors, cell_of, users) -> None:
    """The same scores in the same places, up to the rounding of float32 in that cell: rows may differ in ties only."""
    size = np.zeros(truth.rows.shape[:2])
    for b, user in enumerate(np.abs(users.astype(np.float64))):
        np.maximum.at(size[b], cell_of, np.abs(vectors.astype(np.float64)) @ user)
    both = truth.rows >= 0
    np.testing.assert_array_equal(both, hits.rows >= 0)
    difference = np.abs(np.where(both, hits.scores, 0) - np.where(both, truth.scores, 0))
    assert (difference <= 1e-6 * size[:, :, None]).all()


def trained_kind(n: int, cells: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors, cells and users as a trained model has them: few directions matter, and items of a cell are alike."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(200, 16))[rng.integers(200, size=n)] + 0.5 * rng.normal(size=(n, 16))
    vectors = latent @ (rng.normal(size=(16, 48)) * np.linspace(1.5, 0.3, 16)[:, None]) + 0.1 * rng.normal(size=(n, 48))
    cell_of = np.argmax(latent @ rng.normal(size=(16, cells)), axis=1).astype(np.int32)
    users = vectors[rng.integers(n, size=(12, 5))].mean(axis=1)
    return vectors.astype(np.float32), cell_of, users.astype(np.float32)
