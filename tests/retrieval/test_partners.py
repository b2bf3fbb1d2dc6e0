"""Pairs with an anchor: their values agree with the reference objective, and the best partners are found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.retrieval.partners import best_partners, pair_values
from worlds import REWARDS, random_catalog


@examples(100)
@given(
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    heads=st.integers(1, 3),
    sharpness=st.sampled_from([0.3, 2.0, 30.0]),
    sink=st.booleans(),
    base=st.booleans(),
    rewards=st.sampled_from([(sw.Logistic(2.0, -1.0),), REWARDS]),
)
def test_pair_values_agree_with_the_reference_objective(seed, **parts):
    catalog, user = random_catalog(seed, 12, **parts)
    anchor, *rows = np.random.default_rng(seed).permutation(12)
    expected = [sw.set_value(catalog, user, [anchor, c]) for c in rows]
    values = pair_values(catalog, catalog.user(user), anchor, np.array(rows))
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)


def test_the_best_partners_come_first():
    catalog, user = random_catalog(1, 40, heads=2, sharpness=2.0, sink=True, base=True)
    rows = np.setdiff1d(np.arange(40), [3])
    value = {c: sw.set_value(catalog, user, [3, c]) for c in rows.tolist()}
    best = sorted(value, key=lambda c: -value[c])
    for most in (1, 5, 39, 100):
        assert best_partners(catalog, catalog.user(user), 3, rows, most).tolist() == best[:most]


def test_logits_far_apart_do_not_overflow():
    catalog = sw.Catalog(np.array([[1e3], [-1e3], [5e2]]), np.array([[1e3], [1e3], [-1e3]]), np.eye(3))
    user = catalog.user([1.0, 2.0, 3.0])
    with np.errstate(all="raise", under="ignore"):
        got = pair_values(catalog, user, 0, np.array([1, 2]))
    assert got == pytest.approx([sw.set_value(catalog, user, [0, 1]), sw.set_value(catalog, user, [0, 2])])
