"""Pins and limits inside whole-catalogue bounds: never below the best feasible set, and tighter than without them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import GroupLimit, WholeBound, WholeCatalogSearch
from setwise.bounds.lifts.catalog_lifts import LiftSearch
from worlds import REWARDS, random_catalog

pytestmark = pytest.mark.promise("bounds")

FOREVER = 1e6  # milliseconds
N = 8


def draw(seed: int) -> tuple[sw.Catalog, sw.User, int, np.ndarray, GroupLimit | None]:
    """A small catalogue of any kind, a size, pins and a limit."""
    rng = np.random.default_rng(seed)
    rewards = [REWARDS[number] for number in rng.choice(len(REWARDS), size=rng.integers(1, 4), replace=False)]
    catalog, user = random_catalog(
        seed,
        n=N,
        heads=int(rng.integers(1, 4)),
        d=int(rng.integers(1, 4)),
        base=bool(rng.random() < 0.5),
        sink=bool(rng.random() < 0.5),
        sharpness=float(rng.choice([0.1, 1, 3, 10, 100])),
        rewards=rewards,
        dtype=np.float64 if rng.random() < 0.3 else np.float32,
    )
    k = int(rng.integers(1, 6))
    labels, most = rng.integers(-1, 3, size=N), int(rng.integers(1, 3))
    limit = GroupLimit(labels, most) if rng.random() < 0.7 else None
    pins = rng.choice(N, size=rng.integers(0, min(k, 3) + 1), replace=False)
    if limit is not None and len(pins) and not keeps(pins, limit):
        pins = pins[:1]
    return catalog, user, k, pins, limit


def keeps(rows, limit: GroupLimit | None) -> bool:
    if limit is None:
        return True
    mine = limit.labels[np.asarray(rows)]
    return bool(np.bincount(mine[mine >= 0], minlength=1).max() <= limit.most)


def feasible(k: int, pins: np.ndarray, limit: GroupLimit | None) -> list[list[int]]:
    sets = (list(rows) for size in range(1, k + 1) for rows in itertools.combinations(range(N), size))
    return [rows for rows in sets if set(pins.tolist()) <= set(rows) and keeps(rows, limit)]


def bounded(catalog, user, k, pins, limit, cells=None, value=-np.inf, ms=FOREVER, steps=1) -> WholeBound:
    search = WholeCatalogSearch(CellBounds.build(catalog, cells=cells), user, k, value, pinned=pins, limit=limit)
    for _ in range(steps):
        search.run(ms / steps)
    return search.found()


@pytest.mark.parametrize("part", range(10))
def test_never_below_the_best_feasible_set_and_equal_to_it_when_proven(part: int, count) -> None:
    proven = equal = 0
    for seed in range(part, count(20_000, 200), 10):
        catalog, user, k, pins, limit = draw(seed)
        best = max(sw.set_value(catalog, user, rows) for rows in feasible(k, pins, limit))
        size = 1e-8 * (1 + abs(best))
        for ms, cells, known in ((FOREVER, None, -np.inf), (0.0, 3, -np.inf), (FOREVER, 2, best)):
            found = bounded(catalog, user, k, pins, limit, cells, known, ms)
            assert found.upper_bound >= best - size, (seed, ms, cells)
        if found.proven and found.upper_bound < 1e200:
            proven += 1
            equal += found.upper_bound <= best + size + 1e-6 * abs(best)
            one_head = catalog.heads == 1 or len(pins) == 0
            assert not one_head or found.upper_bound <= best + size + 1e-6 * abs(best), seed
    assert proven
    assert equal > 0.5 * proven


def test_the_search_by_lifts_alone_keeps_the_limit_of_groups(count) -> None:
    for seed in range(count(4_000, 100)):
        catalog, user, k, _, limit = draw(seed)
        cells = CellBounds.build(catalog, cells=3)
        lifts = WholeCatalogSearch(cells, user, k, limit=limit).lifts
        if not isinstance(lifts, LiftSearch):
            continue
        lifts.run_stages()
        best = max(sw.set_value(catalog, user, rows) for rows in feasible(k, np.empty(0, int), limit))
        assert lifts.bound >= best - 1e-8 * (1 + abs(best)), seed
        value, items = lifts.best
        assert value == -np.inf or keeps(cells.rows[items], limit), seed


@pytest.mark.parametrize("heads", [1, 3])
def test_limits_and_pins_lower_the_bound(heads) -> None:
    """Items of one label are worth most: a bound that ignores the limit counts k of them."""
    n, k = 200, 5
    catalog, user = random_catalog(4, n=n, heads=heads, rewards=[sw.Logistic(0.5, -1.0)], base=True)
    cells = CellBounds.build(catalog)
    free = WholeCatalogSearch(cells, user, k)
    free.run(2000)
    known = free.found()
    rows = known.better
    assert rows is not None
    labels = np.full(n, -1)
    labels[rows] = 0
    limited = WholeCatalogSearch(cells, user, k, limit=GroupLimit(labels, 1))
    limited.run(2000)
    if known.proven:
        assert limited.found().upper_bound < known.upper_bound
    worst = int(np.argmin([sw.set_value(catalog, user, [row]) for row in range(n)]))
    pinned = WholeCatalogSearch(cells, user, k, pinned=np.array([worst]))
    pinned.run(2000)
    assert pinned.found().upper_bound < known.upper_bound
    better = pinned.found().better
    assert better is None or worst in better
