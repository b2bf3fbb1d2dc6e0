"""The compiled heap and the lists of largest values, against sorting."""

from __future__ import annotations

import numpy as np
from numba import njit

from setwise.kernels.heap import pop_top, push_entry, replace_top
from setwise.kernels.largest import keep_largest, keep_largest_item, keep_largest_repeated


@njit
def sort_by_heap(values, first_replaced):
    """Push all values, replace the top ``first_replaced`` times by one less than it, and pop all."""
    size = len(values)
    keys, entries = np.empty(size), np.empty(size, np.int64)
    for at in range(size):
        push_entry(keys, entries, at, values[at], at)
    for _ in range(first_replaced):
        replace_top(keys, entries, size, keys[0] - 1.0, entries[0])
    out, order = np.empty(size), np.empty(size, np.int64)
    for at in range(size):
        out[at], order[at] = keys[0], entries[0]
        pop_top(keys, entries, size - 1 - at)
    return out, order


@njit
def largest(values, count, times):
    """The largest by each of the three functions."""
    plain, repeated, paired = np.full(count, -np.inf), np.full(count, -np.inf), np.full(count, -np.inf)
    items = np.full(count, -1)
    for at in range(len(values)):
        keep_largest(plain, count, values[at])
        keep_largest_repeated(repeated, values[at], times)
        keep_largest_item(paired, items, values[at], at)
    return plain, repeated, paired, items


def test_a_heap_returns_the_largest_first() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.integers(-5, 6, int(rng.integers(1, 40))).astype(float)  # with ties
        replaced = int(rng.integers(0, 4))
        keys, order = sort_by_heap(values, replaced)
        expected = sorted(values)
        for _ in range(replaced):
            expected = sorted([*expected[:-1], expected[-1] - 1])
        np.testing.assert_array_equal(keys, expected[::-1])
        assert sorted(order) == list(range(len(values)))
        if not replaced:
            np.testing.assert_array_equal(values[order], keys)


def test_lists_hold_the_largest_values_in_descending_order() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        values = rng.integers(-5, 6, int(rng.integers(1, 40))).astype(float)
        count, times = int(rng.integers(1, 8)), int(rng.integers(0, 4))
        plain, repeated, paired, items = largest(values, count, times)
        padding = [-np.inf] * count
        np.testing.assert_array_equal(plain, [*sorted(values, reverse=True), *padding][:count])
        np.testing.assert_array_equal(repeated, [*sorted(np.repeat(values, times), reverse=True), *padding][:count])
        np.testing.assert_array_equal(paired, plain)
        kept = items >= 0
        np.testing.assert_array_equal(values[items[kept]], paired[kept])
