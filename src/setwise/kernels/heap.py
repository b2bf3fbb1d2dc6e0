"""A compiled binary max-heap in two arrays: keys, and an integer entry for each.

The largest key is at index 0. The caller keeps the number of entries. For the smallest key on top, store −key.
"""

from __future__ import annotations

from setwise._types import Floats, Ints
from setwise.kernels.options import INNER, njit


@njit(**INNER)
def push_entry(keys: Floats, entries: Ints, size: int, key: float, entry: int) -> None:
    """Add an entry to a heap of ``size`` entries."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if keys[parent] >= key:
            break
        keys[at], entries[at] = keys[parent], entries[parent]
        at = parent
    keys[at], entries[at] = key, entry


@njit(**INNER)
def replace_top(keys: Floats, entries: Ints, size: int, key: float, entry: int) -> None:
    """Replace the top of a heap of ``size`` entries."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[at], entries[at] = keys[child], entries[child]
        at = child
    keys[at], entries[at] = key, entry


@njit(**INNER)
def pop_top(keys: Floats, entries: Ints, left: int) -> None:
    """Remove the top of a heap, after which ``left`` entries are left."""
    replace_top(keys, entries, left, keys[left], entries[left])
