"""Added scores: both forms mean the same numbers, and the reference objective adds them to the argument."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.added_scores import AddedScores
from worlds import REWARDS, random_catalog


def drawn(rng: np.random.Generator, n: int) -> tuple[AddedScores, np.ndarray]:
    """Scores in either form, and the numbers that they stand for."""
    whole = rng.normal(size=n)
    if rng.integers(2):
        return AddedScores.dense(whole), whole
    rows, rest = rng.permutation(n)[: rng.integers(n + 1)], float(rng.normal())
    expected = np.full(n, rest)
    expected[rows] = whole[rows]
    return AddedScores.sparse(n, rows, whole[rows], rest), expected


def test_both_forms_stand_for_the_same_numbers() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 20))
        (one, first), (two, second) = drawn(rng, n), drawn(rng, n)
        rows = rng.integers(n, size=rng.integers(30))
        np.testing.assert_array_equal(one.of(rows), first[rows])
        np.testing.assert_array_equal(one.whole(), first)
        np.testing.assert_allclose(one.plus(two).whole(), first + second, rtol=1e-15)
        assert one.plus(None) is one
        chosen = np.unique(rows)
        np.testing.assert_array_equal(one.only(chosen).of(chosen), first[chosen])


def test_a_sum_with_nothing_is_the_same_object() -> None:
    """A hundred thousand users without a history have the same scores of all items: one copy of them."""
    popular, nothing = AddedScores.dense([1.0, 2.0, 3.0]), AddedScores.sparse(3, [], [])
    assert popular.plus(nothing) is popular
    assert nothing.plus(popular) is popular
    np.testing.assert_array_equal(AddedScores.sparse(3, [], [], 5.0).plus(popular).whole(), [6.0, 7.0, 8.0])


def test_nothing_is_added_to_items_that_are_not_named() -> None:
    assert AddedScores(3, np.array([5.0]), np.array([1])).whole().tolist() == [0.0, 5.0, 0.0]


def test_they_are_added_to_the_argument() -> None:
    """With f(a) = a, the rewards with and without them differ by the scores."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        options = {"heads": 1 + seed % 3, "base": bool(seed % 2), "sink": seed % 3 == 0}
        catalog, user = random_catalog(seed, rewards=[sw.Linear()], dtype=np.float64, **options)
        added, numbers = drawn(rng, len(catalog))
        rows = rng.permutation(len(catalog))[:4]
        with_scores = sw.item_rewards(catalog, user.with_scores(added), rows)
        np.testing.assert_allclose(
            with_scores, sw.item_rewards(catalog, user, rows) + numbers[rows], rtol=1e-12, atol=1e-12
        )
        instance = sw.Instance.from_catalog(catalog, user.with_scores(added), np.arange(len(catalog)))
        assert instance.value(rows) == pytest.approx(with_scores.sum())


def test_they_are_like_a_base_term() -> None:
    """Scores t are the base term t_i · 1: every reward family sees the same argument."""
    for seed, reward in enumerate(REWARDS):
        catalog, user = random_catalog(seed, rewards=[reward], dtype=np.float64)
        added = np.random.default_rng(seed).normal(size=len(catalog))
        twin = sw.Catalog(catalog.query, catalog.key, catalog.value, reward, base=added[:, None], dtype=np.float64)
        value = sw.set_value(catalog, sw.User(user.heads, scores=added), [1, 5, 7])
        assert value == pytest.approx(sw.set_value(twin, sw.User(user.heads, [1.0]), [1, 5, 7]), rel=1e-14)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: AddedScores.dense([[1.0]]), "scores must be an array of shape"),
        (lambda: AddedScores.dense([1.0, np.nan]), "scores must be finite everywhere"),
        (lambda: AddedScores.dense(["a"]), "scores must be an array of real numbers"),
        (lambda: AddedScores.sparse(3, [3], [1.0]), "rows of scores must be row numbers"),
        (lambda: AddedScores.sparse(3, [1, 1], [1.0, 2.0]), "rows of scores must be a set of distinct"),
        (lambda: AddedScores.sparse(3, [1], [1.0, 2.0]), "scores must be an array of shape"),
        (lambda: AddedScores.sparse(3, [1], [1.0], np.inf), "rest must be a finite number"),
        (
            lambda: random_catalog(0)[0].user(sw.User([0.0] * 3, scores=[1.0])),
            "scores must be one for each of 12 items",
        ),
    ],
)
def test_errors(call, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        call()
