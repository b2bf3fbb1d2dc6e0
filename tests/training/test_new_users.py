"""A user without a history is shown the items of most sessions, with the share of sessions that contain them."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.datasets.sessions import Sessions
from setwise.model.base_terms import BaseTerms
from setwise.model.encoder import Encoder
from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic
from setwise.model.two_tower import TwoTower
from setwise.training.new_users import with_new_users

ITEMS = ["rare", "often", "never", "always"]
SESSIONS = Sessions(Ragged.of([[3, 1], [3, 1, 0], [3, 1], [3]]), ITEMS)
SHARES = np.array([1.5, 3.5, 0.5, 4.5]) / 5


def tower() -> TwoTower:
    rng = np.random.default_rng(0)
    return TwoTower(rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), rng.normal(size=2))


@pytest.mark.parametrize("terms", [BaseTerms(), BaseTerms(two_tower=tower())], ids=["nothing", "two-tower"])
def test_an_empty_history_predicts_the_share_of_sessions(terms: BaseTerms) -> None:
    zeros, reward = np.zeros((4, 1, 1)), Logistic(0.7, -1.3)
    catalog = sw.Catalog(zeros, zeros, zeros, reward, terms.items, ids=ITEMS)
    plain = Encoder(np.zeros((4, 1)), np.zeros((1, 1, 1)), np.zeros((1, 1)), base_terms=terms)
    encoder = with_new_users(plain, catalog, reward, SESSIONS)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=1, progress=False), encoder=encoder)
    for history in ([], ["delisted"]):
        slate = recommender.recommend(history=history, k=2)
        assert slate.items.tolist() == ["always", "often"]
        assert slate.value == pytest.approx(SHARES[[3, 1]].sum(), rel=1e-5)
        assert slate.upper_bound >= slate.value
    every = recommender.recommend(history=[], k=4)
    assert dict(zip(every.items, every.rewards, strict=True)) == pytest.approx(
        dict(zip(ITEMS, SHARES, strict=True)), rel=1e-5
    )
    known = recommender.recommend(history=["often"], k=1)
    before = plain.users(Ragged.of([[1]]))[0]
    assert known.value == pytest.approx(sw.set_value(catalog, before, known.indices), rel=1e-5)
