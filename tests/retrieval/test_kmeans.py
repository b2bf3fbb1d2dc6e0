"""k-means: centres are means of their points, and centres without points are moved."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.retrieval import kmeans


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lloyd_finds_separate_groups(dtype) -> None:
    rng = np.random.default_rng(0)
    middle = np.array([[0, 0], [10, 0], [0, 10]])
    points = (middle[np.arange(90) % 3] + rng.normal(size=(90, 2))).astype(dtype)
    centres, label = kmeans.lloyd(points, kmeans.draw_spread(points, 3, rng), 5)
    assert centres.dtype == dtype
    for group in range(3):
        np.testing.assert_allclose(centres[group], points[label == group].mean(axis=0), rtol=1e-5, atol=1e-5)
    assert len({tuple(label[start::3]) for start in range(3)}) == 3


def test_an_empty_centre_moves() -> None:
    points = np.array([[0.0], [1.0], [9.0]])
    first = np.array([[0.0], [0.0], [8.0]])
    centres, label = kmeans.lloyd(points, first, 1)
    assert centres.ravel().tolist() == [0.5, 1.0, 9.0], "the empty one is at a point farthest from its centre"
    assert label.tolist() == [0, 0, 2]


def test_distances_are_computed_in_pieces_and_never_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    points = np.repeat(rng.normal(size=(20, 3)), 2, axis=0)
    whole = kmeans.lloyd(points, points[:4], 3)
    monkeypatch.setattr(kmeans, "_DISTANCES", 8)
    pieces = kmeans.lloyd(points, points[:4], 3)
    np.testing.assert_array_equal(whole[0], pieces[0])
    np.testing.assert_array_equal(whole[1], pieces[1])
    assert (kmeans.squared_distances(points, points) >= 0).all()


def test_equal_points_can_be_drawn() -> None:
    points = np.ones((5, 2))
    assert kmeans.draw_spread(points, 3, np.random.default_rng(0)).shape == (3, 2)


def test_two_empty_centres_move_to_two_points() -> None:
    """Also where all distances are small."""
    centres, label = kmeans.lloyd(np.array([[0.0], [0.2], [0.3]]), np.array([[0.0], [5.0], [6.0]]), 1)
    np.testing.assert_allclose(centres.ravel(), [0.5 / 3, 0.3, 0.2])
    assert label.tolist() == [0, 0, 0]


@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_spread_points_are_drawn_once(scale: float) -> None:
    """A point that coincides with a chosen one has no chance while there are others."""
    points = scale * np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [5.0, 5.0]], 5, axis=0)
    for seed in range(20):
        drawn = kmeans.draw_spread(points, 4, np.random.default_rng(seed))
        assert len(np.unique(drawn, axis=0)) == len(drawn) == 4


def test_squared_distances() -> None:
    points, centres = np.array([[0.0, 0.0], [0.3, 0.4]]), np.array([[0.0, 0.0], [0.3, 0.0], [3.0, 4.0]])
    expected = [[0, 0.09, 25], [0.25, 0.16, 20.25]]
    np.testing.assert_allclose(kmeans.squared_distances(points, centres), expected, atol=1e-12)


@pytest.mark.parametrize(("held", "size"), [(8, 4), (3, 1), (1, 1), (100, 5)])
def test_chunks_are_the_whole_and_fit(monkeypatch: pytest.MonkeyPatch, held: int, size: int) -> None:
    monkeypatch.setattr(kmeans, "_DISTANCES", held)
    pieces = [list(range(5))[chunk] for chunk in kmeans.chunks(5, 2)]
    assert [row for piece in pieces for row in piece] == list(range(5))
    assert max(len(piece) for piece in pieces) == size
