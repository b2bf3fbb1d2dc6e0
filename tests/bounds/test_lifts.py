"""Bounds by lifts are at least F of every set, whatever is listed, has a row, or is dropped."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

import setwise as sw
from reward_families import random_reward, random_rewards
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import WholeCatalogSearch
from setwise.bounds.lifts import catalog_lifts, instance_lifts
from setwise.bounds.lifts.catalog_lifts import LiftSearch
from setwise.bounds.lifts.instance_lifts import InstanceLifts
from setwise.kernels.reward_slopes import table_slope
from setwise.model.eligibility import Eligibility
from setwise.model.reward_table import RewardTable
from setwise.model.rewards import FAMILIES
from worlds import random_catalog

pytestmark = pytest.mark.promise("bounds")


def search_of(catalog: sw.Catalog, user: sw.User, k: int, value: float, excluded: np.ndarray, cells: int) -> LiftSearch:
    """The search by lifts alone, as the search of the whole catalogue makes it."""
    eligible = Eligibility.of(catalog, exclude=excluded)
    whole = WholeCatalogSearch(CellBounds.build(catalog, cells=cells), user, k, value, eligible=eligible)
    assert whole.lifts is not None
    return whole.lifts


def draw(seed: int, family: str, n: int, rng: np.random.Generator) -> tuple[sw.Catalog, sw.User]:
    catalog, user = random_catalog(
        seed,
        n=n,
        heads=int(rng.integers(2, 5)),
        d=int(rng.integers(1, 4)),
        base=bool(rng.random() < 0.6),
        sink=bool(rng.random() < 0.4),
        sharpness=float(rng.choice([0.1, 1, 3, 10, 100, 1e4])),
        rewards=[random_reward(family, rng), *random_rewards(rng, seed % 2)],
        dtype=np.float64 if rng.random() < 0.3 else np.float32,
    )
    if rng.random() < 0.3:
        user = user.with_scores(rng.choice([0.3, 3.0]) * rng.normal(size=n))
    return catalog, user


def shrink(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Little room for rows, lists, cells and nodes, so that every way to drop an item or a node is taken."""
    room = {
        "ROWS": rng.integers(1, 6), "SCORED": rng.integers(1, 4), "PER_HEAD": 1, "LISTED": rng.integers(1, 9),
        "MOST_LISTED": rng.integers(8, 20), "OPENED": rng.integers(1, 12), "_NODES": rng.choice([1, 3, 500]),
        "_HEAP": rng.choice([2, 500]), "_WORK": rng.choice([1, 10**6]), "_SECONDS": -1,
    }  # fmt: skip
    for name, value in room.items():
        monkeypatch.setattr(catalog_lifts, name, int(value))


