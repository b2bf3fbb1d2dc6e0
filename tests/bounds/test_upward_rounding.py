"""Bounds on candidates are rounded upwards, and rows whose weights doubles cannot hold together are bounded otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.bounds.candidates.branch_and_bound import _instance_arrays, _is_wide
from setwise.bounds.candidates.item_bounds import PAD, SHARE, SINK, padded
from setwise.model.constraints import Constraints

pytestmark = pytest.mark.promise("bounds")


@pytest.mark.parametrize(("x", "expected"), [(2.0, 2.063), (-2.0, -1.937), (0.0, 0.003)])
def test_padding_by_hand(x: float, expected: float) -> None:
    """x + 3 (absolute + relative |x|), of the head that is named."""
    plain = getattr(padded, "py_func", padded)  # compiled code has no wrapper for Python
    head = np.zeros((2, 4))
    head[1, PAD], head[1, SHARE] = 1e-3, 1e-2
    assert plain(x, head, 1) == pytest.approx(expected)
    assert plain(x, head, 0) == x


def test_padding_is_above_the_errors_of_the_arithmetic() -> None:
    """Averages are right to some parts in 10^13 of the largest score in size, also where scores are negative."""
    sink = {"sink_logit": np.zeros((1, 3)), "sink_score": [-7.0]}
    instance = sw.Instance(np.zeros((3, 3)), [-5.0, 1.0, 2.0], base=[0.0, -4.0, 3.0], **sink)
    scores = np.array([[-5.0, 1.0, 2.0, -7.0]])
    data = _instance_arrays(instance, Constraints.of(instance, 2), scores, 1e-12, None)
    assert data.head[0, SINK] == -7.0
    assert data.head[0, PAD] == pytest.approx(7e-12)
    assert data.head[0, SHARE] == pytest.approx(1e-12)
    np.testing.assert_allclose(data.base[:, 1], [0.0, 4e-12, 3e-12])
    above = _instance_arrays(instance, Constraints.of(instance, 2), np.array([[5.0, 1.0]]), 1e-12, None)
    assert above.head[0, PAD] == 0.0


def test_wide_rows_by_hand() -> None:
    """More than 600 between the logits of a row, the sink's included; weights of 0 are exact."""
    tiny, small = np.exp(-601.0), np.exp(-599.0)
    weight = np.array([[[1.0, tiny], [1.0, small], [1.0, 0.0], [1.0, 1.0]]])
    sink = np.array([[1.0, 1.0, 1.0, tiny]])
    assert _is_wide(weight, sink).tolist() == [[True, False, False, True]]
    assert _is_wide(weight[:, 1:], sink[:, :3]).tolist() == [[False, False, False]]


def test_rows_of_every_spread_are_bounded(count) -> None:
    """Logits down to −3,000: of weights that are floored at e^−700, averages and hence bounds come out too low."""
    for seed in range(count(60, 6)):
        rng = np.random.default_rng(seed)
        instance = sw.Instance(rng.uniform(-3000, 0, size=(9, 9)), rng.normal(size=9), sw.Logistic(3.0, -2.0))
        best = sw.rank(instance, 4, "exhaustive").value
        assert sw.upper_bound(instance, 4) >= best * (1 - 1e-12)
