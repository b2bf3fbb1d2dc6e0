"""Constraints hold on thousands of random queries, checked on raw attributes and by the reference objective."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible
from setwise.model.encoder import Encoder
from worlds import REWARDS, random_catalog

WORLDS, DIM = 20, 4


@dataclass
class Small:
    """A small world whose attributes are plain lists, as the checks read them."""

    rec: sw.Recommender
    ids: list[str]
    columns: dict[str, list[Any]]


def small_world(seed: int) -> Small:
    rng = np.random.default_rng(seed)
    n, heads, base = int(rng.integers(8, 50)), 1 + seed % 2, bool(rng.integers(2))
    columns: dict[str, list[Any]] = {
        "city": [rng.choice(["Rome", "Oslo", "Lima"]) if rng.random() < 0.9 else None for _ in range(n)],
        "artist": [f"artist {rng.integers(6)}" if rng.random() < 0.8 else None for _ in range(n)],
        "price": [float(rng.integers(50, 300)) if rng.random() < 0.9 else math.nan for _ in range(n)],
        "year": rng.integers(1990, 2000, size=n).tolist(),
    }
    ids = [f"item {i}" for i in range(n)]
    mixed = REWARDS if rng.integers(2) else REWARDS[:1]
    catalog, _ = random_catalog(
        seed, n=n, heads=heads, base=base, sink=bool(rng.integers(2)), rewards=mixed, ids=ids, attributes=columns
    )
    shapes = {"items": (n, DIM), "heads_weight": (heads, 3, DIM), "heads_bias": (heads, 3)}
    shapes |= {"base_weight": (2, DIM), "base_bias": (2,)} if base else {}
    encoder = Encoder(**{name: rng.normal(size=shape) for name, shape in shapes.items()})
    index = sw.Index.build(catalog, cells=4)
    return Small(sw.Recommender(index, certify=False, candidates=10, encoder=encoder), ids, columns)


def some(rng: np.random.Generator, ids: list[str], most: int) -> list[str]:
    return rng.choice(ids, size=min(int(rng.integers(most + 1)), len(ids)), replace=False).tolist()


CONDITIONS = {
    "city": lambda rng: "Rome" if rng.integers(2) else ["Rome", "Oslo"],
    "price": lambda rng: [(None, 200), (80.0, None), (60, 250)][rng.integers(3)],
    "year": lambda rng: [1994, [1990, 1991, 1995], (1991, 1998)][rng.integers(3)],
}


def random_options(rng: np.random.Generator, ids: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {"k": int(rng.integers(1, 7))}
    if rng.random() < 0.5:
        options["exclude"] = some(rng, ids, 6)
    if rng.random() < 0.3:
        options["filter_seen"] = False
    if rng.random() < 0.4:
        options["include"] = some(rng, ids, 2)
    if rng.random() < 0.5:
        names = rng.choice(list(CONDITIONS), size=rng.integers(1, 3), replace=False).tolist()
        options["where"] = {name: CONDITIONS[name](rng) for name in names}
    if rng.random() < 0.6:
        options["at_most"] = {name: int(rng.integers(1, 3)) for name in some(rng, ["artist", "city", "year"], 2)}
    return options


def fits(cell: Any, condition: Any) -> bool:
    """Whether an item with this cell passes the filter."""
    if cell is None or cell != cell:
        return False
    if isinstance(condition, tuple):
        low, high = condition
        return (low is None or cell >= low) and (high is None or cell <= high)
    return cell in condition if isinstance(condition, list) else cell == condition


def shown(world: Small, options: dict[str, Any], history: list[str]) -> set[str]:
    """The ids that may be shown at all."""
    excluded = set(options.get("exclude", []))
    if options.get("filter_seen", True):
        excluded |= set(history) - set(options.get("include", []))
    where = options.get("where", {})
    return {
        one
        for row, one in enumerate(world.ids)
        if one not in excluded and all(fits(world.columns[name][row], where[name]) for name in where)
    }


def limits_kept(world: Small, chosen: list[str], options: dict[str, Any]) -> bool:
    rows = [world.ids.index(one) for one in chosen]
    for name, limit in options.get("at_most", {}).items():
        counts = Counter(world.columns[name][row] for row in rows)
        counts.pop(None, None)
        if counts and max(counts.values()) > limit:
            return False
    return True


def possible(world: Small, options: dict[str, Any], allowed: set[str]) -> bool:
    pinned = options.get("include", [])
    return (
        bool(allowed) and set(pinned) <= allowed and len(pinned) <= options["k"] and limits_kept(world, pinned, options)
    )


def random_feasible(rng: np.random.Generator, world: Small, options: dict[str, Any], allowed: set[str]) -> list[str]:
    chosen = list(options.get("include", []))
    for one in rng.permutation(sorted(allowed - set(chosen))).tolist():
        if len(chosen) < options["k"] and limits_kept(world, [*chosen, one], options):
            chosen.append(one)
    return chosen


def check(world: Small, slate: sw.Slate, options: dict[str, Any], allowed: set[str]) -> None:
    chosen = slate.items.tolist()
    assert chosen == [world.ids[row] for row in slate.indices]
    assert 1 <= len(chosen) == len(set(chosen)) <= options["k"]
    assert set(chosen) <= allowed, "exclude and where"
    assert set(options.get("include", [])) <= set(chosen), "include"
    assert limits_kept(world, chosen, options), "at_most"
    value = sw.set_value(slate.catalog, slate.user, slate.indices)
    assert slate.value == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert slate.upper_bound >= slate.value


def test_constraints_hold(count) -> None:
    rng = np.random.default_rng(0)
    worlds = [small_world(seed) for seed in range(WORLDS)]
    kinds = Counter[str]()
    for number in range(count(10_000, 40)):
        world = worlds[number % WORLDS]
        options, history = random_options(rng, world.ids), some(rng, world.ids, 8)
        by_history, certify = bool(rng.integers(2)), rng.random() < 0.1
        catalog = world.rec.index.catalog
        vector = rng.normal(size=catalog.value.shape[1:])
        user = (
            {"history": history}
            if by_history
            else {"user": sw.User(vector, rng.normal(size=2) if catalog.base is not None else None)}
        )
        way = {"ranker": rng.choice(["swap", "greedy", "knn"]).item(), "certify": certify, "budget_ms": 2.0}
        allowed = shown(world, options, history if by_history else [])
        if not possible(world, options, allowed):
            with pytest.raises(Infeasible):
                world.rec.recommend(**user, **options, **way)
            kinds["infeasible"] += 1
            continue
        slate = world.rec.recommend(**user, **options, **way)
        check(world, slate, options, allowed)
        kinds["feasible"] += 1
        if certify:
            kinds["certified"] += 1
            rival = catalog.rows_of(random_feasible(rng, world, options, allowed))
            value = sw.set_value(catalog, slate.user, rival)
            assert value <= slate.upper_bound + 1e-9 * abs(value), "no feasible set beats the bound"
    assert min(kinds["infeasible"], kinds["certified"]) > 0
    assert kinds["feasible"] > kinds["infeasible"]
