"""Proposition "pure embedding": exact with exact neighbours, within its bound with approximate ones."""

from __future__ import annotations

import numpy as np
from proofs.pure_embedding import PureEmbedding, additive_rewards, guaranteed
from test_fjlt import DENSE, allowed_failures, spread_out

import setwise as sw
from worlds import REWARDS, random_catalog


def brute_force(catalog: sw.Catalog, user: sw.User, k: int) -> np.ndarray:
    """The rewards of the best set: the k largest of all that are positive, or else the largest."""
    rewards = np.sort(additive_rewards(catalog, user, np.arange(len(catalog))))[::-1]
    return rewards[: max(1, min(k, np.count_nonzero(rewards > 0)))]


def test_brute_force_finds_nothing_better(count) -> None:
    for seed in range(count(500)):
        catalog, user = random_catalog(
            seed, n=40, heads=1 + seed % 3, base=seed % 2 == 0, sink=seed % 4 == 0, rewards=REWARDS[: 1 + seed % 10]
        )
        k = 1 + seed % 12
        found = PureEmbedding.build(catalog, backend="numpy").recommend(user, k)
        best = brute_force(catalog, user, k)
        np.testing.assert_allclose(found.rewards, best, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found.rewards, additive_rewards(catalog, user, found.items))
        assert found.value == found.rewards.sum()
        assert len(set(found.items.tolist())) == len(found.items)


def test_the_guarantee_with_approximate_neighbours(count) -> None:
    """The fjlt backend keeps (1 − g(ε)) OPT − k h(ε) as often as it says, and does not simply find the optimum."""
    rewards, k, failure, trials, wrong, missed = (sw.Logistic(2.0), sw.Tanh(0.5), sw.ReLU()), 5, 0.05, count(300), 0, 0
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        vectors, reward_class, user = spread_out(rng, 150, DENSE, cells=3, high=0.8)
        user /= np.linalg.norm(user)
        plain = np.zeros((150, 1))
        catalog = sw.Catalog(plain, plain, vectors, reward=(rewards, reward_class))
        index = PureEmbedding.build(catalog, backend="fjlt", eps=0.5, failure=failure, seed=seed)
        eps = index.nearest.slack(user).max()
        assert eps > 0
        found, best = index.recommend(user, k).value, brute_force(catalog, catalog.user(user), k).sum()
        promise = guaranteed(catalog.rewards, eps, k, best)
        wrong += found < promise
        missed += found < best - 1e-6
    assert wrong <= allowed_failures(trials, failure)
    assert missed > trials / 10
