"""Many slates at once say what the reference objective says of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.model.batch_objective import many_arguments
from worlds import random_catalog

LINEAR = (sw.Linear(1.0, 0.0),)  # with it those of the reference objective rewards are the arguments themselves


@examples(60)
@given(
    st.integers(0, 10_000),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.1, 1.0, 30.0, 1000.0]),
    st.integers(1, 5),
)
def test_as_the_judge(seed: int, heads: int, base: bool, sink: bool, sharpness: float, width: int) -> None:
    catalog, _ = random_catalog(
        seed, n=9, heads=heads, base=base, sink=sink, sharpness=sharpness, rewards=LINEAR, dtype=np.float64
    )
    rng = np.random.default_rng(seed)
    users = rng.normal(size=(6, *catalog.value.shape[1:]))
    bases = rng.normal(size=(6, catalog.base.shape[1])) if base else None
    shown = rng.permuted(np.tile(np.arange(9), (6, 1)), axis=1)[:, :width]
    filled = np.arange(width) < rng.integers(1, width + 1, size=(6, 1))
    result = many_arguments(catalog, users, bases, shown, filled)
    for row in range(6):
        user = sw.User(users[row], None if bases is None else bases[row])
        expected = sw.item_rewards(catalog, user, shown[row][filled[row]])
        np.testing.assert_allclose(result[row][filled[row]], expected, rtol=1e-9, atol=1e-9)
    assert (result[~filled] == 0).all()


@pytest.mark.parametrize("base", [True, False])
def test_a_base_on_one_side_only_adds_nothing(base: bool) -> None:
    """As with the reference objective: a user without a base vector, or a catalogue without base vectors."""
    catalog, user = random_catalog(3, base=base, rewards=LINEAR, dtype=np.float64)
    shown = np.array([[0, 4, 7]])
    given_base = None if base else np.ones((1, 3))
    result = many_arguments(catalog, user.heads[None], given_base, shown)
    without = sw.Catalog(catalog.query, catalog.key, catalog.value, reward=LINEAR[0], dtype=np.float64)
    np.testing.assert_allclose(result[0], sw.item_rewards(without, sw.User(user.heads), shown[0]), rtol=1e-9)


def test_what_pads_a_slate_says_nothing() -> None:
    catalog, user = random_catalog(3, heads=2, base=True, sink=True)
    heads, base = np.stack([user.heads] * 2), np.stack([user.base] * 2)
    filled = np.array([[True, True, False]] * 2)
    one = many_arguments(catalog, heads, base, np.array([[1, 2, 0]] * 2), filled)
    other = many_arguments(catalog, heads, base, np.array([[1, 2, 7]] * 2), filled)
    np.testing.assert_array_equal(one, other)


def test_more_slates_than_are_computed_together() -> None:
    catalog, user = random_catalog(4, base=True)
    count = 5000
    shown = np.random.default_rng(0).permuted(np.tile(np.arange(12), (count, 1)), axis=1)[:, :2]
    heads, base = np.repeat(user.heads[None], count, 0), np.repeat(user.base[None], count, 0)
    result = many_arguments(catalog, heads, base, shown)
    for row in (0, 4095, 4096, 4999):
        alone = many_arguments(catalog, heads[:1], base[:1], shown[row : row + 1])
        np.testing.assert_allclose(result[row], alone[0], rtol=1e-12)
    assert many_arguments(catalog, heads[:0], base[:0], shown[:0]).shape == (0, 2)
