"""Splits of rows into parts, and of sessions into history and targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.datasets.sessions import Sessions
from setwise.datasets.splits import HistorySplit, random_split, time_split
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged

LISTS = st.lists(st.lists(st.integers(0, 19), min_size=2, max_size=12, unique=True), min_size=1, max_size=8)


def sessions_of(lists: list[list[int]]) -> Sessions:
    return Sessions(Ragged.of(lists), list(range(20)))


def both_splits(sessions: Sessions, history: int, seed: int = 0) -> list[HistorySplit]:
    return [HistorySplit.first(sessions, history), HistorySplit.random(sessions, np.random.default_rng(seed), history)]


# --- rows ---


@given(st.integers(0, 200), st.integers(0, 10_000))
def test_random_split_is_disjoint_complete_and_sorted(n: int, seed: int) -> None:
    parts = random_split(n, (0.7, 0.2, 0.1), seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    for part, share in zip(parts, (0.7, 0.2, 0.1), strict=True):
        assert (np.diff(part) > 0).all()
        assert abs(len(part) - share * n) <= 1


def test_random_split_depends_on_the_seed_alone() -> None:
    one, same, other = (random_split(100, (0.5, 0.5), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one[0], same[0])
    assert not np.array_equal(one[0], other[0])


@pytest.mark.parametrize("shares", [(0.5, 0.4), (1.2, -0.2), (1.0, 0.0), ()])
def test_shares_must_be_positive_and_sum_to_one(shares: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput, match="shares must be positive numbers that sum to 1"):
        random_split(10, shares)


# --- sessions ---


@given(LISTS, st.integers(1, 8), st.integers(0, 10_000))
def test_history_and_targets_partition_every_session(lists: list[list[int]], history: int, seed: int) -> None:
    for split in both_splits(sessions_of(lists), history, seed):
        assert len(split) == len(lists)
        for items, seen, targets in zip(lists, split.history, split.targets, strict=True):
            assert sorted([*seen, *targets]) == sorted(items)
            assert len(seen) == min(history, len(items) // 2)
            assert len(targets) >= 1


@given(LISTS)
def test_first_keeps_the_order_of_the_session(lists: list[list[int]]) -> None:
    split = HistorySplit.first(sessions_of(lists), 3)
    for items, seen, targets in zip(lists, split.history, split.targets, strict=True):
        assert [*seen, *targets] == items


def test_repeated_items_count_once() -> None:
    split = HistorySplit.first(sessions_of([[3, 3, 4, 3, 5, 4]]), 2)
    assert [list(split.history[0]), list(split.targets[0])] == [[3], [4, 5]]


def test_random_depends_on_the_generator() -> None:
    sessions = sessions_of([list(range(12))] * 20)
    one, same, other = (HistorySplit.random(sessions, np.random.default_rng(seed), 3) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.history.values, same.history.values)
    assert not np.array_equal(one.history.values, other.history.values)


@given(LISTS, st.integers(1, 4), st.integers(1, 4), st.none() | st.integers(0, 10_000))
def test_window_is_consecutive_and_leaves_short_sessions_out(
    lists: list[list[int]], history: int, size: int, offset_seed: int | None
) -> None:
    split = HistorySplit.window(sessions_of(lists), history, size, offset_seed)
    long = [items for items in lists if len(items) >= history + size]
    assert len(split) == len(split.sessions) == len(long)
    for items, seen, targets in zip(long, split.history, split.targets, strict=True):
        joined = [*seen, *targets]
        assert (len(seen), len(targets)) == (history, size)
        assert any(joined == items[at : at + len(joined)] for at in range(len(items)))
        if offset_seed is None:
            assert joined == items[: len(joined)]


def test_a_part_of_a_split() -> None:
    split = HistorySplit.first(sessions_of([[1, 2], [3, 4, 5, 6], [7, 8]]), 2)
    some = split.taken(np.array([2, 1]))
    assert [list(one) for one in some.targets] == [[8], [5, 6]]
    assert [list(one) for one in some.sessions.items] == [[7, 8], [3, 4, 5, 6]]


def test_outcomes_are_the_targets_of_the_same_session() -> None:
    split = HistorySplit.first(sessions_of([[1, 2], [3, 4]]), 1)
    shown = Ragged.of([[2, 4], [4, 2]])
    np.testing.assert_array_equal(split.outcomes(shown), [1, 0, 1, 0])
    np.testing.assert_array_equal(split.slates(shown).outcome, [1, 0, 1, 0])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(1, 25))
def test_the_latest_are_after_all_others(starts: list[int], latest: int) -> None:
    sessions = replace(Sessions.of([["a", "b"]] * len(starts)), starts=np.array(starts, float))
    before, after = time_split(sessions, latest)
    assert sorted([*before, *after]) == list(range(len(starts)))
    assert len(after) == min(latest, len(starts))
    assert max((starts[row] for row in before), default=0) <= min(starts[row] for row in after)
    assert [starts[row] for row in after] == sorted(starts[row] for row in after)


def test_a_split_by_time_needs_times() -> None:
    with pytest.raises(InvalidInput, match="data must be sessions or slates with times, got none; name the column"):
        time_split(Sessions.of([["a", "b"]]), 1)
    with pytest.raises(InvalidInput, match="starts must be 1 times, one for each, got 2"):
        replace(Sessions.of([["a", "b"]]), starts=np.zeros(2))
