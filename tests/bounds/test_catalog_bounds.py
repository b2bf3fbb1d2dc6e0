"""Whole-catalogue bounds are at least F of every set: compared with enumeration and with a heavy search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

import setwise as sw
from setwise._validation import read_only
from setwise.bounds.catalog import search_arrays
from setwise.bounds.catalog.cells import CellBounds, default_cells
from setwise.bounds.catalog.score_order import select_first
from setwise.bounds.catalog.user_scores import scores
from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch, whole_catalog_bound
from setwise.errors import Infeasible, InvalidInput
from setwise.kernels.rewards import table_value
from setwise.model import objective
from setwise.model.added_scores import AddedScores
from setwise.model.eligibility import Eligibility
from setwise.model.reward_table import RewardTable
from setwise.retrieval.clusters import clusters
from worlds import REWARDS, random_catalog

pytestmark = pytest.mark.promise("bounds")

FOREVER = 1e6  # milliseconds


def draw(seed: int, n: int, rng: np.random.Generator) -> tuple[sw.Catalog, sw.User]:
    """``draw_plain``; every third user has added scores, dense or sparse, of any size."""
    catalog, user = draw_plain(seed, n, rng)
    own = np.random.default_rng([seed, 1])
    if own.random() < 2 / 3:
        return catalog, user
    added = own.choice([0.3, 1.0, 30.0]) * own.normal(size=n)
    added = np.round(added) if own.random() < 0.3 else added
    if own.random() < 0.5:
        return catalog, user.with_scores(AddedScores.dense(added))
    rows = np.flatnonzero(own.random(n) < own.random())
    return catalog, user.with_scores(AddedScores.sparse(n, rows, added[rows], rest=float(own.choice([0.0, -1.0]))))


def draw_plain(seed: int, n: int, rng: np.random.Generator) -> tuple[sw.Catalog, sw.User]:
    """A catalogue of n items with any heads, rewards, sharpness, base and sink; sometimes in whole numbers, for ties."""
    rewards = [REWARDS[number] for number in rng.choice(len(REWARDS), size=rng.integers(1, 4), replace=False)]
    catalog, user = random_catalog(
        seed,
        n=n,
        heads=int(rng.integers(1, 4)),
        d=int(rng.integers(1, 4)),
        base=bool(rng.random() < 0.5),
        sink=bool(rng.random() < 0.5),
        sharpness=float(rng.choice([0.1, 1, 3, 10, 100])),
        rewards=rewards if rng.random() < 0.8 else REWARDS[:1],
        dtype=np.float64 if rng.random() < 0.3 else np.float32,
    )
    if rng.random() < 0.7:
        return catalog, user
    whole = sw.Catalog(
        np.round(catalog.query),
        np.round(catalog.key),
        np.round(catalog.value),
        (catalog.rewards, catalog.reward_class),
        base=None if catalog.base is None else np.round(catalog.base),
        sink=catalog.sink,
    )
    return whole, sw.User(np.round(user.heads), None if user.base is None else np.round(user.base))


def optimum(catalog: sw.Catalog, user: sw.User, rows: np.ndarray, k: int) -> float:
    return sw.rank(sw.Instance.from_catalog(catalog, user, rows), k, "exhaustive").value


# --- tiny catalogues: all sets are enumerated ---


@pytest.mark.parametrize("part", range(10))
def test_never_below_the_optimum_and_equal_to_it_when_proven(part: int, count) -> None:
    proven = 0
    for seed in range(part, count(30_000, 100), 10):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 10)), int(rng.integers(1, 6))
        catalog, user = draw(seed, n, rng)
        excluded = np.flatnonzero(rng.random(n) < 0.2)[: n - 1]
        rows = np.setdiff1d(np.arange(n), excluded)
        best = optimum(catalog, user, rows, k)
        known = [-np.inf, best, best - 0.3 * abs(best) - 0.1, sw.set_value(catalog, user, rows[:1])][rng.integers(4)]
        cells = CellBounds.build(catalog, cells=int(rng.integers(1, n + 1)), seed=seed)
        budget = float(rng.choice([0.0, 0.05, 0.3, FOREVER]))
        found = whole_catalog_bound(
            cells, user, k, known, eligible=Eligibility.of(catalog, exclude=excluded), budget_ms=budget
        )
        assert found.upper_bound >= best, seed
        assert found.upper_bound >= found.value >= known
        assert found.proven or budget < FOREVER
        if found.proven:
            proven += 1
            assert found.upper_bound == pytest.approx(best, rel=1e-7, abs=1e-7), seed
            assert found.value == pytest.approx(best, rel=1e-9, abs=1e-9), seed
            assert found.gap == 0
        if found.better is not None:
            assert np.isin(found.better, rows).all()
            assert 1 <= len(found.better) <= k
            assert sw.set_value(catalog, user, found.better) == found.value > known
    assert proven


@pytest.mark.parametrize("sharpness", [1e4, 1e8, 1e30])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e15])
def test_logits_and_scores_of_any_size(sharpness: float, size: float) -> None:
    for seed in range(20):
        catalog, user = random_catalog(seed, n=8, heads=2, sharpness=sharpness, rewards=[sw.Linear()], dtype=np.float64)
        user = sw.User(size * user.heads)
        best = optimum(catalog, user, np.arange(8), 3)
        for budget in (0.0, FOREVER):
            found = whole_catalog_bound(CellBounds.build(catalog, cells=3), user, 3, budget_ms=budget)
            assert found.upper_bound >= best


def test_rewards_that_overflow_are_bounded_by_infinity() -> None:
    catalog, user = random_catalog(0, n=8, rewards=[sw.Exp(1000.0), sw.Exp(-1000.0)])
    found = whole_catalog_bound(CellBounds.build(catalog, cells=3), sw.User(100 * user.heads), 3)
    assert found.upper_bound == np.inf


@pytest.mark.parametrize(("heap", "nodes", "pool"), [(3, 100, 100), (100, 3, 100), (1, 1, 0), (1000, 1000, 5)])
def test_full_arrays_keep_the_bound_valid(
    monkeypatch: pytest.MonkeyPatch, heap: int, nodes: int, pool: int, count
) -> None:
    monkeypatch.setattr(search_arrays, "_HEAP", heap)
    monkeypatch.setattr(search_arrays, "_NODES", nodes)
    monkeypatch.setattr(search_arrays, "_POOL", pool)
    for seed in range(count(50, 3)):
        catalog, user = random_catalog(seed, n=9, heads=2, sharpness=3.0, rewards=REWARDS[:2])
        found = whole_catalog_bound(CellBounds.build(catalog, cells=4), user, 4, budget_ms=FOREVER)
        best = optimum(catalog, user, np.arange(9), 4)
        assert found.upper_bound >= best
        assert not found.proven or found.value == pytest.approx(best)


# --- thousands of items: a heavy search must not exceed the bound ---


@njit(cache=True, error_model="numpy")
def best_swap(query, key, score, base, sink_logit, sink_score, number, code, parameter, first_knot, knot, chosen):
    """The exchange of one chosen item for any other of the catalogue that raises F most: (value, place, item)."""
    heads, n = score.shape
    k = len(chosen)
    out_of = np.zeros((heads, k + 1, k + 1))  # logits among the chosen and the added item, which is last
    inside = np.zeros(n, np.bool_)
    for p in range(k):
        inside[chosen[p]] = True
        for q in range(k):
            for h in range(heads):
                out_of[h, p, q] = np.sum(query[chosen[p], h] * key[chosen[q], h])
    members = np.append(chosen, 0)
    best, best_place, best_item = -np.inf, -1, -1
    for item in range(n):
        if inside[item]:
            continue
        members[k] = item
        for h in range(heads):
            for p in range(k + 1):
                out_of[h, p, k] = np.sum(query[members[p], h] * key[item, h])
                out_of[h, k, p] = np.sum(query[item, h] * key[members[p], h])
        for leaving in range(k):
            value = 0.0
            for p in range(k + 1):
                if p == leaving:
                    continue
                i = members[p]
                a = base[i]
                for h in range(heads):
                    top = sink_logit[h, i]
                    for q in range(k + 1):
                        if q != leaving:
                            top = max(top, out_of[h, p, q])
                    weight = math.exp(sink_logit[h, i] - top)
                    weighted = weight * sink_score[h]
                    for q in range(k + 1):
                        if q != leaving:
                            w = math.exp(out_of[h, p, q] - top)
                            weight += w
                            weighted += w * score[h, members[q]]
                    a += weighted / weight
                value += table_value(code, parameter, first_knot, knot, number[i], a)
            if value > best:
                best, best_place, best_item = value, leaving, item
    return best, best_place, best_item


def heavy_search(catalog: sw.Catalog, user: sw.User, k: int, starts: int, rng: np.random.Generator) -> float:
    """The best value found by exchanges over the whole catalogue from several starts, by the reference objective."""
    everything = np.arange(len(catalog))
    score, sink_score = objective.scores(catalog, user, everything, None)
    base = objective.base_scores(catalog, user, everything)
    query, key = (np.asarray(part, np.float64) for part in (catalog.query, catalog.key))
    sink_logit = np.full(score.shape, -np.inf)
    if catalog.sink is not None:
        sink_logit = np.einsum("ihd,hd->hi", query, catalog.sink.key.astype(np.float64))
    table = RewardTable.of(catalog.rewards)
    arrays = query, key, score, base, sink_logit, np.zeros(len(score)) if sink_score is None else sink_score
    classes = catalog.reward_class, table.code, table.parameter, table.first_knot, table.knot
    compiled = [read_only(array) for array in (*arrays, *classes)]  # one version for all catalogues
    total = base + score.sum(axis=0)
    likely = np.argsort(-total)
    best = sw.set_value(catalog, user, likely[:k])
    for start in range(starts):
        pool = likely[:k] if start == 0 else likely[: 10 * k] if start % 2 else everything
        chosen = rng.choice(pool, size=k, replace=False)
        now = sw.set_value(catalog, user, chosen)
        for _ in range(6):
            value, place, item = best_swap(*compiled, chosen)
            if not value > now + 1e-12:
                break
            chosen[place] = item
            now = sw.set_value(catalog, user, chosen)
        best = max(best, now, *(sw.set_value(catalog, user, chosen[:size]) for size in range(1, k)))
    return best


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(5))
def test_never_below_a_heavy_search_of_the_whole_catalogue(part: int, count) -> None:
    for seed in range(part, count(300, 60), 5):
        rng = np.random.default_rng(10_000 + seed)
        n, k = int(10 ** rng.uniform(3, 4.5)), int(rng.integers(2, 5))
        catalog, user = draw(seed, n, rng)
        partition = clusters(catalog, int(rng.choice([8, 32, 128])), seed)
        cells = CellBounds.of(catalog, partition)
        bounds = [whole_catalog_bound(cells, user, k, budget_ms=budget) for budget in (0.0, 3.0, 30.0)]
        best = heavy_search(catalog, user, k, 50 if n < 5_000 or count(10) == 10 else 10, rng)  # all 50 with --large
        for found in bounds:
            assert found.upper_bound >= best, seed
            assert not found.proven or found.value >= best - 1e-9 * abs(best), seed


# --- the trained catalogue ---


@pytest.mark.nightly
@pytest.mark.parametrize(("k", "allowed"), [(5, 0.07), (10, 0.05)])
def test_the_gap_on_trained_arrays(shared_data, count, k: int, allowed: float) -> None:
    arrays = np.load(shared_data / "catalogs" / "playlists_one_head.npz")
    reward = sw.Logistic(float(arrays["scale"]), float(arrays["bias"]))
    catalog = sw.Catalog(arrays["query"], arrays["key"], arrays["value"], reward)
    cells, index = CellBounds.build(catalog, cells=512), sw.Index.build(catalog, cells=64, progress=False)
    gaps = []
    for number in range(count(100)):
        user, history = arrays["user_heads"][number], np.unique(arrays["history"][number])
        candidates = index.candidates(user, per_cell=k, exclude=history)
        known = sw.rank(sw.Instance.from_catalog(catalog, user, candidates), k, "swap").value
        found = whole_catalog_bound(
            cells, user, k, known, eligible=Eligibility.of(catalog, exclude=history), budget_ms=1000
        )
        assert found.better is None or not np.isin(found.better, history).any()
        gaps.append(found.gap)
    assert np.mean(gaps) <= allowed


def test_in_several_steps_with_offered_values() -> None:
    """The bound holds at every stop, for any values offered in between, and ends at the optimum."""
    rng = np.random.default_rng(12)
    for seed in range(60):
        catalog, user = draw(seed, 9, rng)
        best, everything = optimum(catalog, user, np.arange(9), 3), np.arange(9)
        known = sw.rank(sw.Instance.from_catalog(catalog, user, everything), 3, "swap" if seed % 2 else "knn").value
        search = WholeCatalogSearch(CellBounds.build(catalog, cells=3), user, 3)
        bounds = []
        for offered in (-math.inf, known, -math.inf):
            search.run(0)
            search.offer(offered)
            bounds.append(search.found().upper_bound)
        search.run(FOREVER)
        ended = search.found()
        slack = 1e-9 * max(1.0, abs(best))
        assert min(*bounds, ended.upper_bound) >= best - 1e-12 * abs(best)
        assert search.finished
        assert ended.proven
        assert ended.value == pytest.approx(best, abs=slack)
        assert ended.better is None or sw.set_value(catalog, user, ended.better) > known


@pytest.mark.parametrize("heads", [1, 2])
def test_scores_of_several_users_are_those_of_each(heads: int) -> None:
    catalog, _ = random_catalog(
        14, n=60, heads=heads, base=True, sink=True, attributes={"genre": ["jazz", "folk"] * 30}
    )
    cells, rng = CellBounds.build(catalog, cells=7), np.random.default_rng(14)
    users = [sw.User(rng.normal(size=(heads, 3)), rng.normal(size=2)) for _ in range(3)]
    jazz = Eligibility.of(catalog, where={"genre": "jazz"})
    eligible = [jazz.without(exclude) for exclude in ([], [0, 2], [4, 5, 6])]
    shared = scores(cells, users, eligible)
    for user, mine, scored in zip(users, eligible, shared, strict=True):
        bounds = []
        for given in (None, scored):
            search = WholeCatalogSearch(cells, user, 3, eligible=mine, scored=given)
            search.run(FOREVER)
            bounds.append(search.found())
        assert bounds[0].upper_bound == bounds[1].upper_bound
        assert bounds[0].value == bounds[1].value == pytest.approx(optimum(catalog, user, mine.rows, 3))


def test_the_first_of_the_order_are_those_of_largest_total() -> None:
    rng = np.random.default_rng(13)
    for _ in range(300):
        size = int(rng.integers(1, 60))
        total = rng.integers(-3, 4, size).astype(float)  # with ties
        total[1:][rng.random(size - 1) < 0.2] = -np.inf
        first = np.empty(rng.integers(1, np.isfinite(total).sum() + 1), np.int64)
        lowest = select_first(total, first, np.empty(len(first)))
        assert len(set(first.tolist())) == len(first)
        np.testing.assert_array_equal(np.sort(total[first]), np.sort(total)[size - len(first) :])
        assert lowest == total[np.isfinite(total)].min()


# --- filters, storage and errors ---


def test_filters_leave_items_out() -> None:
    catalog, user = random_catalog(3, n=40, attributes={"genre": ["jazz", "folk"] * 20})
    cells = CellBounds.build(catalog, cells=5)
    jazz = np.arange(0, 40, 2)
    found = whole_catalog_bound(
        cells, user, 2, eligible=Eligibility.of(catalog, where={"genre": "jazz"}, exclude=jazz[:10]), budget_ms=FOREVER
    )
    assert found.proven
    assert found.better is not None
    assert np.isin(found.better, jazz[10:]).all()
    assert found.value == pytest.approx(optimum(catalog, user, jazz[10:], 2))


def test_saved_arrays_give_the_same_bound() -> None:
    catalog, user = random_catalog(4, n=200, heads=2, base=True, sink=True)
    cells = CellBounds.build(catalog)
    again = CellBounds.from_arrays(catalog, cells.to_arrays())
    bounds = [whole_catalog_bound(each, user, 3, budget_ms=0).upper_bound for each in (cells, again)]
    assert bounds[0] == bounds[1]
    other, _ = random_catalog(5, n=201, heads=2)
    with pytest.raises(InvalidInput, match="array 'cell_of' must be int32 of shape"):
        CellBounds.from_arrays(other, cells.to_arrays())


def test_more_items_asked_for_than_there_are() -> None:
    catalog, user = random_catalog(6, n=4, rewards=[sw.Logistic()])
    found = whole_catalog_bound(CellBounds.build(catalog), user, 9, budget_ms=FOREVER)
    assert found.upper_bound == pytest.approx(optimum(catalog, user, np.arange(4), 4))


def test_the_rule_for_the_number_of_cells() -> None:
    assert [default_cells(n) for n in (1, 320, 3_000, 64_000, 10**7)] == [1, 320, 1024, 2000, 4096]


def test_errors() -> None:
    catalog, user = random_catalog(7, n=6)
    cells = CellBounds.build(catalog)
    with pytest.raises(InvalidInput, match="value must be a number"):
        whole_catalog_bound(cells, user, 2, math.nan)
    with pytest.raises(InvalidInput, match="value must be a number"):
        WholeCatalogSearch(cells, user, 2).offer(math.nan)
    with pytest.raises(Infeasible, match="leave an item"):
        whole_catalog_bound(cells, user, 2, eligible=Eligibility.of(catalog, exclude=np.arange(6)))
    with pytest.raises(InvalidInput, match="without positional encodings"):
        CellBounds.build(random_catalog(8, n=6, positions=2)[0])
    with pytest.raises(InvalidInput, match="one of this catalogue"):
        CellBounds.of(random_catalog(9, n=7)[0], cells.partition)
