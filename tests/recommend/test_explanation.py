"""What an explanation says is what the reference objective says."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model import objective
from worlds import REWARDS, random_catalog


def world(seed: int, n: int = 200, **parts) -> tuple[sw.Recommender, sw.User]:
    attributes = {"artist": [f"artist {i % 30}" for i in range(n)]}
    catalog, user = random_catalog(seed, n=n, attributes=attributes, **parts)
    return sw.Recommender(sw.Index.build(catalog, cells=8), candidates=40), user


@pytest.mark.parametrize("parts", [{}, {"heads": 2, "base": True, "sink": True, "rewards": REWARDS}])
def test_the_parts_add_up(parts) -> None:
    rec, user = world(1, **parts)
    catalog = rec.index.catalog
    slate = rec.recommend(user, k=5, at_most={"artist": 1}, exclude=[3, 4])
    told = rec.explain(slate)
    assert told.slate is slate
    np.testing.assert_array_equal(told.attention, sw.attention(catalog, slate.indices))
    np.testing.assert_array_equal(told.rewards, slate.rewards)
    argument = objective.base_scores(catalog, user, slate.indices) + told.lent.sum(axis=1)
    if parts:
        sink_score = np.einsum("hd,hd->h", catalog.sink.value.astype(float), user.heads)
        argument += sink_score @ told.sink
        np.testing.assert_allclose(told.sink + told.attention.sum(axis=2), 1)
    else:
        assert told.sink is None
    for row, a, reward, alone in zip(slate.indices, argument, told.rewards, told.alone, strict=True):
        f = catalog.rewards[catalog.reward_class[row]]
        assert f.value(np.array([a]))[0] == pytest.approx(reward, rel=1e-9)
        assert alone == sw.set_value(catalog, user, [row])


def test_rivals_keep_the_same_constraints() -> None:
    rec, user = world(2)
    slate = rec.recommend(user, k=5, at_most={"artist": 1}, include=[7], exclude=[3, 4])
    told = rec.explain(slate)
    assert [rival.ranker for rival in told.rivals] == ["top-k", "knn", "mmr", "dpp", "greedy", "beam", "swap"]
    for rival in told.rivals:
        assert rival.value == sw.set_value(rec.index.catalog, user, rival.indices)
        assert rival.items.tolist() == rival.indices.tolist()  # ids are row numbers here
        assert 7 in rival.indices
        assert not {3, 4} & set(rival.indices.tolist())
        assert len({int(row) % 30 for row in rival.indices}) == len(rival.indices) <= 5
        assert rival.milliseconds > 0
    by_name = {rival.ranker: rival for rival in told.rivals}
    assert told.gain_over_top_k == slate.value - by_name["top-k"].value
    assert told.gain_over_greedy == slate.value - by_name["greedy"].value >= -1e-12
    np.testing.assert_array_equal(by_name["swap"].indices, slate.indices)
    assert by_name["swap"].milliseconds == slate.timings["rank"]


@pytest.mark.parametrize("parts", [{}, {"heads": 2, "base": True, "sink": True, "rewards": REWARDS}])
def test_top_k_and_vector_search_are_those_of_the_whole_catalogue(parts) -> None:
    """Top-k has the largest rewards alone, not the largest scores: with a sink these are different items."""
    rec, user = world(3, **parts)
    told = rec.explain(rec.recommend(user, k=5, ranker="top-k", certify=False))
    assert [rival.ranker for rival in told.rivals] == ["top-k", "knn", "mmr", "dpp", "greedy", "beam"]
    alone = np.array([sw.set_value(rec.index.catalog, user, [row]) for row in range(200)])
    assert set(told.rivals[0].indices.tolist()) <= set(np.argsort(-alone)[:5].tolist())
    assert told.gain_over_top_k == 0.0
    score = np.einsum("nhd,hd->n", rec.index.catalog.value.astype(float), user.heads)
    if parts:
        score += rec.index.catalog.base.astype(float) @ user.base
    assert set(told.rivals[1].indices.tolist()) <= set(np.argsort(-score)[:5].tolist())


def test_only_its_own_slates() -> None:
    (rec, user), (other, _) = world(4), world(5)
    slate = rec.recommend(user, k=3)
    for wrong in (other.recommend(user, k=3), None):
        with pytest.raises(InvalidInput, match="slate must be a slate of this recommender, and its index unchanged"):
            rec.explain(wrong)
    rec.index.remove(slate.items[:1])
    with pytest.raises(InvalidInput, match="its index unchanged since"):
        rec.explain(slate)
    assert rec.explain(rec.recommend(user, k=3)).gain_over_greedy >= -1e-12
    rec.index.add(random_catalog(9, n=1, ids=[999], attributes={"artist": ["new"]})[0])
    with pytest.raises(InvalidInput, match="recommend again, then explain"):
        rec.explain(slate)
