"""Bounds over all items of a cluster: those of one index where both do the same work, and never below the best set."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from in_process import LONG, Here, cluster_of, shapes, world
from setwise.bounds.catalog import cells as fine_cells
from setwise.bounds.catalog.frontier import MISSING
from setwise.bounds.catalog.search import search_prefixes
from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch
from setwise.model.added_scores import AddedScores
from setwise.recommend import pipeline
from setwise.recommend.cluster.front import ClusterRecommender

pytestmark = pytest.mark.promise("bounds")

FOREVER = 3.6e6  # milliseconds


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[WholeCatalogSearch]:
    """The searches of all requests, which do not begin; cells hold three items on average."""
    found: list[WholeCatalogSearch] = []
    original = pipeline.catalog_search

    def recorded(*arguments: Any) -> WholeCatalogSearch:
        found.append(original(*arguments))
        return found[-1]

    monkeypatch.setattr(pipeline, "catalog_search", recorded)
    monkeypatch.setattr(WholeCatalogSearch, "run", lambda search, budget_ms: None)
    monkeypatch.setattr(fine_cells, "default_cells", lambda n: max(1, n // 3))
    return found


def take_steps(search: WholeCatalogSearch, steps: int) -> None:
    for _ in range(steps):
        search_prefixes(search._data, *search._parts, 1)
        while search._parts[0].tally[MISSING] >= 0:
            search._fetch()
            search_prefixes(search._data, *search._parts, 1)


def draw_request(rng: np.random.Generator, ids: list[str], most: int) -> dict[str, Any]:
    request: dict[str, Any] = {"k": int(rng.integers(2, most)), "exclude": rng.choice(ids, 2, replace=False).tolist()}
    if rng.random() < 0.4:
        request["at_most"] = {rng.choice(["colour", "price"]): 1}
    if rng.random() < 0.3:
        request["where"] = {"price": (1, None)}
    elif rng.random() < 0.5:
        request["include"] = [one for one in ids if one not in request["exclude"]][:1]
    return request


def test_searches_take_the_steps_of_one_index(tmp_path: Path, count, searches: list[WholeCatalogSearch]) -> None:
    for seed in range(count(500, 60)):
        rng = np.random.default_rng(seed)
        catalog, user = world(seed, 150, **shapes(seed))
        whole = sw.Recommender(sw.Index.build(catalog, cells=6), candidates=30)
        cluster, _ = cluster_of(whole, tmp_path / str(seed), 1 + seed % 5)
        ids = list(catalog.ids[np.arange(150)])
        if seed % 2:
            gone, ids = ids[40:43], ids[:40] + ids[43:]
            whole.index.remove(gone)
            cluster.remove(gone)
        request = draw_request(rng, ids, 6)
        searches.clear()
        for each in (whole, cluster):
            each.recommend(user, **request)
        if len(searches) < 2:
            continue  # all eligible items were candidates
        one, other = searches
        for steps in (1, 3, 30):
            for search in (one, other):
                take_steps(search, steps)
            assert one.found().upper_bound == other.found().upper_bound, seed
            assert (one.found().nodes, one.found().opened) == (other.found().nodes, other.found().opened), seed
        if one.lifts is not None and other.lifts is not None:
            for search in (one, other):
                search.lifts.run_stages()
            assert one.lifts.bound == other.lifts.bound, seed


def test_slates_and_bounds_of_finished_searches_are_those_of_one_index(tmp_path: Path, count) -> None:
    for seed in range(count(100)):
        catalog, user = world(seed, 60, **shapes(seed))
        whole = sw.Recommender(sw.Index.build(catalog, cells=3), candidates=12)
        cluster, _ = cluster_of(whole, tmp_path / str(seed), 1 + seed % 5)
        one, other = (each.recommend(user, k=3, budget_ms=FOREVER) for each in (whole, cluster))
        assert (one.items.tolist(), one.value, one.proven) == (other.items.tolist(), other.value, other.proven)
        assert other.upper_bound == pytest.approx(one.upper_bound, rel=1e-9)
        if catalog.heads == 1:
            assert one.upper_bound == other.upper_bound


def best_value(catalog: sw.Catalog, user: sw.User, request: dict[str, Any], gone: list[str]) -> float:
    """The value of the best feasible set, by brute force."""
    ids = catalog.ids[np.arange(len(catalog))].tolist()
    scores, floor = request.get("scores"), request.get("scores_floor")
    if scores is not None:
        user = user.with_scores(AddedScores.dense([scores.get(one, floor or 0.0) for one in ids]))
        gone = [one for one in ids if one in gone or (floor is None and one not in scores)]
    price = catalog.attributes["price"]
    rows = [row for row, one in enumerate(ids) if one not in gone and one not in request["exclude"]]
    rows = [row for row in rows if "where" not in request or price[row] >= 1]
    best = -math.inf
    for size in range(1, request["k"] + 1):
        for some in itertools.combinations(rows, size):
            named = {ids[row] for row in some}
            if not set(request.get("include", ())) <= named:
                continue
            (attribute,) = request.get("at_most") or (None,)
            if attribute is not None:
                labels = catalog.attributes.labels(attribute, np.array(some))
                if np.bincount(labels[labels >= 0], minlength=1).max() > 1:
                    continue
            best = max(best, sw.set_value(catalog, user, list(some)))
    return best


def test_bounds_hold_while_items_come_and_go(tmp_path: Path, count, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fine_cells, "default_cells", lambda n: max(1, n // 3))
    finite = 0
    for seed in range(count(500)):
        rng = np.random.default_rng(seed)
        catalog, user = world(seed, 14, sharpness=float(rng.choice([0.3, 1, 5])), **shapes(seed))
        whole = sw.Recommender(sw.Index.build(catalog, cells=2), candidates=4)
        cluster, hosts = cluster_of(whole, tmp_path / str(seed), 1 + seed % 5)
        new, _ = world(1000 + seed, 3, 14, sharpness=4.0, **shapes(seed))
        new.sink = catalog.sink
        gone = [f"item {row}" for row in rng.choice(14, 2, replace=False)]
        if seed % 5 < 4:  # a shard keeps at least one item
            cluster.remove(gone[:1])
            cluster.add(new)
            catalog, gone = catalog.joined(new), gone[:1]
        else:
            gone = []
        if seed % 3 == 0:
            cluster = ClusterRecommender.open(tmp_path / str(seed), [[Here()] for _ in hosts], LONG)
        ids = [one for one in catalog.ids[np.arange(len(catalog))].tolist() if one not in gone]
        request = draw_request(rng, ids, 4)
        if seed % 3 == 1:
            some = ids if "include" in request else rng.choice(ids, 9, replace=False).tolist()
            request["scores"] = {one: float(rng.normal(scale=3)) for one in some}
            if rng.random() < 0.5:
                request["scores_floor"] = -1.0
        budget = {} if seed % 4 else {"budget_ms": float(rng.choice([0.01, 5.0, 1e5]))}
        slate = cluster.recommend(user, **request, **budget)
        best = best_value(catalog, user, request, gone)
        assert slate.upper_bound >= best - 1e-9 * (1 + abs(best)), seed
        assert slate.value <= best + 1e-9 * (1 + abs(best)), seed
        finite += math.isfinite(slate.upper_bound)
    assert finite > 0


def test_a_bound_is_withheld_where_a_shard_is_lost_or_cells_are_not_there(tmp_path: Path) -> None:
    catalog, user = world(3, 90)
    whole = sw.Recommender(sw.Index.build(catalog, cells=3), candidates=20)
    _, hosts = cluster_of(whole, tmp_path / "whole", 3)
    lenient = ClusterRecommender.open(tmp_path / "whole", [[host] for host in hosts], LONG, partial=True)
    assert math.isfinite(lenient.recommend(user, k=3).upper_bound)
    hosts[2].lost = True
    slate = lenient.recommend(user, k=3)
    assert slate.partial
    assert slate.upper_bound == math.inf
    cluster, _ = cluster_of(whole, tmp_path / "plain", 3, bounds=False)
    assert cluster.recommend(user, k=3).upper_bound == math.inf


def test_a_shard_that_is_lost_during_the_search_leaves_no_bound(tmp_path: Path) -> None:
    catalog, user = world(4, 90)
    whole = sw.Recommender(sw.Index.build(catalog, cells=3), candidates=20)
    _, hosts = cluster_of(whole, tmp_path, 3)

    class Ending(Here):
        def submit(self, *arguments):
            self.lost = self.lost or arguments[0] == "bound_items"
            return super().submit(*arguments)

    mixed = [[hosts[0]], [Ending()], [hosts[2]]]
    slate = ClusterRecommender.open(tmp_path, mixed, LONG, partial=True).recommend(user, k=3)
    assert slate.partial
    assert slate.upper_bound == math.inf
