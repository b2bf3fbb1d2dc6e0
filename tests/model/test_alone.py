"""Rewards alone: those of slates of one by the reference objective, and the best of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.model.alone import best_alone, rewards_alone
from worlds import REWARDS, random_catalog

worlds = st.builds(
    lambda seed, heads, base, sink, mixed: random_catalog(
        seed, n=150, heads=heads, base=base, sink=sink, sharpness=3.0, rewards=REWARDS if mixed else REWARDS[:1]
    ),
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@examples(20)
@given(world=worlds, most=st.integers(1, 20), seed=st.integers(0, 10**6))
def test_as_slates_of_one(world, most: int, seed: int) -> None:
    catalog, user = world
    rows = np.sort(np.random.default_rng(seed).permutation(150)[:120])
    expected = np.array([sw.set_value(catalog, user, [row]) for row in rows])
    np.testing.assert_allclose(rewards_alone(catalog, user, rows), expected, rtol=1e-9, atol=1e-12)
    instance = sw.Instance.from_catalog(catalog, user, rows)
    np.testing.assert_allclose(instance.alone, expected, rtol=1e-9, atol=1e-12)
    best = best_alone(catalog, user, rows, most)
    chosen = expected[np.searchsorted(rows, best)]
    np.testing.assert_allclose(np.sort(chosen), np.sort(expected)[-most:], rtol=1e-6, atol=1e-7)


def test_added_scores_count() -> None:
    catalog, user = random_catalog(3, n=150)
    added = sw.User(user.heads, user.base, sw.model.added_scores.AddedScores.dense(np.linspace(0, 50, 150)))
    assert (
        best_alone(catalog, added, np.arange(150), 2).tolist() != best_alone(catalog, user, np.arange(150), 2).tolist()
    )


def test_an_item_that_attends_to_nothing_has_its_base_alone() -> None:
    logit = np.full((2, 2), -np.inf)
    instance = sw.Instance(logit, [5.0, 6.0], sw.Linear(), base=[1.0, 2.0])
    assert instance.alone.tolist() == pytest.approx([1.0, 2.0])
    assert instance.alone.tolist() == pytest.approx([instance.value([0]), instance.value([1])])


def test_screening_counts_the_sink() -> None:
    """Many items, few wanted: those that attend to a sink of high score are the best, whatever their own scores are."""
    rng = np.random.default_rng(8)
    query, value = rng.normal(size=(400, 1)) * 4, rng.normal(size=(400, 1))
    catalog = sw.Catalog(query, np.zeros((400, 1)), value, sw.Linear(), sink=sw.Sink([[1.0]], [[10.0]]))
    user = sw.User(np.ones((1, 1)))
    expected = np.array([sw.set_value(catalog, user, [row]) for row in range(400)])
    best = best_alone(catalog, user, np.arange(400), 5)
    np.testing.assert_allclose(np.sort(expected[best]), np.sort(expected)[-5:], rtol=1e-6)
