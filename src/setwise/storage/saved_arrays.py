"""Checks of arrays that were read from a file.

A digest shows that a file is the one that was written, not that what was written makes sense. Compiled code does not
check bounds, so no array may reach it before its type, shape and ranges are checked: here, once, when an artifact is
opened.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

from setwise._types import Array
from setwise.errors import InvalidInput

Shape = tuple[int | None, ...]  # None: any length
_CHUNK = 1 << 20  # numbers that are compared at a time


def _wrong(name: str, must: str, got: object) -> InvalidInput:
    return InvalidInput(f"array '{name}'", must, got, "save it again")


def typed(name: str, array: Array, dtype: DTypeLike, shape: Shape) -> Array:
    """The array, if it has this type and shape."""
    fits = array.ndim == len(shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        lengths = ", ".join("any" if want is None else str(want) for want in shape)
        raise _wrong(name, f"{np.dtype(dtype)} of shape ({lengths})", f"{array.dtype} of shape {array.shape}")
    return array


def ranged(name: str, array: Array, low: float, high: float) -> Array:
    """The array, if no number is less than ``low``, more than ``high`` or NaN."""
    if array.size and not (array.min() >= low and array.max() <= high):
        raise _wrong(name, f"numbers from {low} to {high}", f"from {array.min()} to {array.max()}")
    return array


def offsets(name: str, array: Array, count: int | None, end: int) -> NDArray[np.int64]:
    """The array, if it is int64, begins with 0, never decreases and ends with ``end``; it has count + 1 entries."""
    typed(name, array, np.int64, (None if count is None else count + 1,))
    if not len(array) or array[0] != 0 or array[-1] != end or (array[1:] < array[:-1]).any():
        raise _wrong(name, f"offsets that rise from 0 to {end}", "others")
    return array


def permutation(name: str, array: Array, n: int) -> NDArray[np.int64]:
    """The array, if it holds each of 0 … n − 1 once."""
    ranged(name, typed(name, array, np.int64, (n,)), 0, n - 1)
    seen = np.zeros(n, bool)
    seen[array] = True
    if not seen.all():
        raise _wrong(name, f"each row from 0 to {n - 1} once", "repetitions")
    return array


def finite(name: str, array: Array) -> Array:
    """The array, if all its numbers are finite."""
    flat = array.reshape(-1)
    for start in range(0, len(flat), _CHUNK):
        if not np.isfinite(flat[start : start + _CHUNK]).all():
            raise _wrong(name, "finite numbers", "NaN or infinity")
    return array
