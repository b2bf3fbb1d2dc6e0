"""Bounds by signed changes and prices are at least F of every set, whatever the levels, the charges and the floor."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch
from setwise.bounds.lifts import pair_weights, signed_search
from setwise.bounds.lifts.pair_weights import PairWeights
from setwise.bounds.lifts.signed_changes import NEVER
from setwise.bounds.lifts.signed_search import SignedSearch
from setwise.model.eligibility import Eligibility
from worlds import random_catalog

pytestmark = pytest.mark.promise("bounds")


def draw(seed: int, rng: np.random.Generator) -> tuple[sw.Catalog, sw.User]:
    """Two to six heads, a sink, and scores of both signs."""
    n = int(rng.integers(2, 11))
    catalog, user = random_catalog(
        seed,
        n=n,
        heads=int(rng.integers(2, 7)),
        d=int(rng.integers(1, 4)),
        base=bool(rng.random() < 0.7),
        sink=True,
        sharpness=float(rng.choice([0.01, 0.3, 1, 3, 6])),
        rewards=[sw.Logistic(float(rng.uniform(0.2, 3)), float(rng.normal())) for _ in range(rng.integers(1, 3))],
        dtype=np.float64 if rng.random() < 0.3 else np.float32,
    )
    user = sw.User(float(rng.choice([0.3, 1, 5])) * user.heads, user.base)
    if rng.random() < 0.3:
        user = user.with_scores(rng.choice([0.3, 3.0]) * rng.normal(size=n))
    return catalog, user


def search_of(
    catalog: sw.Catalog, user: sw.User, k: int, value: float, excluded: np.ndarray, near: np.ndarray | None
) -> SignedSearch | None:
    """The search by signed changes alone, as the search of the whole catalogue makes it."""
    eligible = Eligibility.of(catalog, exclude=excluded)
    whole = WholeCatalogSearch(CellBounds.build(catalog), user, k, value, eligible=eligible, near=near)
    return whole.signed


def disturb(search: SignedSearch, rng: np.random.Generator) -> None:
    """Move every charge at random, rounded upwards as the search does, and the price of empty places."""
    n = len(search._items.base)
    moved = np.triu(rng.choice([0.01, 0.3]) * rng.normal(size=(n, n)), 1).astype(np.float32)
    able = search._items.able
    moved[~able] = moved[:, ~able] = 0.0
    charge = search._change.astype(np.float64) + moved - moved.T
    pairs = search._change > NEVER
    search._change[pairs] = (charge + 1.3e-7 * np.abs(charge) + 1e-30)[pairs]
    price = float(rng.choice([-0.1, 0.0, 0.05, 1.0]))
    each = np.sort((search._lines.slope * search._lines.empty)[able])[::-1][: search._k - 1]
    search._floor, search._empty = -price, float(np.maximum(each + price, 0.0).sum())


def test_never_below_the_optimum(count, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every stage, for sets of every size up to k."""
    tried, reference = 0, signed_search.reference_levels
    for seed in range(count(20_000, 40)):
        rng = np.random.default_rng([seed, 9])
        catalog, user = draw(seed, rng)
        n = len(catalog)
        k = min(int(rng.integers(2, 6)), n)
        excluded = np.flatnonzero(rng.random(n) < 0.2)[: n - 2]
        rows = np.setdiff1d(np.arange(n), excluded)
        best = sw.rank(sw.Instance.from_catalog(catalog, user, rows), k, "exhaustive").value
        known = [-math.inf, best, 0.8 * best][rng.integers(3)]
        near = None if rng.random() < 0.2 else rng.choice(rows, int(rng.integers(1, len(rows) + 1)), replace=False)
        size = float(rng.choice([0.0, 0.1, 2.0]))

        def levels(items, near, others, begin, end, level, size=size, rng=rng) -> None:
            reference(items, near, others, begin, end, level)
            level[begin:end] += size * rng.normal(size=level[begin:end].shape)

        monkeypatch.setattr(signed_search, "reference_levels", levels)
        monkeypatch.setattr(signed_search, "STEPS", 20)
        monkeypatch.setattr(pair_weights, "LOOSE", math.inf)
        monkeypatch.setattr(signed_search, "DROPPED", float(rng.choice([0.0, 0.3])))
        search = search_of(catalog, user, k, known, excluded, near)
        if search is None:
            continue
        tried, stage = tried + 1, 0
        for _ in range(200 if large else 60):  # all stages about 14 or 4 times
            if search.finished:
                break
            search.proceed()
            if stage == 1 and search._stage == 2 and rng.random() < 0.5:
                disturb(search, rng)
            stage = search._stage
            assert search.bound >= best - 1e-9, seed
    assert tried > 0.8 * count(20_000, 40)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_every_set_is_below_its_lines(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """F(S) of each set is at most the sum of its lines, pairs and empty places."""
    monkeypatch.setattr(pair_weights, "LOOSE", math.inf)
    catalog, user = random_catalog(size, n=9, heads=4, base=True, sink=True)
    search = search_of(catalog, user, 6, -math.inf, np.empty(0, int), np.arange(6))
    assert search is not None
    search._fill()
    search._share()
    charge, lines, rng = search._change.astype(float), search._lines, np.random.default_rng(0)
    place = CellBounds.build(catalog).place
    for _ in range(50):
        chosen = rng.choice(9, size, replace=False)
        at = place[chosen]
        pairs = charge[np.ix_(at, at)].sum(where=~np.eye(size, dtype=bool))
        empty = (6 - size) * (lines.slope * lines.empty)[at].sum()
        assert sw.set_value(catalog, user, chosen) <= lines.reward[at].sum() + pairs + empty + 1e-9


def test_catalogues_without_pair_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """One head, no sink or a weak one, other rewards, too many pairs and very sharp attention have none."""

    def weights(**parts) -> PairWeights | None:
        return CellBounds.build(random_catalog(1, **parts)[0]).pair_weights

    assert weights(heads=3, sink=True) is None
    monkeypatch.setattr(pair_weights, "LOOSE", math.inf)
    assert weights(heads=3, sink=True) is not None
    assert weights(heads=3) is None
    assert weights(heads=1, sink=True) is None
    assert weights(heads=3, sink=True, rewards=(sw.Linear(),)) is None
    assert weights(heads=3, sink=True, sharpness=1e4) is None
    monkeypatch.setattr(pair_weights, "MOST_PAIRS", 100)
    assert weights(heads=3, sink=True) is None


def test_weights_and_their_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_weights, "LOOSE", math.inf)
    catalog, _ = random_catalog(4, n=50, heads=3, sink=True)
    cells = CellBounds.build(catalog)
    found = cells.pair_weights
    assert found is not None
    query, key = catalog.query[cells.rows].astype(float), catalog.key[cells.rows].astype(float)
    logit = np.einsum("ihd,jhd->ihj", query, key)
    own = np.einsum("ihd,ihd->ih", query, key)
    wanted = np.exp(logit - own[:, :, None])
    wanted[np.arange(50), :, np.arange(50)] = 0.0
    assert np.allclose(found.weight, wanted, rtol=1e-6)
    assert np.allclose(found.largest[:, :, 7], -np.sort(-wanted, axis=2)[:, :, :7].sum(axis=2), rtol=1e-5)
    assert found.largest[:, :, 0].max() == 0.0
    assert cells.pair_weights is found


