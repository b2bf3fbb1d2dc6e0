"""The simulated restaurant: the paper's Model 2 with logistic rewards, and its log."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.datasets import Restaurant
from setwise.errors import InvalidInput
from setwise.model.objective import item_rewards


def test_the_catalogue_computes_the_model() -> None:
    restaurant = Restaurant.make(30, n_users=6, seed=1)
    rng = np.random.default_rng(0)
    for history in restaurant.histories:
        taste = restaurant.taste[history].sum(axis=0)
        menu = rng.choice(30, 8, replace=False)
        utility = restaurant.taste[menu] @ taste / np.linalg.norm(taste) - 2
        utility += restaurant.effect[np.ix_(menu, menu)].sum(axis=1)
        expected = 1 / (1 + np.exp(-utility))
        np.testing.assert_allclose(restaurant.expected(history[None], menu[None])[0], expected, atol=1e-6)
        np.testing.assert_allclose(
            item_rewards(restaurant.catalog, restaurant.user(history), menu), expected, atol=1e-6
        )


def test_one_pair_in_ten_has_an_effect() -> None:
    effect = Restaurant.make(100, n_users=1).effect
    assert not np.diag(effect).any()
    assert 0.08 < np.count_nonzero(effect) / (100 * 99) < 0.12
    assert 0.9 < effect[effect != 0].std() < 1.1


def test_everything_follows_from_the_seed() -> None:
    one, two, other = (Restaurant.make(20, n_users=3, seed=seed) for seed in (4, 4, 5))
    assert one.catalog.digest == two.catalog.digest != other.catalog.digest
    np.testing.assert_array_equal(one.log(50, 4).outcome, two.log(50, 4).outcome)


def test_titles_differ_and_a_menu_avoids_the_history() -> None:
    restaurant = Restaurant.make(500, n_users=2)
    assert len(set(restaurant.catalog.attributes["title"][:])) == 500
    log = restaurant.log(40, 6)
    for history, shown in zip(log.history, log.shown, strict=True):
        assert len(set(shown) | set(history)) == 6 + len(history)


def test_menus_longer_than_the_rest_are_refused() -> None:
    with pytest.raises(InvalidInput, match="k must be at most 5, the items beyond a history, got 6"):
        Restaurant.make(10).log(3, k=6)
