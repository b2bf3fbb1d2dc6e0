"""Compiled parts of a softmax average: a fast exponential, and sums that never overflow.

A streaming softmax keeps, for one row of attention, the largest logit M so far, N = Σ_j e^(l_j − M) s_j and
D = Σ_j e^(l_j − M). A larger logit rescales N and D. The average is N / D for logits of any size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from setwise._types import Floats
from setwise.kernels.options import FAST, OUTER, njit

LARGEST_EXPONENT = 709.782712893384  # e to this power is the largest double
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
ONE, HALF, SIXTH, LOG2_E_32 = (np.float32(number) for number in (1, 1 / 2, 1 / 6, LOG2_E))
LN2_HIGH_32, LN2_LOW_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
E4, E5, E6 = np.float32(1 / 24), np.float32(1 / 120), np.float32(1 / 720)


@intrinsic
def power_of_two(typing_context: Any, exponent: Any) -> Any:
    """2^n as a double, built from its bits: ``fast_exp`` then contains no call, and loops over it vectorise."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.get_value_type(types.int64)
        bits = builder.shl(builder.add(arguments[0], whole(1023)), whole(52))
        return builder.bitcast(bits, context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@intrinsic
def power_of_two_32(typing_context: Any, exponent: Any) -> Any:
    """2^n in single precision, built from its bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.get_value_type(types.int32)
        bits = builder.shl(builder.add(arguments[0], whole(127)), whole(23))
        return builder.bitcast(bits, context.get_value_type(types.float32))

    return types.float32(types.int32), generate


@njit(fastmath=FAST, error_model="numpy", inline="always")
def fast_exp(x: Any) -> Any:
    """e^x for |x| ≤ 700 to a relative 1e-11: a Taylor polynomial on |r| ≤ ln 2 / 2, times a power of two."""
    n = np.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    high = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r / 362880)))
    p = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * high))))
    return p * power_of_two(np.int64(n))


@njit(fastmath=FAST, error_model="numpy", inline="always")
def fast_exp_32(x: Any) -> Any:
    """e^x for |x| ≤ 80 in single precision, to a relative 1e-7."""
    n = np.floor(x * LOG2_E_32 + HALF)
    r = (x - n * LN2_HIGH_32) - n * LN2_LOW_32
    p = ONE + r * (ONE + r * (HALF + r * (SIXTH + r * (E4 + r * (E5 + r * E6)))))
    return p * power_of_two_32(np.int32(n))


@njit(**OUTER)
def add_weight(state: Floats, logit: float, score: float) -> None:
    """Add an attended item with this logit and score to the streaming sums state = (M, N, D)."""
    if logit == -np.inf:
        return
    if logit > state[0]:
        scale = math.exp(state[0] - logit)
        state[0] = logit
        state[1] = state[1] * scale + score
        state[2] = state[2] * scale + 1.0
    else:
        weight = math.exp(logit - state[0])
        state[1] += weight * score
        state[2] += weight
