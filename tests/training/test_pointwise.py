"""Slates of single items: sizes, outcomes, and nothing from the history."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tiny_networks import grouped_sessions

from setwise.datasets.sessions import Sessions
from setwise.datasets.splits import HistorySplit
from setwise.model.ragged import Ragged
from setwise.training.pointwise import pointwise_slates

LISTS = st.lists(st.lists(st.integers(0, 19), min_size=2, max_size=12, unique=True), min_size=1, max_size=8)


def sessions_of(lists: list[list[int]]) -> Sessions:
    return Sessions(Ragged.of(lists), list(range(20)))


@given(LISTS, st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3))
def test_one_unseen_item_with_the_outcome_of_its_session(
    lists: list[list[int]], seed: int, targets: int, negatives: int
) -> None:
    rng = np.random.default_rng(seed)
    split = HistorySplit.random(sessions_of(lists), rng, 4)
    slates = pointwise_slates(split, rng, targets, negatives)
    assert (slates.shown.lengths == 1).all()
    for seen, item, outcome in zip(slates.history, slates.shown.values, slates.outcome, strict=True):
        assert item not in seen
        rests = [set(rest) for one, rest in zip(split.history, split.targets, strict=True) if list(one) == list(seen)]
        assert outcome in [float(item in rest) for rest in rests]


def test_numbers_of_targets_and_negatives() -> None:
    split = HistorySplit.first(grouped_sessions(200, length=10), 3)  # seven targets per session
    slates = pointwise_slates(split, np.random.default_rng(0), targets=5, negatives=3)
    positive = slates.outcome.sum()
    assert positive >= 200 * 5, "sampled items that are targets have outcome 1"
    assert 200 * 5 * 3 * 0.5 < len(slates) - positive < 200 * 5 * 3
    assert len(np.unique(slates.shown.values)) == split.sessions.n_items


def test_fewer_targets_than_asked_for() -> None:
    split = HistorySplit.first(sessions_of([[1, 2, 3, 4]]), 2)
    slates = pointwise_slates(split, np.random.default_rng(0), targets=9, negatives=1)
    assert {3, 4} <= set(slates.shown.values)
