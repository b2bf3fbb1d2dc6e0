"""Ragged lists, sessions and slates against plain lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged

LISTS = st.lists(st.lists(st.integers(0, 6), max_size=8), max_size=8)


def plain(ragged: Ragged) -> list[list[int]]:
    return [one.tolist() for one in ragged]


def sessions(lists: list[list[int]], **more) -> Sessions:
    return Sessions(Ragged.of(lists), list("abcdefg"), **more)


@given(LISTS)
def test_ragged_holds_the_lists(lists):
    ragged = Ragged.of(lists)
    assert plain(ragged) == lists
    assert len(ragged) == len(lists)
    assert ragged.lengths.tolist() == [len(one) for one in lists]
    assert ragged.owner.tolist() == [row for row, one in enumerate(lists) for _ in one]
    assert plain(Ragged.cut([value for one in lists for value in one], [len(one) for one in lists])) == lists


@given(LISTS.filter(len), st.data())
def test_ragged_takes_lists_in_any_order(lists, data):
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=10))
    ragged = Ragged.of(lists)
    assert plain(ragged.taken(rows)) == [lists[row] for row in rows]
    assert ragged.values[ragged.places(rows)].tolist() == [value for row in rows for value in lists[row]]


@given(LISTS, st.data())
def test_ragged_keeps_masked_entries(lists, data):
    masks = [data.draw(st.lists(st.booleans(), min_size=len(one), max_size=len(one))) for one in lists]
    kept = Ragged.of(lists).kept(np.array([bit for mask in masks for bit in mask], bool))
    assert plain(kept) == [[v for v, bit in zip(one, mask, strict=True) if bit] for one, mask in zip(lists, masks, strict=True)]  # fmt: skip


@given(LISTS, st.integers(0, 5))
def test_padded_is_the_last_entries(lists, width):
    values, filled = Ragged.of(lists).padded(width)
    assert values.shape == filled.shape == (len(lists), width)
    for one, row, mask in zip(lists, values, filled, strict=True):
        wanted = one[max(0, len(one) - width) :]
        assert row[mask].tolist() == wanted
        assert mask.tolist() == [True] * len(wanted) + [False] * (width - len(wanted))
        assert not row[~mask].any()


def test_arrays_are_read_only():
    ragged = Ragged.of([[1, 2], [3]])
    with pytest.raises(ValueError, match="read-only"):
        ragged.values[0] = 5


def test_sessions_of_lists_of_ids():
    result = Sessions.of([["x", "y"], [], ["y", "y", "z"]], {"title": {"x": "X", "z": "Z"}})
    assert result.ids == ["x", "y", "z"]
    assert plain(result.items) == [[0, 1], [], [1, 1, 2]]
    assert result.attributes == {"title": ["X", None, "Z"]}
    assert result.popularity.tolist() == [1, 3, 1]
    assert (len(result), result.n_items) == (3, 3)


@given(LISTS)
def test_distinct_keeps_the_first(lists):
    assert plain(sessions(lists).distinct().items) == [list(dict.fromkeys(one)) for one in lists]


@given(LISTS, st.integers(1, 3), st.integers(1, 3))
def test_trimmed(lists, least_sessions, least_items):
    result = sessions(lists, attributes={"upper": list("ABCDEFG")}).trimmed(least_sessions, least_items)
    common = [v for v in range(7) if sum(v in one for one in lists) >= least_sessions]
    wanted = [[v for v in one if v in common] for one in lists]
    assert result.ids == ["abcdefg"[v] for v in common]
    assert result.attributes["upper"] == ["ABCDEFG"[v] for v in common]
    named = [[result.ids[v] for v in one] for one in result.items]
    assert named == [["abcdefg"[v] for v in one] for one in wanted if len(one) >= least_items]


def test_unordered_sessions_are_shuffled_and_ordered_ones_are_not():
    long = list(range(7))
    given_ = sessions([long] * 40, ordered=np.arange(40) % 2 == 0)
    result = given_.shuffled_where_unordered(seed=3)
    assert all(sorted(one) == long for one in plain(result.items))
    assert plain(result.items)[::2] == [long] * 20
    assert sum(one == long for one in plain(result.items)[1::2]) < 3
    assert plain(given_.shuffled_where_unordered(seed=3).items) == plain(result.items)
    assert result.taken([1, 2]).ordered.tolist() == [False, True]
    whole = sessions([long])
    assert whole.shuffled_where_unordered() is whole


def test_misaligned_sessions_are_refused():
    with pytest.raises(InvalidInput, match=r"session items must be rows of the 7 ids, got row 7"):
        sessions([[0, 7]])
    with pytest.raises(InvalidInput, match=r"attribute 'x' must be 7 values"):
        sessions([[0]], attributes={"x": [1]})


def slates() -> Slates:
    outcome = np.array([0, 1, 0, 0.5, 1], np.float32)
    return Slates(Ragged.of([[], [0], [1, 0]]), Ragged.of([[0, 1], [2], [3, 4]]), outcome, list("abcde"))


def test_outcomes_stay_aligned_with_their_items():
    taken = slates().taken([2, 0])
    assert (plain(taken.history), plain(taken.shown)) == ([[1, 0], []], [[3, 4], [0, 1]])
    assert taken.outcome.tolist() == [0.5, 1, 0, 1]
    both = slates().taken([1]).joined(slates().taken([0]))
    assert (plain(both.history), plain(both.shown), both.outcome.tolist()) == ([[0], []], [[2], [0, 1]], [0, 0, 1])
    assert (len(both), both.n_items) == (2, 5)


@pytest.mark.parametrize(
    ("history", "shown", "outcome", "message"),
    [
        ([[0]], [[0], [1]], [1, 0], "history must be 2 lists"),
        ([[9]], [[0]], [1], "history must be rows of the 5 ids"),
        ([[]], [[5]], [1], "shown must be rows of the 5 ids"),
        ([[]], [[]], [], "shown must be slates of an item or more"),
        ([[]], [[0]], [1, 1], r"outcome must be 1 numbers from 0 to 1, .*, got shape \(2,\)"),
        ([[]], [[0]], [1.5], "outcome must be 1 numbers from 0 to 1, .*, got 1.5 at position 0"),
        ([[]], [[0]], [np.nan], "outcome must be 1 numbers from 0 to 1, .*, got nan at position 0"),
    ],
)
def test_misaligned_slates_are_refused(history, shown, outcome, message):
    with pytest.raises(InvalidInput, match=message):
        Slates(Ragged.of(history), Ragged.of(shown), np.array(outcome, np.float32), list("abcde"))


def test_slates_of_other_ids_are_not_joined():
    other = Slates(Ragged.of([[]]), Ragged.of([[0]]), np.ones(1, np.float32), ["z"])
    with pytest.raises(InvalidInput, match="over the same ids, got different ids; build both from one list of ids"):
        slates().joined(other)


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=6), st.data())
def test_holds_is_membership_list_by_list(lists: list[list[int]], data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, len(lists) - 1), st.integers(0, 12)), max_size=20))
    rows, values = (np.array([pair[part] for pair in pairs], np.int64) for part in (0, 1))
    assert Ragged.of(lists).holds(rows, values).tolist() == [value in lists[row] for row, value in pairs]
