"""Whole numbers that doubles and 64-bit sums represent exactly: up to 2^53, also their sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._validation import Shape, numbers, require_shape
from setwise.errors import InvalidInput

LARGEST = 2**53  # above it float64 skips whole numbers


def whole_array(parameter: str, given: ArrayLike, shape: Shape) -> NDArray[np.int64]:
    """``given`` as an array of whole numbers from 0 to 2^53."""
    array = numbers(parameter, given)
    require_shape(parameter, array, shape)
    if array.dtype.kind not in "iu" or array.min(initial=0) < 0:
        got = f"dtype {array.dtype} from {array.min(initial=0)}"
        raise InvalidInput(parameter, "whole numbers of at least 0", got, "multiply until they are whole")
    if array.max(initial=0) > LARGEST:
        raise InvalidInput(parameter, "whole numbers of at most 2^53", array.max(), "scale them down")
    return array.astype(np.int64)


def require_small_sums(parameter: str, array: NDArray[Any]) -> None:
    """Raise InvalidInput for numbers of at least 0 whose sum along the last axis is 2^53 or more."""
    total = float(array.sum(axis=-1, dtype=np.float64).max(initial=0.0))
    if total >= LARGEST:
        raise InvalidInput(parameter, "numbers that add up to less than 2^53", f"{total:.3g}", "scale them down")
