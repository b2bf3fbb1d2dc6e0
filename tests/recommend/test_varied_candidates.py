"""Requests with lower and upper limits whose feasible sets need items that retrieval ranks low."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible
from setwise.model.limits import Limits
from setwise.recommend.lower_limits import _of_many_values


def dominated(n: int = 1200) -> tuple[sw.Recommender, np.ndarray]:
    """Of the first half, genre 0, all but the item of lowest score are by one artist."""
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(3, n, 1, 4))
    value *= 0.1
    genre, artist = np.repeat([0, 1], n // 2), np.arange(n)
    artist[: n // 2 - 1] = n
    value[n // 2 - 1] = -3
    catalog = sw.Catalog(query, key, value, attributes={"genre": genre, "artist": artist})
    return sw.Recommender(sw.Index.build(catalog, cells=16)), np.ones((1, 4))


@pytest.mark.parametrize("lower", [{"at_least": {"genre": {0: 2}}}, {"exactly": {"genre": 2}}])
@pytest.mark.parametrize("ranker", ["swap", "greedy", "beam"])
def test_one_artist_dominates_a_required_genre(lower: Limits, ranker: str) -> None:
    recommender, user = dominated()
    for certify in (False, True):
        slate = recommender.recommend(user, 5, at_most={"artist": 1}, ranker=ranker, certify=certify, **lower)
        assert 599 in slate.indices
        assert (slate.indices < 600).sum() == 2
        assert slate.value <= slate.upper_bound
    assert len(recommender.recommend_many([user], 5, at_most={"artist": 1}, **lower)[0].items) >= 4


def test_impossible_limits_are_refused_still() -> None:
    recommender, user = dominated()
    with pytest.raises(Infeasible, match="possible together with the other limits"):
        recommender.recommend(user, 5, at_most={"artist": 1}, at_least={"genre": {0: 3}})


def test_a_feasible_set_is_found_among_few_candidates() -> None:
    """One limit from above, groups of one attribute: a request is refused only if no set is feasible."""
    answered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = 24
        genre, artist = rng.integers(3, size=n), rng.integers(3 if seed % 2 else 6, size=n)
        catalog = sw.Catalog(*rng.normal(size=(3, n, 1, 2)), attributes={"genre": genre, "artist": artist})
        recommender = sw.Recommender(sw.Index.build(catalog, cells=2), candidates=3, certify=False)
        options = {"at_most": {"artist": 1}, "at_least": {"genre": {0: 2, 1: 1}}}
        zeros, ones = set(artist[genre == 0]), set(artist[genre == 1])
        feasible = len(zeros) >= 2 and any(len(zeros - {one}) >= 2 for one in ones)
        try:
            slate = recommender.recommend(rng.normal(size=(1, 2)), 4, **options)
        except Infeasible:
            assert not feasible, seed
            continue
        answered += 1
        assert feasible
        assert len(set(artist[slate.indices])) == len(slate.indices)
        assert (genre[slate.indices] == 0).sum() >= 2
        assert (genre[slate.indices] == 1).sum() >= 1
    assert answered > 30


def test_items_of_many_values() -> None:
    order, labels = np.array([9, 8, 7, 6, 5, 4, 3]), np.array([2, 2, 2, 0, -1, 1, 0])
    assert sorted(_of_many_values(order, labels, 2, 2)) == [3, 5, 6, 8, 9]
    assert sorted(_of_many_values(order, labels, 3, 1)) == [4, 5, 6, 9]
