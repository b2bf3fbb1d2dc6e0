"""Search and bound of lists whose candidates compete: against all feasible sets of small lists."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counts import examples
from setwise.bounds.competition import upper_bound
from setwise.model.competition import Competition
from setwise.model.constraints import Constraints
from setwise.model.likeness import AttributeLikeness, NoLikeness, VectorLikeness
from setwise.model.rewards import Logistic
from setwise.ranking.competition_search import search

REWARDS = (Logistic(), Logistic(2.0, -0.5), Logistic(0.3))


def reference(problem: Competition, chosen) -> float:
    """F of the docstring of model/competition.py, word for word."""
    weight, total = np.exp(problem.likeness.logits()), 0.0
    for i in chosen:
        copies = sum(weight[i, j] for j in chosen if j != i)
        z = problem.argument[i] - problem.strength * copies / (1 + copies)
        chance = 1 / (1 + np.exp(-(problem.reward.scale * z + problem.reward.bias)))
        total += chance * (1.0 if problem.factor is None else problem.factor[i])
    return total


def problem_of(seed: int, m: int, weighted: bool) -> Competition:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, 2))
    x[rng.random(m) < 0.1] = 0.0
    if m > 1 and seed % 3 == 0:
        x[m // 2] = x[0]
    likeness = (
        VectorLikeness(x, float(rng.choice([0.1, 3, 10, 30])))
        if seed % 4
        else AttributeLikeness(rng.integers(-1, 3, size=(2, m)))
    )
    argument = rng.normal(size=m) * rng.choice([0.5, 2, 5])
    factor = rng.normal(size=m) + rng.choice([0.5, 2.0]) if weighted else None
    return Competition(argument, likeness, float(rng.choice([0, 0.5, 1, 2.4, 4, 8])), REWARDS[seed % 3], factor)


def constraints_of(seed: int, m: int, k: int) -> Constraints:
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(0, 3))
    labels, limits = rng.integers(-1, 3, size=(groups, m)), rng.integers(1, 4, size=groups)
    minimums = np.zeros((0, 0), np.int64)
    if groups and rng.random() < 0.4:
        minimums = np.zeros((groups, 3), np.int64)
        minimums[0, 0] = 1
    opened = rng.random(m) < 0.9
    pinned = np.zeros(0, np.intp)
    if rng.random() < 0.3 and opened.any():
        pinned = np.array([rng.choice(np.flatnonzero(opened))])
    return Constraints(k, opened, pinned, labels.astype(np.int64), limits.astype(np.int64), minimums)


def feasible_sets(constraints: Constraints, m: int, k: int) -> list[tuple[int, ...]]:
    sets = (chosen for size in range(1, k + 1) for chosen in itertools.combinations(range(m), size))
    return [chosen for chosen in sets if constraints.admits(np.array(chosen))]


@examples(80)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 9), k=st.integers(1, 5), weighted=st.booleans())
def test_search_and_bound_against_all_sets(seed, m, k, weighted) -> None:
    problem, constraints = problem_of(seed, m, weighted), constraints_of(seed, m, k)
    sets = feasible_sets(constraints, m, k)
    if not sets:
        return
    values = [reference(problem, chosen) for chosen in sets]
    best, size = max(values), max(map(abs, values))
    for known in (best, values[0], min(values)):
        for work in (5e6, 300.0):
            assert upper_bound(problem, constraints, known, work) >= best - 1e-9 * size
    chosen = search(problem, constraints)
    if not constraints.minimums.size:
        assert constraints.admits(chosen)
    if constraints.admits(chosen):
        found = float(problem.rewards_of(chosen).sum())
        assert found == pytest.approx(reference(problem, chosen.tolist()), rel=1e-9, abs=1e-12)
        assert found <= best + 1e-9 * size
        if not weighted:
            assert found >= best - 1e-6 * size
            assert upper_bound(problem, constraints, found) <= best + 1e-6 * size


@examples(20)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 12), strength=st.sampled_from([0.5, 1.0, 2.4, 4.0]))
def test_the_bound_is_above_the_best_set_that_any_search_finds(seed, k, strength) -> None:
    """On lists that are too long to enumerate."""
    rng = np.random.default_rng(seed)
    m = 60
    topic = rng.integers(6, size=m)
    x = rng.normal(size=(6, 5))[topic] + 0.5 * rng.normal(size=(m, 5))
    problem = Competition(rng.normal(size=m), VectorLikeness(x), strength)
    constraints = Constraints.plain(m, k)
    found = max(float(problem.rewards_of(search(problem, constraints, seed=number)).sum()) for number in range(1, 5))
    for known in (found, 0.9 * found):
        for work in (5e6, 2e5, 100.0):
            assert upper_bound(problem, constraints, known, work) >= found


def test_a_small_list_is_proven() -> None:
    rng = np.random.default_rng(0)
    problem = Competition(rng.normal(size=40), VectorLikeness(rng.normal(size=(40, 8))), 1.0)
    constraints = Constraints.plain(40, 6)
    found = float(problem.rewards_of(search(problem, constraints)).sum())
    assert upper_bound(problem, constraints, found) == pytest.approx(found, rel=1e-8)


def test_where_nothing_competes_the_highest_rewards_are_best() -> None:
    argument = np.random.default_rng(1).normal(size=30)
    problem, constraints = Competition(argument, NoLikeness(30), 1.0), Constraints.plain(30, 7)
    chosen = search(problem, constraints)
    assert sorted(chosen.tolist()) == sorted(np.argsort(-argument)[:7].tolist())
    assert upper_bound(problem, constraints, 0.0) == pytest.approx(float(problem.rewards_of(chosen).sum()))


@pytest.mark.parametrize("budget_ms", [0.01, 5.0])
def test_a_budget_gives_a_full_climb_at_least(budget_ms: float) -> None:
    rng = np.random.default_rng(2)
    problem = Competition(rng.normal(size=100), VectorLikeness(rng.normal(size=(100, 4))), 2.0)
    constraints = Constraints.plain(100, 8)
    found = problem.rewards_of(search(problem, constraints, budget_ms)).sum()
    top = problem.rewards_of(np.argsort(-problem.argument)[:8]).sum()
    assert found >= top
    assert search(problem, constraints).tolist() == search(problem, constraints).tolist()
