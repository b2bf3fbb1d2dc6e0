"""Top-k against its definition: the k items of largest reward alone that are not negative."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw


def instance_of(rewards: list[float]) -> sw.Instance:
    points = np.zeros((len(rewards), 1, 1))
    catalog = sw.Catalog(points, points, np.array(rewards)[:, None, None], reward=sw.Linear())
    return sw.Instance.from_catalog(catalog, np.ones((1, 1)), np.arange(len(rewards)))


@pytest.mark.parametrize(
    ("rewards", "k", "expected"),
    [
        ([1.0, 3.0, 2.0], 2, {1, 2}),
        ([2.0, 0.0, -1.0, 0.0], 3, {0, 1, 3}),  # a solver of a portfolio may have solved no similar case
        ([2.0, 0.0, -1.0, 0.0], 4, {0, 1, 3}),
        ([0.0, 0.0], 2, {0, 1}),
        ([-3.0, -1.0, -2.0], 2, {1}),
    ],
)
def test_top_k(rewards: list[float], k: int, expected: set[int]) -> None:
    """Items of reward 0 were left out, and a set with fewer items than k may be worth less."""
    ranking = sw.rank(instance_of(rewards), k, "top-k")
    assert set(ranking.indices.tolist()) == expected
