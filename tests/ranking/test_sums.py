"""Limits on sums against brute force, on small instances of every kind."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput
from setwise.model.sums import SumLimit, Sums
from setwise.ranking import RANKERS
from small_instances import Case, small_instance

pytestmark = pytest.mark.promise("bounds")


def with_sums(rng: np.random.Generator) -> tuple[sw.Instance, Case, dict[str, Any], np.ndarray]:
    """A small instance, weights of rewards, and one to three sums that are limited."""
    case = small_instance(rng)
    it, m = case.instance, case.instance.m
    columns = {name: it.groups[name] for name in it.groups}
    numbers = np.round(rng.exponential(size=(3, m)) * rng.choice([1.0, 10.0]), int(rng.integers(0, 3)))
    if rng.random() < 0.2:
        numbers[0] = rng.exponential(size=m) / 3.0  # not decimal
    numbers[1] = rng.integers(0, 4, m)
    instance = sw.Instance(
        it.logit,
        it.score,
        (it.rewards, it.reward_class),
        it.base,
        it.sink_logit,
        it.sink_score,
        groups={**columns, "price": numbers[0], "size": numbers[1], "time": numbers[2]},
        exclusive=it.exclusive,
        reward_weight=rng.exponential(size=m) * (rng.random(m) < 0.8) if rng.random() < 0.5 else None,
    )
    some = rng.permutation(3)[: rng.integers(1, 4)]
    names, typical = ["price", "size", "time"], 0.5 * numbers.sum(axis=1)
    most = {names[r]: float(np.round(typical[r] * rng.uniform(0.2, 1.5), 2)) for r in some}
    least = {names[r]: float(np.round(typical[r] * rng.uniform(0, 0.8), 2)) for r in some[:1]}
    stated: dict[str, Any] = {"sum_at_most": most} if rng.random() < 0.8 else {}
    if rng.random() < 0.4 or not stated:
        stated["sum_at_least"] = {
            name: min(n, most[name]) if "sum_at_most" in stated else n for name, n in least.items()
        }
    return instance, case, stated, numbers


def keeps(stated: dict[str, Any], numbers: np.ndarray, members: tuple[int, ...]) -> bool:
    """Whether a set keeps the sums, in decimal numbers."""
    for row, name in enumerate(("price", "size", "time")):
        total = sum((Fraction(repr(float(numbers[row, i]))) for i in members), Fraction(0))
        most, least = (stated.get(argument, {}).get(name) for argument in ("sum_at_most", "sum_at_least"))
        if (most is not None and total > Fraction(repr(most))) or (least is not None and total < Fraction(repr(least))):
            return False
    return True


def best_set(case: Case, instance: sw.Instance, stated: dict[str, Any], numbers: np.ndarray) -> float:
    """The largest value of a feasible set by brute force; −∞ without one."""
    include, exclude = case.constraints.get("include", ()), set(case.constraints.get("exclude", ()))
    most, best = case.constraints.get("at_most", {}), -np.inf
    for size in range(1, min(case.k, instance.m) + 1):
        for members in itertools.combinations(range(instance.m), size):
            chosen = list(members)
            labels = [*((instance.groups[name], n) for name, n in most.items()), *((x, 1) for x in instance.exclusive)]
            full = (np.bincount(x[chosen][x[chosen] >= 0], minlength=1).max() > n for x, n in labels)
            allowed = set(include) <= set(members) and not exclude & set(members) and not any(full)
            if allowed and keeps(stated, numbers, members):
                best = max(best, instance.value(chosen))
    return best


@pytest.mark.parametrize("part", range(4))
def test_no_bound_is_below_the_best_set_within_the_sums(part: int, count) -> None:
    proven = feasible = 0
    for seed in range(part, count(10_000, 400), 4):
        instance, case, stated, numbers = with_sums(np.random.default_rng(seed))
        best = best_set(case, instance, stated, numbers)
        if best == -np.inf:
            for ranker in ("swap", "exact", "exhaustive"):
                with pytest.raises(Infeasible):
                    sw.rank(instance, case.k, ranker=ranker, **case.constraints, **stated)
            continue
        feasible += 1
        slack = 1e-8 * (1 + abs(best))
        for ranker in ("swap", "exact", "exhaustive"):
            ranking = sw.rank(instance, case.k, ranker=ranker, **case.constraints, **stated)
            assert keeps(stated, numbers, tuple(ranking.indices.tolist())), (seed, ranker)
            assert ranking.value <= best + slack <= ranking.upper_bound + 2 * slack, (seed, ranker)
            assert ranker == "swap" or not ranking.proven or ranking.value >= best - slack, (seed, ranker)
            if ranker != "swap" and abs(best) < 1e100:
                proven += ranking.proven
    assert proven > 1.9 * feasible * 0.95
    assert feasible


def test_swap_search_finds_the_best_set_within_sums_of_a_small_instance(count) -> None:
    missed = feasible = 0
    for seed in range(count(3_000, 300)):
        instance, case, stated, numbers = with_sums(np.random.default_rng(seed))
        best = best_set(case, instance, stated, numbers)
        if np.isfinite(best):
            value = sw.rank(instance, case.k, **case.constraints, **stated).value
            feasible += 1
            missed += value < best - 1e-6 * (1 + abs(best))
    assert missed <= 0.01 * feasible


@pytest.mark.parametrize("ranker", RANKERS)
def test_every_ranker_keeps_sums(ranker: str, count) -> None:
    for seed in range(count(300, 60)):
        instance, case, stated, numbers = with_sums(np.random.default_rng(seed))
        if best_set(case, instance, stated, numbers) > -np.inf:
            options = {"dpp": {}, "mmr": {}}.get(ranker, {})
            ranking = sw.rank(instance, case.k, ranker=ranker, **case.constraints, **stated, **options)
            assert keeps(stated, numbers, tuple(ranking.indices.tolist())), seed


def test_decimal_numbers_are_summed_exactly() -> None:
    instance = sw.Instance(np.zeros((3, 3)), np.ones(3), groups={"price": [0.1, 0.2, 0.3]})
    assert len(sw.rank(instance, 3, sum_at_most={"price": 0.3}).indices) == 2
    assert len(sw.rank(instance, None, sum_at_most={"price": 0.6}).indices) == 3
    assert len(sw.rank(instance, 3, sum_at_most={"price": 0.59999}).indices) == 2
    sums = Sums.of([SumLimit("third", np.full(3, 1 / 3), 0.0, 1.0)], 3)
    assert sums.margin > 0
    assert not sums.within(np.arange(3))


def test_sums_that_mean_nothing_are_refused() -> None:
    instance = sw.Instance(
        np.zeros((3, 3)), np.ones(3), groups={"price": [1.0, 2.0, 3.0], "kind": ["a", "b", "b"], "loss": [-1.0, 1, 1]}
    )
    for stated, message in (
        ({"sum_at_most": 3}, "mapping"),
        ({"sum_at_most": {"price": -1}}, "from 0"),
        ({"sum_at_most": {"price": "3"}}, "finite number"),
        ({"sum_at_most": {"kind": 1}}, "holds texts"),
        ({"sum_at_most": {"prise": 1}}, "did you mean 'price'"),
        ({"sum_at_most": {"loss": 1}}, "from 0 to"),
        ({"sum_at_most": {"price": {"limits": 1}}}, "'limit'"),
        ({"sum_at_most": {"price": 1}, "sum_at_least": {"price": 2}}, "at most the limit"),
        ({"sum_at_most": {"x": {"limit": 1, "of": [1.0]}}}, "shape"),
    ):
        with pytest.raises(InvalidInput, match=message):
            sw.rank(instance, 2, **stated)
    for stated, message in (
        ({"sum_at_most": {"price": 0.5}}, "one candidate at least"),
        ({"sum_at_least": {"price": 7}}, "largest numbers"),
        ({"sum_at_most": {"price": 2}, "include": [2]}, "pin fewer"),
    ):
        with pytest.raises(Infeasible, match=message):
            sw.rank(instance, 2, **stated)
    with pytest.raises(InvalidInput, match="k must be stated"):
        sw.rank(instance, None)
