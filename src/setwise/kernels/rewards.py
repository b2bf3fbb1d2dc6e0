"""Compiled reward functions. ``family_value`` is the only place where a reward code selects a function.

Rewards arrive as rows of a ``RewardTable``: a code, three parameters, interpolation knots. ``RewardTable`` refuses
codes that are not in the registry of model/rewards.py. As a second line of defence an unknown code evaluates to NaN:
values become NaN, and bounds, which treat NaN as infinite, prove nothing.

Most families are φ(z) with z = scale·x + bias. Bounds evaluate the same functions rounded upwards: they pass a z that
is rounded so that f(x) rises, and a relative ``rounding`` for interpolated values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from setwise._types import Floats, Ints
from setwise.kernels.options import FAST, OUTER, njit
from setwise.kernels.softmax import LARGEST_EXPONENT, ONE, fast_exp, fast_exp_32

# The codes of the families in model/rewards.py.
LOGISTIC, LINEAR, RELU, LEAKY_RELU, TANH, SOFTPLUS, EXP, PIECEWISE_LINEAR, CONSTANT = range(9)

LARGEST_32 = np.float32(80)


@njit(**OUTER)
def family_value(
    code: int, first: float, second: float, third: float, knot: Floats, begin: int, end: int, x: float, z: float,
    rounding: float,
) -> float:  # fmt: skip
    """f(x) for the family ``code``; NaN for an unknown code.

    first, second, third   the parameters; z is first·x + second, exact or rounded so that f(x) rises
    knot[begin:end]        the knots of an interpolated function, whose values are raised by ``rounding`` of their size
    """
    if code == LOGISTIC:
        small = math.exp(-abs(z))
        return (1.0 if z >= 0.0 else small) / (1.0 + small)
    if code == LINEAR:
        return z
    if code == RELU:
        return max(z, 0.0)
    if code == LEAKY_RELU:
        return z if z >= 0.0 else third * z
    if code == TANH:
        return math.tanh(z)
    if code == SOFTPLUS:
        return max(z, 0.0) + math.log1p(math.exp(-abs(z)))
    if code == EXP:
        grown = np.inf if z > LARGEST_EXPONENT else math.exp(z)
        return grown if first > 0.0 else -grown
    if code == PIECEWISE_LINEAR:
        return float(interpolate(knot, begin, end, x, rounding))
    if code == CONSTANT:
        return first
    return np.nan


@njit(**OUTER)
def interpolate(knot: Floats, begin: int, end: int, x: float, rounding: float) -> float:
    """Linear interpolation of the non-decreasing knots (x, y), constant outside of them, rounded upwards."""
    if x <= knot[begin, 0]:
        return float(knot[begin, 1])
    for right in range(begin + 1, end):
        if x < knot[right, 0]:
            low, high = knot[right - 1, 1], knot[right, 1]
            share = (x - knot[right - 1, 0]) / (knot[right, 0] - knot[right - 1, 0])
            return float(min(low + share * (high - low) + rounding * (abs(low) + abs(high)), high))
    return float(knot[end - 1, 1])


@njit(**OUTER)
def reward_value(code: int, parameter: Floats, knot: Floats, x: float) -> float:
    """f(x) for one function: a code, its row of parameters, its knots."""
    z = parameter[0] * x + parameter[1]
    begin, end = np.int64(0), np.int64(len(knot))
    return float(family_value(code, parameter[0], parameter[1], parameter[2], knot, begin, end, x, z, 0.0))


@njit(**OUTER)
def table_value(code: Ints, parameter: Floats, first_knot: Ints, knot: Floats, f: int, x: float) -> float:
    """f(x) for function number f of a whole ``RewardTable``."""
    scale, bias, begin, end = parameter[f, 0], parameter[f, 1], first_knot[f], first_knot[f + 1]
    return float(family_value(code[f], scale, bias, parameter[f, 2], knot, begin, end, x, scale * x + bias, 0.0))


@njit(**OUTER)
def has_fast_path(code: int) -> bool:
    """Whether the family has single-precision code, ``logistic_32``, which takes scale and bias alone."""
    return code == LOGISTIC


@njit(fastmath=FAST, error_model="numpy", inline="always")
def logistic(z: Any) -> Any:
    """1 / (1 + e^−z) to a relative 1e-11 (z is clipped to ±700)."""
    return 1.0 / (1.0 + fast_exp(-min(max(z, -700.0), 700.0)))


@njit(fastmath=FAST, error_model="numpy", inline="always")
def logistic_32(z: Any) -> Any:
    """1 / (1 + e^−z) in single precision, to about 1e-7 (z is clipped to ±80)."""
    return ONE / (ONE + fast_exp_32(-min(max(z, -LARGEST_32), LARGEST_32)))


@njit(**OUTER, fastmath=FAST)
def add_rewards(code: int, parameter: Floats, knot: Floats, weight: float, argument: Floats, total: Floats) -> None:
    """Add weight · f(argument) to total, entry by entry, for one function; the loops of the first two vectorise."""
    if code == LOGISTIC:
        scale, bias = parameter[0], parameter[1]
        for j in range(len(total)):
            total[j] += weight * logistic(scale * argument[j] + bias)
    elif code == LINEAR:
        scale, bias = parameter[0], parameter[1]
        for j in range(len(total)):
            total[j] += weight * (scale * argument[j] + bias)
    else:
        for j in range(len(total)):
            total[j] += weight * reward_value(code, parameter, knot, argument[j])
