"""Reward functions compiled: one value exactly, or a whole row of values at once.

They arrive as rows of a ``RewardTable``: a code, three parameters, knots.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from setwise._types import Floats, Ints

LOGISTIC = 0  # its code
LARGEST_EXPONENT = 709.782712893384  # e to it is the largest double
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
ONE, HALF, SIXTH, LARGEST_32, LOG2_E_32 = (np.float32(number) for number in (1, 1 / 2, 1 / 6, 80, LOG2_E))
LN2_HIGH_32, LN2_LOW_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
E4, E5, E6 = np.float32(1 / 24), np.float32(1 / 120), np.float32(1 / 720)
FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}  # fast arithmetic, but NaN and infinities keep their meaning


@njit(cache=True, nogil=True, error_model="numpy")
def reward_value(code: int, parameter: Floats, knot: Floats, x: float) -> float:
    """f(x) for one function of a ``RewardTable``; the codes are those of rewards.py."""
    if code == 8:
        return float(parameter[0])
    if code == 7:
        if x <= knot[0, 0]:
            return float(knot[0, 1])
        for right in range(1, len(knot)):
            if x < knot[right, 0]:
                slope = (knot[right, 1] - knot[right - 1, 1]) / (knot[right, 0] - knot[right - 1, 0])
                return float(knot[right - 1, 1] + slope * (x - knot[right - 1, 0]))
        return float(knot[-1, 1])
    z = parameter[0] * x + parameter[1]
    if code == 0:
        small = math.exp(-abs(z))
        return (1.0 if z >= 0.0 else small) / (1.0 + small)
    if code == 1:
        return float(z)
    if code == 2:
        return float(max(z, 0.0))
    if code == 3:
        return float(z if z >= 0 else parameter[2] * z)
    if code == 4:
        return math.tanh(z)
    if code == 5:
        return float(max(z, 0.0)) + math.log1p(math.exp(-abs(z)))
    grown = np.inf if z > LARGEST_EXPONENT else math.exp(z)
    return float(grown if parameter[0] > 0 else -grown)


@njit(cache=True, nogil=True, error_model="numpy")
def table_value(code: Ints, parameter: Floats, first_knot: Ints, knot: Floats, f: int, x: float) -> float:
    """f(x) for function number f of a whole ``RewardTable``."""
    if code[f] == LOGISTIC:
        z = parameter[f, 0] * x + parameter[f, 1]
        small = math.exp(-abs(z))
        return (1.0 if z >= 0.0 else small) / (1.0 + small)
    return float(reward_value(code[f], parameter[f], knot[first_knot[f] : first_knot[f + 1]], x))


@intrinsic
def _power_of_two(typing_context: Any, exponent: Any) -> Any:
    """2^n as a double, made of its bits: keeps ``_exp`` free of calls, so that loops over it vectorise."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.get_value_type(types.int64)
        bits = builder.shl(builder.add(arguments[0], whole(1023)), whole(52))
        return builder.bitcast(bits, context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@njit(fastmath=FAST, error_model="numpy", inline="always")
def _exp(x: Any) -> Any:
    """e^x for |x| ≤ 700 to a relative 1e-11: a Taylor polynomial on |r| ≤ ln 2 / 2, times a power of two."""
    n = np.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    high = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r / 362880)))
    p = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * high))))
    return p * _power_of_two(np.int64(n))


@njit(fastmath=FAST, error_model="numpy", inline="always")
def logistic(z: Any) -> Any:
    """1 / (1 + e^−z) to a relative 1e-11 (z is cut at ±700)."""
    return 1.0 / (1.0 + _exp(-min(max(z, -700.0), 700.0)))


@intrinsic
def _power_of_two_32(typing_context: Any, exponent: Any) -> Any:
    """2^n in single precision."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.get_value_type(types.int32)
        bits = builder.shl(builder.add(arguments[0], whole(127)), whole(23))
        return builder.bitcast(bits, context.get_value_type(types.float32))

    return types.float32(types.int32), generate


@njit(fastmath=FAST, error_model="numpy", inline="always")
def logistic_32(z: Any) -> Any:
    """1 / (1 + e^−z) in single precision, to about 1e-7 (z is cut at ±80)."""
    x = -min(max(z, -LARGEST_32), LARGEST_32)
    n = np.floor(x * LOG2_E_32 + HALF)
    r = (x - n * LN2_HIGH_32) - n * LN2_LOW_32
    p = ONE + r * (ONE + r * (HALF + r * (SIXTH + r * (E4 + r * (E5 + r * E6)))))
    return ONE / (ONE + p * _power_of_two_32(np.int32(n)))


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def add_rewards(code: int, parameter: Floats, knot: Floats, argument: Floats, total: Floats) -> None:
    """Add f(argument) to total, entry by entry, for one reward function; the logistic one without a call."""
    if code == LOGISTIC:
        scale, bias = parameter[0], parameter[1]
        for j in range(len(total)):
            total[j] += logistic(scale * argument[j] + bias)
    else:
        for j in range(len(total)):
            total[j] += reward_value(code, parameter, knot, argument[j])
