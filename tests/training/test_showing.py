"""What would be shown: nothing barred, and nearly as good as a search without limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from setwise.errors import InvalidInput
from setwise.training.showing import CANDIDATES, own_share, promising, shown_slates
from worlds import random_catalog


def users_of(catalog: sw.Catalog, count: int, seed: int = 0) -> list[sw.User]:
    rng = np.random.default_rng(seed)
    base = None if catalog.base is None else catalog.base.shape[1]
    return [
        sw.User(rng.normal(size=catalog.value.shape[1:]), None if base is None else rng.normal(size=base))
        for _ in range(count)
    ]


@settings(max_examples=25)
@given(
    st.integers(0, 10_000),
    st.integers(2, 40),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.integers(1, 6),
    st.sampled_from(["swap", "knn", "greedy"]),
)
def test_nothing_barred_nothing_twice(
    seed: int, n: int, heads: int, base: bool, sink: bool, k: int, ranker: str
) -> None:
    catalog, _ = random_catalog(seed, n=n, heads=heads, base=base, sink=sink)
    rng = np.random.default_rng(seed)
    barred = [rng.permutation(n)[: rng.integers(0, n)] for _ in range(4)]  # for some all items but one
    for rows, out in zip(shown_slates(catalog, users_of(catalog, 4, seed), barred, k, ranker), barred, strict=True):
        assert 1 <= len(rows) <= k
        assert len(set(rows)) == len(rows)
        assert not set(rows) & set(out)


def test_one_user_who_knows_nearly_everything_costs_the_others_nothing() -> None:
    catalog, _ = random_catalog(0, n=60, heads=2, base=True, sink=True)
    users = users_of(catalog, 3)
    known = np.arange(58)
    alone = shown_slates(catalog, users[:2], [known[:1], known[:2]], 5)
    together = shown_slates(catalog, users, [known[:1], known[:2], known], 5)
    for one, other in zip(alone, together, strict=False):
        np.testing.assert_array_equal(one, other)
    assert set(together[2]) <= {58, 59}


def test_a_user_who_knows_everything_is_refused() -> None:
    catalog, _ = random_catalog(0, n=6)
    with pytest.raises(InvalidInput, match="users must be such that an item or more is left to show"):
        shown_slates(catalog, users_of(catalog, 1), [np.arange(6)], 2)


@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("n", [40, 400])
def test_nearly_as_good_as_a_search_without_limits(n: int, base: bool) -> None:
    """0.97 of what the swap search finds over all items with its full budget, on average and over several worlds."""
    shares = []
    for seed in range(4):
        catalog, _ = random_catalog(seed, n=n, heads=2, base=base, sink=True)
        users = users_of(catalog, 3, seed)
        for user, rows in zip(users, shown_slates(catalog, users, [np.arange(2)] * 3, 5), strict=True):
            best = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(2, n)), 5, "swap")
            shares.append(sw.set_value(catalog, user, rows) / best.value)
    assert np.mean(shares) >= 0.97


def test_fewer_items_than_candidates_are_all_searched() -> None:
    catalog, _ = random_catalog(0, n=30, base=True)
    assert CANDIDATES > 30
    barred = [np.array([3, 7]), np.array([], np.int64)]
    one, other = promising(catalog, users_of(catalog, 2), barred, CANDIDATES)
    np.testing.assert_array_equal(one, np.setdiff1d(np.arange(30), [3, 7]))
    np.testing.assert_array_equal(other, np.arange(30))


def test_the_promising_are_the_best_of_some_measure() -> None:
    catalog, _ = random_catalog(0, n=200, heads=2, base=True, sink=True)
    (user,) = users_of(catalog, 1)
    (rows,) = promising(catalog, [user], [np.array([], np.int64)], 20)
    assert len(rows) == 20
    instance = sw.Instance.from_catalog(catalog, user, np.arange(200))
    for measure in (instance.base, *instance.score):
        assert np.argmax(measure) in rows
    alone = [instance.value([row]) for row in range(200)]
    assert len(set(np.argsort(alone)[-10:]) & set(rows)) == 10, "half of them by what they are worth alone"


def test_more_users_than_are_scored_together() -> None:
    catalog, _ = random_catalog(0, n=20, base=True)
    users = users_of(catalog, 300)
    barred = [np.array([row % 20]) for row in range(300)]
    slates = shown_slates(catalog, users, barred, 2, "knn")
    assert len(slates) == 300
    for row in (0, 255, 256, 299):
        np.testing.assert_array_equal(
            slates[row], shown_slates(catalog, users[row : row + 1], barred[row : row + 1], 2, "knn")[0]
        )
    assert shown_slates(catalog, [], [], 2) == []


def test_what_an_item_lends_itself() -> None:
    catalog, _ = random_catalog(5, heads=2, sink=True)
    share = own_share(catalog)
    for row in range(3):
        np.testing.assert_allclose(share[:, row], sw.attention(catalog, [row])[:, 0, 0], rtol=1e-5)
    assert (own_share(random_catalog(5, heads=2)[0]) == 1).all()
