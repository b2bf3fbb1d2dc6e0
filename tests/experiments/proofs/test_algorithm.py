"""The literal Phase Two: its value meets the repaired bound, with the constants of the instance itself."""

from __future__ import annotations

import numpy as np
import pytest
from proofs.algorithm import PhaseTwo, phase_two
from proofs.nonnegative_rank import row_stochastic

import setwise as sw
from setwise.model.constraints import Constraints
from worlds import random_instance

pytestmark = pytest.mark.nightly

REWARDS = (sw.Logistic(1.5, -0.5), sw.ReLU(0.5, 0.4), sw.Softplus(1.0, 0.2), sw.Exp(0.4, -0.3), sw.Constant(0.3))


def low_rank(seed: int, m: int, rank: int = 1, noise: float = 0.0, base: bool = False) -> sw.Instance:
    """Logits whose rows are copies of ``rank`` rows up to a constant, and noise; one or several reward functions."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(size=(rank, m))[np.arange(m) % rank] + rng.normal(size=(m, 1)) + noise * rng.normal(size=(m, m))
    several = (list(REWARDS), rng.integers(len(REWARDS), size=m))
    reward = REWARDS[0] if seed % 2 else several
    return sw.Instance(logit, rng.normal(size=m) + 1.0, reward, base=rng.uniform(0, 1, m) if base else None)


def solve(instance: sw.Instance, k: int, **options) -> tuple[PhaseTwo, float]:
    """The answer, and the optimum by exhaustive search."""
    return phase_two(instance, Constraints.of(instance, k), **options), sw.rank(instance, k, "exhaustive").value


def test_the_bound_holds_with_the_instances_own_constants(count) -> None:
    """λ and λ' by the formulas. Rank one is exact; otherwise γ is what is lost, and the bound is not always empty."""
    informative = 0
    for seed in range(count(200)):
        m, k, rank = 4 + seed % 5, 1 + seed % 4, 1 + seed % 2
        instance = low_rank(seed, m, rank, noise=0.02 if seed % 3 else 0.0, base=seed % 5 == 0)
        made, best = solve(instance, k, rank=rank, epsilon=(0.2, 0.5, 2.0)[seed % 3])
        assert made.value == instance.value(made.indices)
        assert made.guarantee(best) - 1e-9 <= made.value <= best + 1e-9
        informative += made.guarantee(best) > 0.8 * best
        if made.complete and seed % 3 == 0:
            assert made.gamma < 1e-9
            assert made.value == pytest.approx(best)
    assert informative > count(200) / 3


def test_a_bound_that_says_something_with_programs_solved(count) -> None:
    """λ < k: grids and rounding together promise more than random sets of k items have, on every instance."""
    for seed in range(count(6)):
        rng = np.random.default_rng(seed)
        base = np.where(np.arange(12) < 6, 1.0, 0.05) + 0.05 * rng.random(12)
        instance = sw.Instance(
            np.tile(0.3 * rng.normal(size=12), (12, 1)), 0.04 * rng.random(12), sw.ReLU(5.0), base=base
        )
        made, best = solve(instance, 6, lam=1, lam_prime=4, epsilon=0.5)
        at_random = [instance.value(rng.choice(12, 6, replace=False)) for _ in range(200)]
        assert made.programs > 50
        assert made.most_lost > 0
        assert np.mean(at_random) < made.guarantee(best) <= made.value <= best + 1e-9


def by_hand(reward: sw.Reward, **changes) -> PhaseTwo:
    parts = {
        "indices": np.zeros(0, np.intp), "value": 0.0, "evaluations": 1, "programs": 1, "most_fractional": 2, "most_lost": 1.0,
        "epsilon": 1.0, "k": 4, "rank": 1, "gamma": 0.6, "lam": 3, "lam_prime": 4, "score_max": 3.0, "reward_max": 50.0,
        "rewards": (reward,),
    }  # fmt: skip
    return PhaseTwo(**parts | changes)


def test_the_guarantee_by_hand() -> None:
    """h(e) = e/2: 100 loses 2 to W', 4.5 to t and θ, 4 to ζ, a quarter and 2 to rounding, 2 to W' again."""
    made = by_hand(sw.ReLU(0.5))
    assert made.guarantee(100.0) == pytest.approx(((100 - 2 - 4.5 - 4) * 0.75 - 2) - 2)
    assert by_hand(sw.ReLU(0.5), gamma=0.0).guarantee(100.0) == pytest.approx((100 - 4.5 - 4) * 0.75 - 2)
    assert by_hand(sw.ReLU(0.5), most_lost=0.0).guarantee(100.0) == pytest.approx(100 - 2 - 4.5 - 4 - 2)
    assert by_hand(sw.ReLU(0.5), lam=4).guarantee(100.0) == pytest.approx(100 - 2 - 2), "complete: W' alone"
    assert by_hand(sw.ReLU(0.5), lam_prime=1).guarantee(100.0) == 0.0, "all rewards may be lost"
    assert by_hand(sw.ReLU(0.5), most_lost=9.0, lam_prime=18).guarantee(100.0) == pytest.approx(89.5 / 2 - 4 * 1.5 - 2)


def test_theorem_1_forgets_gamma() -> None:
    """It promises OPT − (ε + h(ε)) k for Lipschitz rewards, however large γ is; an algorithm that sees W' alone cannot."""
    broken = 0
    for seed in range(12):
        instance = random_instance(seed, n=6, sharpness=2.0)
        made, best = solve(instance, 3, rank=1, epsilon=1e-3)
        assert made.complete
        assert made.value >= made.guarantee(best)
        broken += made.value < best - 3 * (1e-3 + 1.5 / 4 * 1e-3)
    assert broken > 0


def test_scores_shift_freely() -> None:
    """Erratum 9: Vu ≥ 0 by a shift that rewards undo."""
    rng = np.random.default_rng(3)
    logit, score = rng.normal(size=(6, 1)) + rng.normal(size=6), rng.normal(size=6)
    options = {"lam": 1, "lam_prime": 1, "epsilon": 0.2}
    made = [
        solve(sw.Instance(logit, score + c, sw.Logistic(1.0, 0.5).shifted(-c)), 3, **options)[0]
        for c in (0.0, 7.0, -7.0)
    ]
    for other in made[1:]:
        np.testing.assert_array_equal(other.indices, made[0].indices)
        assert other.programs == pytest.approx(made[0].programs, rel=0.1), "cells at the edge of a grid may round"
        assert other.value == pytest.approx(made[0].value)


def test_a_smallest_weight_of_nothing_costs_nothing() -> None:
    """W'_min is below 10^−300: the printed constant (1 + γ) ε / W'_min would promise nothing; the grids do not use it."""
    equal_rows = np.tile([0.0, -699.0, -350.0, 0.0], (4, 1))
    made, best = solve(
        sw.Instance(equal_rows, [0.0, 0.1, 0.2, 0.3], sw.ReLU(1.0, 9.0)), 3, lam=1, lam_prime=2, epsilon=1.0
    )
    assert made.gamma < 1e-9
    assert row_stochastic(equal_rows).min() < 1e-300
    assert 0.3 * best < made.guarantee(best) <= made.value
