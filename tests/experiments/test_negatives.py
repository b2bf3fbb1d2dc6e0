"""Positive and negative slates: what a negative must not contain, the properties of each kind, determinism."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negatives import KINDS, continuations, negative_slates, positive_and_negative_slates

from setwise.datasets.sessions import Sessions
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged


def popular_sessions(rng: np.random.Generator, sessions: int, n: int, least: int, most: int) -> Sessions:
    """Sessions of distinct items, low numbers far more often than high ones."""
    weight = 1 / np.arange(20, n + 20)
    lengths = rng.integers(least, most + 1, sessions)
    lists = [rng.choice(n, length, replace=False, p=weight / weight.sum()) for length in lengths]
    return Sessions(Ragged.of(lists), list(range(n)))


@given(st.integers(0, 10_000), st.sampled_from(KINDS), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_negatives_are_unseen_distinct_and_aligned(
    seed: int, kind: str, history: int, size: int, offset_seed: bool
) -> None:
    rng = np.random.default_rng(seed)
    sessions = popular_sessions(rng, 12, 30, 3, 14)
    options = {"history": history, "size": size, "offset_seed": seed if offset_seed else None}
    positive, negative = continuations(sessions, **options), negative_slates(sessions, kind, seed=seed, **options)
    long = [items for items in sessions.items if len(items) >= history + size]
    assert len(positive) == len(negative) == len(long)
    for items, before, shown, same, sampled in zip(
        long, positive.history, positive.shown, negative.history, negative.shown, strict=True
    ):
        assert list(before) == list(same)
        joined = [*before, *shown]
        assert any(joined == list(items[at : at + len(joined)]) for at in range(len(items)))
        if not offset_seed:
            assert joined == list(items[: len(joined)])
        assert len(set(sampled)) == size
        assert not set(sampled) & set(items)
    assert (positive.outcome == 1).all()
    assert (negative.outcome == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_both_halves_are_aligned(kind: str) -> None:
    sessions = popular_sessions(np.random.default_rng(3), 40, 80, 20, 30)
    both = positive_and_negative_slates(sessions, kind, history=10, size=3, seed=5)
    positive, negative = continuations(sessions, 10, 3), negative_slates(sessions, kind, 10, 3, seed=5)
    half = len(both) // 2
    assert len(both) == 2 * len(positive)
    np.testing.assert_array_equal(both.taken(range(half)).shown.values, positive.shown.values)
    np.testing.assert_array_equal(both.taken(range(half, 2 * half)).shown.values, negative.shown.values)
    np.testing.assert_array_equal(both.history.values, np.tile(positive.history.values, 2))
    np.testing.assert_array_equal(both.outcome, np.concatenate([positive.outcome, negative.outcome]))
    other = positive_and_negative_slates(sessions, kind, history=10, size=3, seed=6)
    again = positive_and_negative_slates(sessions, kind, history=10, size=3, seed=5)
    np.testing.assert_array_equal(both.shown.values, again.shown.values)
    assert (both.shown.values != other.shown.values).any()


def test_repeated_items_count_once() -> None:
    sessions = Sessions(Ragged.of([[0, 0, 1, 1, 2], [3, 4, 5, 3, 6]]), list(range(9)))
    positive = continuations(sessions, history=2, size=1)
    assert [list(one) for one in positive.history] == [[0, 1], [3, 4]]
    assert [list(one) for one in positive.shown] == [[2], [5]]
    assert len(continuations(sessions, history=3, size=1)) == 1


def test_each_kind_has_its_popularity() -> None:
    rng = np.random.default_rng(0)
    sessions = popular_sessions(rng, 1500, 3000, 20, 40)
    popularity = np.log(np.maximum(sessions.popularity, 0.5))
    true = popularity[continuations(sessions).shown.values]
    uniform, popular, hard = (
        popularity[negative_slates(sessions, kind, seed=1).shown.values] for kind in ("uniform", "popular", "hard")
    )
    assert uniform.mean() < true.mean() - 1  # popularity gives uniform negatives away
    for matched in (popular, hard):
        assert abs(matched.mean() - true.mean()) < 0.1
        # Kolmogorov's distance of the two distributions
        grid = np.unique(true)
        below = [np.searchsorted(np.sort(sample), grid, "right") / len(sample) for sample in (true, matched)]
        assert np.abs(below[0] - below[1]).max() < 0.08


def test_uniform_negatives_are_uniform_over_the_pool() -> None:
    sessions = Sessions(Ragged.of([[0, 1, 2]] * 4000), list(range(20)))
    pool = Sessions(Ragged.of([[3, 4, 5, 6], [7, 0, 7]]), list(range(20)))
    drawn = np.bincount(negative_slates(sessions, "uniform", 2, 1, pool=pool).shown.values, minlength=20)
    assert drawn[[3, 4, 5, 6, 7]].sum() == 4000
    assert np.abs(drawn[3:8] - 800).max() < 5 * np.sqrt(800)


def test_hard_negatives_come_from_a_session_that_shares_an_item() -> None:
    """Two groups of items without a common session: a hard negative is in the group of its history."""
    rng = np.random.default_rng(1)
    lists = [world * 100 + rng.choice(100, 25, replace=False) for world in (0, 1) for _ in range(50)]
    sessions = Sessions(Ragged.of(lists), list(range(200)))
    hard = negative_slates(sessions, "hard", seed=2)
    holders = [set(np.flatnonzero([item in one for one in lists])) for item in range(200)]
    for history, shown in zip(hard.history, hard.shown, strict=True):
        near = set().union(*(holders[item] for item in history))
        for item in shown:
            assert holders[item] & near
            assert item // 100 == history[0] // 100
    popular = negative_slates(sessions, "popular", seed=2)
    assert (popular.shown.values // 100 != np.repeat(popular.history.values[::15] // 100, 5)).mean() > 0.3


def test_without_a_sharing_session_hard_negatives_are_popular_ones() -> None:
    sessions = Sessions(Ragged.of([[0, 1, 2, 3]]), list(range(12)))
    pool = Sessions(Ragged.of([[4, 5], [6, 7, 8]]), list(range(12)))
    assert set(negative_slates(sessions, "hard", 2, 2, pool=pool).shown.values) <= {4, 5, 6, 7, 8}


def test_invalid_arguments() -> None:
    sessions = Sessions(Ragged.of([[0, 1, 2, 3]]), list(range(5)))
    with pytest.raises(InvalidInput, match="kind must be one of uniform, popular, hard"):
        negative_slates(sessions, "nasty")
    with pytest.raises(InvalidInput, match="leave out enough items"):
        negative_slates(sessions, "uniform", 2, 2)  # only item 4 is left, and two are needed
    with pytest.raises(InvalidInput, match="pool must be over the same 5 ids"):
        negative_slates(sessions, "popular", 2, 2, pool=Sessions(Ragged.of([[0]]), [1, 2]))
    with pytest.raises(InvalidInput, match="seed must be"):
        positive_and_negative_slates(sessions, seed=-1)


@pytest.mark.parametrize("kind", KINDS)
def test_short_sessions_give_no_slates(kind: str) -> None:
    sessions = Sessions(Ragged.of([[0, 1, 2]]), list(range(5)))
    assert len(positive_and_negative_slates(sessions, kind)) == 0
