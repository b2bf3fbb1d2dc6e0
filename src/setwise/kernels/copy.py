"""Compiled copies between arrays.

A slice assignment from array to array, ``target[:n] = source[:n]``, does the same, but numba compiles its check of
shapes with it, and the text of the error: some seconds for every function that contains one.
"""

from __future__ import annotations

from setwise._types import Array
from setwise.kernels.options import OUTER, njit


@njit(**OUTER)
def copy_entries(target: Array, source: Array, count: int) -> None:
    """Copy the first ``count`` entries of ``source``."""
    for place in range(count):
        target[place] = source[place]


@njit(**OUTER)
def copy_cube(target: Array, source: Array) -> None:
    """Copy all entries of an array of three axes."""
    for a in range(source.shape[0]):
        for b in range(source.shape[1]):
            for c in range(source.shape[2]):
                target[a, b, c] = source[a, b, c]
