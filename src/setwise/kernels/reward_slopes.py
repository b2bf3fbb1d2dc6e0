"""Compiled slopes of the reward functions: the steepest that a function gets on an interval."""

from __future__ import annotations

import math

import numpy as np

from setwise._types import Floats, Ints
from setwise.kernels.options import OUTER, njit
from setwise.kernels.rewards import (
    CONSTANT,
    EXP,
    LEAKY_RELU,
    LINEAR,
    LOGISTIC,
    PIECEWISE_LINEAR,
    RELU,
    SOFTPLUS,
    TANH,
)
from setwise.kernels.softmax import LARGEST_EXPONENT


@njit(**OUTER)
def family_slope(
    code: int, first: float, second: float, third: float, knot: Floats, begin: int, end: int, low: float, high: float
) -> float:
    """The supremum of f′ on [low, high] for the family ``code`` of kernels/rewards.py; ∞ for an unknown code.

    A family φ(z), z = first·x + second, has f′ = |first| φ′(z). φ′ is a bump around 0 for the logistic and tanh, and
    does not decrease for the others but the leaky ReLU, whose two slopes may come in either order.
    """
    one, two = first * low + second, first * high + second
    least, most = min(one, two), max(one, two)
    near = max(least, min(most, 0.0))  # the point of the interval that is nearest to 0
    scale = abs(first)
    if code == LOGISTIC:
        small = math.exp(-abs(near))
        return scale * small / (1.0 + small) ** 2
    if code == LINEAR:
        return scale
    if code == RELU:
        return scale if most > 0.0 else 0.0
    if code == LEAKY_RELU:
        return scale * max(1.0 if most > 0.0 else 0.0, third if least < 0.0 else 0.0)
    if code == TANH:
        return scale * (1.0 - math.tanh(near) ** 2)
    if code == SOFTPLUS:
        small = math.exp(-abs(most))
        return scale * (1.0 if most >= 0.0 else small) / (1.0 + small)
    if code == EXP:
        return np.inf if most > LARGEST_EXPONENT else scale * math.exp(most)
    if code == PIECEWISE_LINEAR:
        return float(steepest_piece(knot, begin, end, low, high))
    if code == CONSTANT:
        return 0.0
    return np.inf


@njit(**OUTER)
def steepest_piece(knot: Floats, begin: int, end: int, low: float, high: float) -> float:
    """The largest slope of the pieces between knots that meet [low, high]."""
    steepest = 0.0
    for right in range(begin + 1, end):
        left_x, right_x = knot[right - 1, 0], knot[right, 0]
        if right_x >= low and left_x <= high:
            steepest = max(steepest, (knot[right, 1] - knot[right - 1, 1]) / (right_x - left_x))
    return steepest


@njit(**OUTER)
def table_slope(
    code: Ints, parameter: Floats, first_knot: Ints, knot: Floats, f: int, low: float, high: float
) -> float:
    """An upper bound on the slopes of function number f of a ``RewardTable`` on [low, high], rounding included.

    The interval is widened by 10⁻¹⁰ of its ends, and the slope raised by as much: more than the arithmetic can err.
    """
    margin = 1e-10 * (abs(low) + abs(high) + 1e-100)
    slope = family_slope(
        code[f], parameter[f, 0], parameter[f, 1], parameter[f, 2], knot, first_knot[f], first_knot[f + 1],
        low - margin, high + margin,
    )  # fmt: skip
    return float(slope * (1.0 + 1e-10))