@pytest.mark.parametrize("family", FAMILIES)
def test_never_below_the_optimum(family: str, count, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every stage, with any value known, and equal to the optimum when nothing was dropped."""
    for seed in range(count(800)):
        rng = np.random.default_rng([seed, 5])
        n, k = int(rng.integers(2, 11)), int(rng.integers(2, 6))
        catalog, user = draw(seed, family, n, rng)
        excluded = np.flatnonzero(rng.random(n) < 0.2)[: n - 2]
        rows = np.setdiff1d(np.arange(n), excluded)
        k = min(k, n)
        best = sw.rank(sw.Instance.from_catalog(catalog, user, rows), k, "exhaustive").value
        known = [-math.inf, best, best - 0.3 * abs(best) - 0.1][rng.integers(3)]
        small = rng.random() < 0.7
        if small:
            shrink(monkeypatch, rng)
        else:
            monkeypatch.undo()
            monkeypatch.setattr(catalog_lifts, "_SECONDS", -1.0)
        search = search_of(catalog, user, k, known, excluded, int(rng.integers(1, n + 1)))
        margin = 1e-9 * max(1.0, abs(best))
        for proceed in (search.run_stages, lambda: search.run(math.inf)):  # noqa: B023
            proceed()
            assert search.bound >= best - margin, seed
        assert search.finished
        if not small:
            assert search.bound == pytest.approx(best, rel=1e-7, abs=1e-7), seed
        value, found = search.best
        if len(found):
            assert value <= best + 1e-6 * max(1.0, abs(best)), seed  # its scores are raised


@pytest.mark.parametrize("family", FAMILIES)
def test_candidates_of_an_instance(family: str, count, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound over the open candidates of an instance holds after every step; without shortage it is the optimum."""
    for seed in range(count(400)):
        rng = np.random.default_rng([seed, 7])
        n, k = int(rng.integers(2, 11)), int(rng.integers(2, 6))
        catalog, user = draw(seed, family, n, rng)
        instance, rows = sw.Instance.from_catalog(catalog, user, np.arange(n)), np.flatnonzero(rng.random(n) < 0.8)
        if len(rows) < 2 or not instance_lifts.is_suitable(instance, k):
            continue
        small = rng.random() < 0.6
        monkeypatch.setattr(instance_lifts, "ROWS", int(rng.integers(1, 6)) if small else 48)
        monkeypatch.setattr(instance_lifts, "NODES", int(rng.choice([1, 3, 500])) if small else 500)
        monkeypatch.setattr(instance_lifts, "WORK", 1)
        best = sw.rank(instance, k, "exhaustive", exclude=np.setdiff1d(np.arange(n), rows)).value
        known = [-math.inf, best, best - 0.3 * abs(best) - 0.1][rng.integers(3)]
        search = InstanceLifts(instance, rows, k, known)
        assert search.bound == math.inf
        margin = 1e-9 * max(1.0, abs(best))
        for until in (-math.inf, time.perf_counter() + 1e-3, math.inf):
            search.run(until)
            assert search.bound >= best - margin, seed
        assert search.finished
        if not small:
            assert search.bound == pytest.approx(best, rel=1e-7, abs=1e-7), seed
        assert np.isin(search.best, rows).all()


def test_exact_with_a_budget_joins_the_heads() -> None:
    """Limits are kept, and what is proven with a budget is what is proven without."""
    for seed in range(6):
        rng = np.random.default_rng([seed, 8])
        catalog, user = random_catalog(seed, n=30, heads=3, base=True, sink=seed % 2 == 0)
        instance = sw.Instance.from_catalog(catalog, user, np.arange(30))
        instance = sw.Instance(
            instance.logit, instance.score, (instance.rewards, instance.reward_class), instance.base,
            instance.sink_logit, instance.sink_score, groups={"kind": rng.integers(0, 5, 30)},
        )  # fmt: skip
        limits = {"kind": 1} if seed % 3 == 0 else None
        slow, fast = (sw.rank(instance, 4, "exact", at_most=limits, budget_ms=ms) for ms in (None, 60_000.0))
        assert slow.proven
        assert fast.proven
        assert fast.value == pytest.approx(slow.value, rel=1e-8)
        assert fast.upper_bound >= slow.value - 1e-9 * abs(slow.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_slopes_are_at_least_those_of_chords(family: str) -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        reward = random_reward(family, rng)
        table = RewardTable.of([reward])
        low, high = np.sort(rng.normal(scale=3, size=2))
        x = np.sort(rng.uniform(low, high, 50))
        y = reward.value(x)
        chord = np.diff(y) / np.maximum(np.diff(x), 1e-12)
        found = table_slope(table.code, table.parameter, table.first_knot, table.knot, 0, low, high)
        assert found >= chord.max() - 1e-6 * (1 + abs(chord.max()))
        assert found <= max(reward.lipschitz, 0.0) * (1 + 1e-6) + 1e-12


def test_a_value_offered_later_prunes() -> None:
    catalog, user = random_catalog(3, n=60, heads=3, base=True)
    best = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(60)), 3, "exact").value
    search = search_of(catalog, user, 3, -math.inf, np.empty(0, int), 10)
    search.run(time.perf_counter() + 0.02)
    search.offer(best)
    search.run(math.inf)
    assert search.finished
    assert search.bound == pytest.approx(best, rel=1e-8)


@pytest.mark.nightly
def test_several_heads_of_a_trained_catalogue(shared_data, count) -> None:
    """Gaps that heads bounded one by one do not reach: they leave 8 %."""
    arrays = np.load(shared_data / "catalogs" / "playlists_four_heads.npz")
    reward = sw.Logistic(float(arrays["scale"]), float(arrays["bias"]))
    catalog = sw.Catalog(arrays["query"], arrays["key"], arrays["value"], reward, base=arrays["base"])
    cells, index, gaps = CellBounds.build(catalog), sw.Index.build(catalog, cells=64, progress=False), []
    for number in range(count(20, 10)):
        user, history = sw.User(arrays["user_heads"][number], arrays["user_base"][number]), arrays["history"][number]
        candidates = index.candidates(user, per_cell=5, exclude=np.unique(history), per_head=2)
        known = sw.rank(sw.Instance.from_catalog(catalog, user, candidates), 5, "swap").value
        eligible = Eligibility.of(catalog, exclude=np.unique(history))
        search = WholeCatalogSearch(cells, user, 5, known, eligible=eligible)
        lifts = search.lifts
        assert lifts is not None
        lifts.run(time.perf_counter() + 10.0)
        gaps.append(1 - lifts.known / lifts.bound)
    assert np.mean(gaps) <= 0.03
