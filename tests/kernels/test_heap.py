"""The compiled heap and the lists of largest values, against sorting."""

from __future__ import annotations

import numpy as np
from numba import njit

from setwise.kernels.heap import pop_top, push_entry, replace_top
from setwise.kernels.largest import keep_largest, keep_largest_labelled, keep_largest_repeated


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
    items, labels = np.full(count, -1), np.full(count, -1)
    for at in range(len(values)):
        keep_largest(plain, count, values[at])
        keep_largest_repeated(repeated, values[at], times)
        keep_largest_labelled(paired, items, labels, values[at], at, -1, count)
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


def test_no_room_for_a_label_keeps_nothing() -> None:
    best, items, _ = largest_with_labels(np.array([3.0, 1.0, 2.0]), np.array([0, 1, 0]), 2, 0)
    assert (best == -np.inf).all()
    assert (items == -1).all()


@njit
def largest_with_labels(values, label, count, room):
    """The ``count`` largest with at most ``room`` of each label."""
    best, items, labels = np.full(count, -np.inf), np.full(count, -1), np.full(count, -1)
    for at in range(len(values)):
        keep_largest_labelled(best, items, labels, values[at], at, label[at], room)
    return best, items, labels


def test_at_most_so_many_of_a_label() -> None:
    """Against taking values in falling order as long as their label has room; a label of −1 has no limit."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        size, count, room = int(rng.integers(1, 30)), int(rng.integers(1, 8)), int(rng.integers(1, 4))
        values, label = rng.permutation(size).astype(float), rng.integers(-1, 3, size)
        expected = []
        for at in np.argsort(-values):
            full = label[at] >= 0 and sum(label[one] == label[at] for one in expected) >= room
            if len(expected) < count and not full:
                expected.append(at)
        best, items, labels = largest_with_labels(values, label, count, room)
        kept = items[items >= 0]
        np.testing.assert_array_equal(kept, expected)
        np.testing.assert_array_equal(best[: len(kept)], values[kept])
        np.testing.assert_array_equal(labels[: len(kept)], label[kept])
