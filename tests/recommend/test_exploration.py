"""Exploration: the sets that may be shown instead, and their probabilities."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import setwise as sw
from setwise.recommend.exploration import POOL, exchanged, exchanges, explore

K = 3


@pytest.fixture(scope="module")
def recommender() -> sw.Recommender:
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(3, 40, 1, 4))
    attributes = {"artist": [f"a{row % 5}" for row in range(40)]}
    return sw.Recommender(sw.Index.build(sw.Catalog(query, key, value, attributes=attributes), cells=4, progress=False))


def test_each_exchange_has_its_probability(recommender: sw.Recommender) -> None:
    slate = recommender.recommend(np.ones(4), k=K)
    sets = [tuple(exchanged(slate, *pair).tolist()) for pair in exchanges(slate)]
    assert len(set(sets)) == len(sets) == K * POOL
    assert all(len(set(rows) & set(slate.indices.tolist())) == K - 1 for rows in sets)
    rng, share, draws = np.random.default_rng(1), 0.5, 6_000
    drawn = [explore(slate, share, rng) for _ in range(draws)]
    for one in drawn:
        assert one.propensity == pytest.approx(share / len(sets) if one.explored else 1 - share)
    often = Counter(tuple(sorted(one.slate.indices.tolist())) for one in drawn if one.explored)
    assert often.keys() == set(sets)
    expected = draws * share / len(sets)
    assert all(abs(number - expected) < 6 * expected**0.5 for number in often.values())


@pytest.mark.nightly
def test_inverse_propensities_evaluate_another_policy(recommender: sw.Recommender) -> None:
    """The policy of one exchange: its mean hits are estimated from slates that another policy has shown."""
    slate, rng = recommender.recommend(np.ones(4), k=K), np.random.default_rng(2)
    target = exchanged(slate, *exchanges(slate)[7])
    truth, weighted = float(sw.set_value(slate.catalog, slate.user, target)), []
    for _ in range(6_000):
        one = explore(slate, 0.8, rng)
        same = np.array_equal(np.sort(one.slate.indices), target)
        weighted.append(one.slate.value / one.propensity if same else 0.0)
    assert abs(np.mean(weighted) - truth) < 4 * np.std(weighted) / len(weighted) ** 0.5


def test_pins_and_limits_are_kept(recommender: sw.Recommender) -> None:
    slate = recommender.recommend(np.ones(4), k=K, include=[7], at_most={"artist": 1})
    rng = np.random.default_rng(0)
    for _ in range(200):
        one = explore(slate, 1.0, rng)
        assert one.explored
        assert 7 in one.slate.indices
        assert len({row % 5 for row in one.slate.indices.tolist()}) == K
        assert one.slate.value == pytest.approx(sw.set_value(slate.catalog, slate.user, one.slate.indices))
        assert one.slate.value <= one.slate.upper_bound
        assert not one.slate.proven


def test_nothing_to_exchange(recommender: sw.Recommender) -> None:
    rng = np.random.default_rng(0)
    for options in ({"include": [1, 2], "k": 2}, {"k": 50}):
        slate = recommender.recommend(np.ones(4), **options)
        if options["k"] == 50:
            slate = replace(slate, indices=slate.query.eligible.rows)
        for share in (0.01, 1.0):
            one = explore(slate, share, rng)
            assert (one.propensity, one.explored) == (1.0, False)
            assert one.slate is slate
