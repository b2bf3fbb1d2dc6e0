"""Weights of rewards against brute force, through candidates, the whole catalogue and ``verify``.

The best set is found here by evaluating every set with ``sw.item_rewards`` and multiplying, which shares nothing with
the code of weights.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput
from setwise.verification.slate_file import read_slate, write_slate
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog

pytestmark = pytest.mark.promise("bounds")


def small_world(seed: int) -> tuple[sw.Catalog, sw.User, np.random.Generator]:
    """Five to nine items of any kind, with a margin that some lack."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 10))
    margin = np.round(rng.exponential(size=n) * rng.choice([1, 100]), int(rng.integers(0, 4)))
    margin[rng.random(n) < 0.2] = 0.0
    margin[rng.random(n) < 0.1] = np.nan
    price = np.round(rng.exponential(size=n) * 10, 2)
    price[rng.random(n) < 0.1] = np.nan
    attributes = {"margin": margin, "kind": rng.choice(["a", "b", "c"], n).tolist(), "price": price}
    rewards = [REWARDS[number] for number in rng.choice(len(REWARDS), size=rng.integers(1, 3), replace=False)]
    catalog, user = random_catalog(
        seed,
        n=n,
        heads=int(rng.choice([1, 1, 2, 3])),
        d=2,
        base=bool(rng.random() < 0.5),
        sink=bool(rng.random() < 0.5),
        sharpness=float(rng.choice([0.3, 1, 5])),
        rewards=rewards,
        attributes=attributes,
    )
    return catalog, user, rng