def test_a_strong_sink_and_many_heads_of_both_signs() -> None:
    """Where lifts say nothing, as heads cancel, less than half of their gap is left."""
    rng = np.random.default_rng(3)
    n, heads, d = 300, 8, 4
    query, key, value = (rng.normal(size=(n, heads, d)) / 2 for _ in range(3))
    value[:, ::2] *= 6.0
    value[:, 1::2] = -value[:, ::2] + 0.3 * rng.normal(size=(n, heads // 2, d))
    key[:, 1::2], query[:, 1::2] = key[:, ::2], query[:, ::2]
    query[:, :, 0], key[:, :, 0] = 1.0, 0.0
    sink = np.zeros((heads, d))
    sink[:, 0] = 4.0
    catalog = sw.Catalog(query, key, value, sw.Logistic(1.0, -0.5), sink=sw.Sink(sink, 0 * sink))
    user = sw.User(np.repeat(rng.normal(size=(heads // 2, d)), 2, axis=0))
    slate = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(n)), 6, "swap")
    search = WholeCatalogSearch(CellBounds.build(catalog), user, 6, slate.value, near=slate.indices)
    signed, lifts = search.signed, search.lifts
    assert signed is not None
    assert lifts is not None
    signed.run(time.perf_counter() + 20.0)
    lifts.run(time.perf_counter() + 1.0)
    assert signed.bound - slate.value < 0.5 * (lifts.bound - slate.value)
    assert search.found().upper_bound <= signed.bound * (1 + 1e-6)
