"""Lower and upper limits that no set of the best items keeps together: a cluster answers as one index does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from in_process import cluster_of, same
from setwise.errors import Infeasible
from setwise.recommend.cluster.rounds import Rounds


def dominated(seed: int, rng: np.random.Generator) -> sw.Catalog:
    """Most items of a genre are by one artist, and the others have low scores."""
    n = 240
    query, key, value = rng.normal(size=(3, n, 1, 3))
    value *= 0.1
    genre, artist = rng.integers(3, size=n), rng.integers(12, size=n)
    rare = rng.random(n) < 0.08
    artist[~rare] = genre[~rare] + 100
    value[rare] -= rng.random((rare.sum(), 1, 1))
    artist[rng.random(n) < 0.02] = -1 if seed % 3 else 5
    return sw.Catalog(query, key, value, attributes={"genre": genre, "artist": artist})


def answered(one, user: np.ndarray, request: dict) -> sw.Slate | str:
    try:
        return one.recommend(user, certify=False, **request)
    except Infeasible as error:
        return str(error)


def test_slates_and_refusals_are_those_of_one_index(tmp_path: Path, count, monkeypatch: pytest.MonkeyPatch) -> None:
    widened, original = [], Rounds.varied
    monkeypatch.setattr(Rounds, "varied", lambda *given: widened.append(original(*given)) or widened[-1])
    found = 0
    for seed in range(count(300, 50)):
        rng = np.random.default_rng(seed)
        catalog = dominated(seed, rng)
        whole = sw.Recommender(sw.Index.build(catalog, cells=4), certify=False, candidates=int(rng.integers(10, 30)))
        cluster, _ = cluster_of(whole, tmp_path / str(seed), 1 + seed % 5, bounds=False)
        lower = [{"at_least": {"genre": {0: 3, 1: 1}}}, {"at_least": {"genre": {2: 4}}}, {"exactly": {"genre": 2}}]
        request = {"k": 6, "at_most": {"artist": 1 + seed % 2}, **lower[seed // 2 % 3]}
        if rng.random() < 0.3:
            request["include"] = [int(rng.integers(240))]
        if rng.random() < 0.3:
            request["exclude"] = rng.choice(240, 60, replace=False).tolist()
            request["include"] = []
        before, user = len(widened), np.ones((1, 3))
        one, other = answered(whole, user, request), answered(cluster, user, request)
        if isinstance(one, str) or isinstance(other, str):
            assert one == other, seed
            continue
        same(one, other)
        found += len(widened) > before
    assert found > 0.1 * count(300)


def test_texts_that_only_some_shards_have(tmp_path: Path) -> None:
    catalog = dominated(0, np.random.default_rng(0))
    labels = [None] * len(catalog)
    labels[100:110] = ["sale"] * 10  # neither the first item nor the last shard has any
    catalog = catalog.named(catalog.ids, {"label": labels})
    whole = sw.Recommender(sw.Index.build(catalog, cells=4), certify=False, candidates=20)
    cluster, _ = cluster_of(whole, tmp_path, 4, bounds=False)
    for request in ({"where": {"label": "sale"}}, {"at_least": {"label": {"sale": 2}}}, {"at_most": {"label": 1}}):
        same(*(one.recommend(np.ones(3), k=4, certify=False, **request) for one in (whole, cluster)))
