"""k-means: first centres and Lloyd's iterations, used for cells of items.

Points may be float32 or float64; results have the same type. Distances to centres are held a few million at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from setwise._types import Array, Rows

_DISTANCES = 1 << 22  # distances held at a time


def squared_distances(points: Array, centres: Array) -> Array:
    """‖p − c‖² for all pairs, (points, centres); never negative."""
    lengths = np.einsum("ij,ij->i", points, points)[:, None] + np.einsum("ij,ij->i", centres, centres)
    return np.asarray(np.maximum(lengths - 2 * (points @ centres.T), 0.0))


def chunks(count: int, centres: int) -> Iterator[slice]:
    """``count`` points in slices whose distances to all centres fit in memory."""
    size = max(1, _DISTANCES // centres)
    return (slice(start, start + size) for start in range(0, count, size))


def draw_spread(points: Array, count: int, rng: np.random.Generator) -> Array:
    """First centres by k-means++: each is drawn in proportion to its squared distance from those before it."""
    chosen = [int(rng.integers(len(points)))]
    nearest = squared_distances(points, points[chosen])[:, 0]
    for _ in range(count - 1):
        total = float(nearest.sum())
        draw = rng.choice(len(points), p=nearest / total) if total > 0 else rng.integers(len(points))
        chosen.append(int(draw))
        nearest = np.minimum(nearest, squared_distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]


def lloyd(points: Array, centres: Array, iterations: int) -> tuple[Array, Rows]:
    """Assign points to the nearest centre and move centres to their mean, ``iterations`` times: (centres, labels).

    A centre that loses all its points moves to the point farthest from its own centre.
    """
    label, distance = np.empty(len(points), np.intp), np.empty(len(points), points.dtype)
    for _ in range(iterations):
        for chunk in chunks(len(points), len(centres)):
            squared = squared_distances(points[chunk], centres)
            label[chunk] = nearest = np.argmin(squared, axis=1)
            distance[chunk] = squared[np.arange(len(nearest)), nearest]
        count = np.bincount(label, minlength=len(centres))
        centres = _sums(points, label, count) / np.maximum(count, 1).astype(points.dtype)[:, None]
        for empty in np.flatnonzero(count == 0):
            farthest = int(np.argmax(distance))
            centres[empty] = points[farthest]
            distance[farthest] = 0.0
    return centres, label


def _sums(points: Array, label: Rows, count: Rows) -> Array:
    """The sum of the points of each label: (labels, d)."""
    total = np.zeros((len(count), points.shape[1]), points.dtype)
    start = np.cumsum(count) - count
    total[count > 0] = np.add.reduceat(points[np.argsort(label, kind="stable")], start[count > 0], axis=0)
    return total
