"""The compiled softmax sums and the fast exponential, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from setwise.kernels.softmax import add_weight, fast_exp, fast_exp_32


@njit
def fast_exps(points):
    """``fast_exp`` of every point; it exists only inside compiled functions."""
    result = np.empty(len(points))
    for at in range(len(points)):
        result[at] = fast_exp(points[at])
    return result


@njit
def fast_exps_32(points):
    """The same in single precision."""
    result = np.empty(len(points), np.float32)
    for at in range(len(points)):
        result[at] = fast_exp_32(points[at])
    return result


@pytest.mark.parametrize("form", [add_weight, add_weight.py_func], ids=["compiled", "interpreted"])
def test_streaming_sums(form) -> None:
    logits, scores = [3.0, -np.inf, 900.0, 899.0, -5.0], [1.0, 9.0, 2.0, 4.0, 8.0]
    state = np.array([-np.inf, 0.0, 0.0])
    for logit, score in zip(logits, scores, strict=True):
        form(state, logit, score)
    assert state[1] / state[2] == pytest.approx((2 + 4 / np.e) / (1 + 1 / np.e), rel=1e-12)


@pytest.mark.parametrize("form", [add_weight, add_weight.py_func], ids=["compiled", "interpreted"])
def test_sums_after_every_item(form) -> None:
    """M, N and D by their definitions, for logits close to each other, equal ones and −∞ first."""
    logits, scores = np.array([-np.inf, 1.0, 2.5, 2.0, 2.5, 3.5]), np.array([7.0, 1.5, -2.0, 4.0, 3.0, 0.5])
    state = np.array([-np.inf, 0.0, 0.0])
    for count in range(1, len(logits) + 1):
        form(state, logits[count - 1], scores[count - 1])
        top = logits[:count].max()
        weight = np.exp(logits[:count] - (0.0 if count == 1 else top))
        np.testing.assert_allclose(state, [top, weight @ scores[:count], weight.sum()], rtol=1e-14)


def test_fast_exponentials() -> None:
    points = np.concatenate([np.linspace(-700, 700, 20_001), np.linspace(-1, 1, 2_001)])
    np.testing.assert_allclose(fast_exps(points), np.exp(points), rtol=1e-11)
    few = np.linspace(-80, 80, 4_001).astype(np.float32)
    np.testing.assert_allclose(fast_exps_32(few), np.exp(few.astype(np.float64)), rtol=1e-6)