def stated_weights(catalog: sw.Catalog, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Weights in one of their forms, and the number of each item or NaN."""
    n, form = len(catalog), int(rng.integers(3))
    if form == 0:
        return "margin", np.array(catalog.attributes["margin"])
    numbers = rng.exponential(size=n) * (rng.random(n) < 0.8)
    if form == 1:
        return numbers, numbers
    named = rng.choice(n, size=int(rng.integers(2, n + 1)), replace=False)
    known = np.full(n, np.nan)
    known[named] = numbers[named]
    return {int(row): float(numbers[row]) for row in named}, known


def best_of_all(catalog: sw.Catalog, user: sw.User, k: int, weights: np.ndarray, keeps: Any) -> float:
    """The largest Σ ω_i f_i over the sets of at most k weighed items that ``keeps`` admits; −∞ if there is none."""
    rows, best = np.flatnonzero(~np.isnan(weights)), -np.inf
    for size in range(1, k + 1):
        for members in itertools.combinations(rows.tolist(), size):
            if keeps(members):
                rewards = sw.item_rewards(catalog, sw.User(user.heads, user.base), list(members))
                best = max(best, float((weights[list(members)] * rewards).sum()))
    return best


@pytest.mark.parametrize("part", range(4))
def test_no_bound_is_below_the_best_weighed_set_and_verify_agrees(part: int, count, tmp_path: Path) -> None:
    slates = proven = verified = 0
    for seed in range(part, count(4_000, 120), 4):
        catalog, user, rng = small_world(seed)
        stated, weights = stated_weights(catalog, rng)
        if np.isnan(weights).all():
            continue
        k, known = int(rng.integers(1, 5)), np.flatnonzero(~np.isnan(weights))
        include = [int(rng.choice(known))] if rng.random() < 0.3 else []
        at_most = {"kind": int(rng.integers(1, 3))} if rng.random() < 0.3 else {}
        kinds = catalog.attributes.labels("kind", np.arange(len(catalog)))

        def keeps(rows, include=include, at_most=at_most, kinds=kinds) -> bool:
            most = at_most.get("kind", len(rows))
            return set(include) <= set(rows) and bool(np.bincount(kinds[list(rows)]).max() <= most)

        best = best_of_all(catalog, user, k, weights, keeps)
        size = 1e-8 * (1 + abs(best))
        for candidates in (1000, 4):
            index = sw.Index.build(catalog, cells=2)
            recommender = sw.Recommender(index, candidates=candidates).prepare()
            slate = recommender.recommend(
                user, k, weights=stated, include=include, at_most=at_most, value_unit="EUR", budget_ms=None
            )
            rows = slate.indices.tolist()
            assert keeps(rows), seed
            assert not np.isnan(weights[rows]).any(), seed
            assert slate.value <= best + size <= slate.upper_bound + 2 * size, (seed, candidates)
            assert not slate.proven or slate.value >= best - size, (seed, candidates)
            slates, proven = slates + 1, proven + slate.proven
            if seed % 3 == 0 and abs(best) > 1e-9:  # of a value of 0 nothing is smaller than rounding
                slate.save(tmp_path / "slate.json")
                assert verify(tmp_path / "slate.json", catalog).ok, (seed, candidates)
                verified += 1
    assert proven > 0.8 * slates
    assert verified > 2


def test_a_mutated_certificate_is_refused(tmp_path: Path) -> None:
    refused = 0
    for seed in range(40):
        catalog, user, _ = small_world(seed)
        if not np.nansum(catalog.attributes["margin"]):
            continue
        slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, 2, weights="margin")
        slate.save(path := tmp_path / "slate.json")
        content = {key: part for key, part in read_slate(path).items() if key != "digest"}
        for changed in (
            {"upper_bound": slate.value - 0.01 * abs(slate.value) - 1e-3, "proven": True},
            {"query": {**content["query"], "weights": [1e3] * len(catalog)}},
            {"query": {**content["query"], "weights": [-1.0] * len(catalog)}},
        ):
            write_slate(path, {**content, **changed})
            assert not verify(path, catalog).ok, (seed, changed)
            refused += 1
    assert refused > 30


def test_every_ranker_counts_weights() -> None:
    """Of two equal items, the one that weighs more is chosen."""
    for ranker in ("top-k", "mmr", "dpp", "greedy", "beam", "paper", "swap", "exact", "exhaustive"):
        instance = sw.Instance(np.zeros((4, 4)), np.ones(4), reward_weight=[1.0, 2.0, 0.0, 3.0])
        ranking = sw.rank(instance, 2, ranker=ranker)
        assert sorted(ranking.indices.tolist()) == [1, 3], ranker
        assert ranking.value == pytest.approx(5 / (1 + np.exp(-1)))


def test_weights_that_mean_nothing_are_refused() -> None:
    catalog, user, _ = small_world(1)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=2))
    for weights, message in (
        ([-1.0] * len(catalog), "at least 0"),
        ("kind", "holds texts"),
        ("margn", "did you mean 'margin'"),
        ([1.0], "one for each"),
        (3.0, "an attribute's name"),
        ({0: float("nan")}, "finite"),
        ({}, "at least one item"),
    ):
        with pytest.raises(InvalidInput, match=message):
            recommender.recommend(user, 2, weights=weights)
    with pytest.raises(InvalidInput, match="where no bound holds"):
        recommender.recommend(user, 2, weights={0: -2.0})


def test_the_unit_is_shown_with_the_value() -> None:
    catalog, user, _ = small_world(1)
    slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, 2, weights="margin", value_unit="EUR")
    assert " EUR" in repr(slate)
    assert slate.to_dict()["value_unit"] == "EUR"
    assert json.dumps(slate.query.to_json())


def stated_sums(
    catalog: sw.Catalog, rng: np.random.Generator
) -> tuple[dict[str, Any], list[tuple[np.ndarray, float, float]]]:
    """Limits on one to three sums, of an attribute or of numbers of the request; with them numbers, low and high."""
    n, price = len(catalog), np.array(catalog.attributes["price"])
    stated: dict[str, Any] = {}
    limits: list[tuple[np.ndarray, float, float]] = []
    if rng.random() < 0.7:
        most = float(np.round(np.nansum(price) * rng.uniform(0.1, 0.7), 2))
        stated["sum_at_most"] = {"price": most}
        limits.append((price, -np.inf, most))
    if rng.random() < 0.6 or not stated:
        tokens = rng.integers(0, 50, n).astype(float)
        known = {int(row): float(tokens[row]) for row in rng.permutation(n)[: max(3, n - 2)]}
        numbers = np.array([known.get(row, np.nan) for row in range(n)])
        limit = float(rng.integers(20, 120))
        stated.setdefault("sum_at_most", {})["tokens"] = {"limit": limit, "of": known}
        limits.append((numbers, -np.inf, limit))
    if rng.random() < 0.3:
        size = np.round(rng.random(n), 3)
        least = float(np.round(rng.uniform(0.1, 1.0), 2))
        stated["sum_at_least"] = {"size": {"limit": least, "of": size}}
        limits.append((size, least, np.inf))
    return stated, limits


@pytest.mark.parametrize("part", range(4))
def test_no_bound_is_below_the_best_set_within_sums_and_verify_agrees(part: int, count, tmp_path: Path) -> None:
    slates = proven = verified = 0
    for seed in range(part, count(10_000, 160), 4):
        catalog, user, rng = small_world(seed)
        weighed, weights = stated_weights(catalog, rng) if rng.random() < 0.5 else (None, np.ones(len(catalog)))
        stated, limits = stated_sums(catalog, rng)
        k = int(rng.integers(1, 5))
        at_most = {"kind": int(rng.integers(1, 3))} if rng.random() < 0.3 else {}
        kinds = catalog.attributes.labels("kind", np.arange(len(catalog)))
        include = [int(rng.integers(len(catalog)))] if rng.random() < 0.2 else []

        def keeps(rows, include=include, at_most=at_most, kinds=kinds, limits=limits) -> bool:
            if not set(include) <= set(rows) or np.bincount(kinds[list(rows)]).max() > at_most.get("kind", len(rows)):
                return False
            for numbers, low, high in limits:
                if np.isnan(numbers[list(rows)]).any():
                    return False
                total = float(np.round(numbers[list(rows)].sum(), 6))
                if not low <= total <= high:
                    return False
            return True

        best = best_of_all(catalog, user, k, weights, keeps)
        size = 1e-8 * (1 + abs(best))
        for candidates in (1000, 4):
            recommender = sw.Recommender(sw.Index.build(catalog, cells=2), candidates=candidates).prepare()
            try:
                slate = recommender.recommend(user, k, weights=weighed, include=include, at_most=at_most, **stated)
            except Infeasible:
                assert best == -np.inf, (seed, candidates)
                continue
            rows = slate.indices.tolist()
            assert keeps(rows), (seed, candidates)
            assert slate.value <= best + size <= slate.upper_bound + 2 * size, (seed, candidates)
            assert not slate.proven or slate.value >= best - size, (seed, candidates)
            slates, proven = slates + 1, proven + slate.proven
            if seed % 3 == 0 and abs(best) > 1e-9:  # of a value of 0 nothing is smaller than rounding
                slate.save(tmp_path / "slate.json")
                checked = verify(tmp_path / "slate.json", catalog)
                assert checked.ok, (seed, candidates, [check.sentence for check in checked.checks if not check.ok])
                verified += 1
    assert proven > 0.5 * slates
    assert verified > 2


def best_page(catalog: sw.Catalog, user: sw.User, k: int, weights: np.ndarray, shown: list[int], keeps: Any) -> float:
    """The largest Σ ω_i f_i of the new items beside those shown, over the pages of at most k items; 0 for none."""
    rows = [row for row in np.flatnonzero(~np.isnan(weights)).tolist() if row not in shown]
    best = 0.0 if keeps(()) else -np.inf
    for size in range(1, k + 1):
        for members in itertools.combinations(rows, size):
            if keeps(members):
                rewards = sw.item_rewards(catalog, sw.User(user.heads, user.base), [*members, *shown])
                best = max(best, float((weights[list(members)] * rewards[:size]).sum()))
    return best


@pytest.mark.parametrize("part", range(2))
def test_no_bound_is_below_the_best_next_page_and_verify_agrees(part: int, count, tmp_path: Path) -> None:
    slates = proven = verified = 0
    for seed in range(part, count(10_000, 120), 2):
        catalog, user, rng = small_world(seed)
        weighed, weights = stated_weights(catalog, rng) if rng.random() < 0.4 else (None, np.ones(len(catalog)))
        stated, limits = stated_sums(catalog, rng) if rng.random() < 0.5 else ({}, [])
        k, counts = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
        shown = rng.permutation(len(catalog))[: rng.integers(1, 4)].tolist()
        at_most = {"kind": int(rng.integers(1, 3))} if rng.random() < 0.4 else {}
        kinds = catalog.attributes.labels("kind", np.arange(len(catalog)))

        def keeps(rows, shown=shown, counts=counts, at_most=at_most, kinds=kinds, limits=limits) -> bool:
            counted = [*rows, *(shown if counts else ())]
            if at_most and counted and np.bincount(kinds[counted]).max() > at_most["kind"]:
                return False
            for numbers, low, high in limits:
                if np.isnan(numbers[list(rows)]).any():
                    return False
                total = float(np.round(np.nansum(numbers[counted]), 6))
                if not low <= total <= high:
                    return False
            return True

        best = best_page(catalog, user, k, weights, shown, keeps)
        size = 1e-8 * (1 + abs(best))
        for candidates in (1000, 4):
            recommender = sw.Recommender(sw.Index.build(catalog, cells=2), candidates=candidates).prepare()
            try:
                slate = recommender.recommend(
                    user, k, weights=weighed, after=shown, after_counts=counts, at_most=at_most, **stated
                )
            except Infeasible:
                assert best in (-np.inf, 0.0), (seed, candidates)
                continue
            rows = slate.indices.tolist()
            assert keeps(rows), (seed, candidates)
            assert not set(rows) & set(shown), (seed, candidates)
            assert slate.value == pytest.approx(float(slate.rewards.sum())), (seed, candidates)
            assert slate.value <= best + size <= slate.upper_bound + 2 * size, (seed, candidates)
            assert not slate.proven or slate.value >= best - size, (seed, candidates)
            slates, proven = slates + 1, proven + slate.proven
            if seed % 3 == 0 and abs(best) > 1e-9:
                slate.save(tmp_path / "slate.json")
                checked = verify(tmp_path / "slate.json", catalog)
                assert checked.ok, (seed, candidates, [check.sentence for check in checked.checks if not check.ok])
                verified += 1
    assert proven > 0.5 * slates
    assert verified > 2


def test_a_page_has_no_repeats_and_its_values_are_those_beside_what_was_shown() -> None:
    catalog, user, _ = small_world(7)
    recommender = sw.Recommender(sw.Index.build(catalog, cells=2)).prepare()
    first = recommender.recommend(user, 2)
    second = recommender.recommend(user, 2, after=first.items)
    assert not set(first) & set(second)
    rewards = sw.item_rewards(catalog, user, second.members)[: len(second)]
    np.testing.assert_allclose(second.rewards, rewards)
    assert second.attention.shape[1] == len(second.members)
    explanation = recommender.explain(second)
    assert len(explanation.rewards) == len(second)
    assert explanation.to_dict()["rivals"]
    assert recommender.certify(second, 0.05).value == pytest.approx(second.value)
    with pytest.raises(Infeasible, match="not shown again"):
        recommender.recommend(user, 2, after=first.items, include=first.items[:1])
