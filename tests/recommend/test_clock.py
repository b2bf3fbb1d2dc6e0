"""The clock of a request: a budget is asked for, a limit only stops what takes longer."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from in_process import cluster_of, world
from setwise.recommend.clock import BOUND_MS, SHORTEST_MS, Clock, limited_to
from setwise.recommend.cluster.rounds import Rounds
from setwise.recommend.effort import Effort

AN_HOUR_MS = 3.6e6


def began_before(milliseconds: float) -> float:
    return time.perf_counter() - milliseconds / 1000


def test_without_a_budget_the_default_counts() -> None:
    clock = Clock(None, began_before(AN_HOUR_MS))
    assert clock.share(0.5, BOUND_MS) == BOUND_MS
    assert clock.share(0.5) == math.inf
    assert clock.has(AN_HOUR_MS)
    assert not clock.is_over()


def test_a_budget_is_shared() -> None:
    clock = Clock(2 * AN_HOUR_MS, began_before(AN_HOUR_MS))
    assert 0.4 * AN_HOUR_MS < clock.share(0.5, BOUND_MS) <= 0.5 * AN_HOUR_MS
    assert clock.share(0.5, needed_ms=2 * AN_HOUR_MS) == SHORTEST_MS
    assert clock.has(AN_HOUR_MS / 2)
    assert not clock.has(AN_HOUR_MS + 1)
    assert Clock(1.0, began_before(AN_HOUR_MS)).is_over()


def test_a_limit_ends_what_takes_longer_and_nothing_else() -> None:
    with limited_to(2 * AN_HOUR_MS):
        early, late = Clock(None), Clock(None, began_before(3 * AN_HOUR_MS))
        assert Clock(None, began_before(AN_HOUR_MS)).share(1.0, 5 * AN_HOUR_MS) <= AN_HOUR_MS
    assert Clock(None).limit_ms == math.inf
    assert early.share(0.5, BOUND_MS) == BOUND_MS
    assert (early.is_over(), late.is_over()) == (False, True)
    assert late.share(0.5, BOUND_MS) == SHORTEST_MS
    late.timings["rank"] = 1.0
    assert not late.resumed().is_over()  # it has waited for others
    assert late.resumed().limit_ms == late.limit_ms


def test_a_limit_changes_no_effort() -> None:
    catalog, user = world(0, 900)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=6), candidates=60)
    free = recommender.recommend(user, k=4, certify=False)
    with limited_to(AN_HOUR_MS):
        limited = recommender.recommend(user, k=4, certify=False)
    assert limited.items.tolist() == free.items.tolist()
    assert limited.query.budget_ms is None
    assert Effort.of(limited.query, 60, 6) == Effort.of(free.query, 60, 6)
    with limited_to(1e-3):
        stopped = recommender.recommend(user, k=4)
    assert len(stopped) == 4
    assert stopped.upper_bound >= free.value - 1e-9


def test_the_limit_holds_in_the_threads_of_a_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, _ = world(1, 120)
    cluster, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=3), certify=False), tmp_path, 2)
    limits, original = [], Rounds.slate

    def noting(self: Rounds, user: Any) -> sw.Slate:
        limits.append(Clock(None).limit_ms)
        return original(self, user)

    monkeypatch.setattr(Rounds, "slate", noting)
    with limited_to(AN_HOUR_MS):
        cluster.recommend_many(np.ones((5, 3)), k=2)
    assert limits == [AN_HOUR_MS] * 5


def test_a_cluster_adds_the_scores_of_each_user(tmp_path: Path) -> None:
    catalog, _ = world(2, 120)
    whole = sw.Recommender(sw.Index.build(catalog, cells=3), certify=False)
    cluster, _ = cluster_of(whole, tmp_path, 2)
    users, scores = np.ones((2, 3)), [{"item 3": 2.0, "item 90": 1.0}, {"item 5": 2.0}]
    slates = cluster.recommend_many(users, scores=scores, k=2)
    assert [set(slate) for slate in slates] == [set(slate) for slate in whole.recommend_many(users, scores=scores, k=2)]
    assert set(slates[1]) == {"item 5"}
    assert [list(slate) for slate in cluster.recommend_many(scores=scores[1:], k=2)] == [["item 5"]]
