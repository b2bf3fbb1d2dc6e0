"""The literal Phase Two: its value meets the repaired bound, with the constants of the instance itself."""

from __future__ import annotations

import numpy as np
import pytest
from proofs.algorithm import PhaseTwo, phase_two
from proofs.nonnegative_rank import SURROGATES, row_stochastic

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from worlds import random_instance

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


def test_formulas_of_lambda() -> None:
    instance = low_rank(1, 6, 2)
    made, _ = solve(instance, 3, rank=2, epsilon=0.4)
    sigma = float(np.ptp(instance.score))
    assert made.score_max == pytest.approx(sigma)
    assert made.reward_max == pytest.approx(float(sw.Logistic(1.5, -0.5)(instance.score.max())))
    assert made.lam == np.ceil(6 * sigma / 0.4)
    assert made.lam_prime == np.ceil(6 * made.reward_max / 0.4)
    assert made.rank == 2
    assert made.evaluations == 6 + 15 + 20, "complete: every set once"
    assert made.programs == 0


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("rank", "m", "k", "lam", "lam_prime", "epsilon"),
    [(1, 8, 4, 1, 1, 0.2), (1, 8, 4, 2, 1, 0.2), (1, 7, 4, 1, 2, 0.15), (2, 6, 3, 1, 1, 0.4), (2, 6, 4, 1, 1, 0.5)],
)
def test_linear_programs_by_hand_set_depths(count, rank, m, k, lam, lam_prime, epsilon) -> None:
    """The part of the algorithm that the formulas never reach at this size: programs, vertices, rounding."""
    ratios, programs = [], []
    for seed in range(1, count(40) + 1):
        instance = low_rank(2 * seed + 1, m, rank)
        made, best = solve(instance, k, rank=rank, lam=lam, lam_prime=lam_prime, epsilon=epsilon)
        assert made.most_fractional <= 2 * rank + 2
        assert made.guarantee(best) - 1e-9 <= made.value <= best + 1e-9
        if lam > 1:
            smaller = sw.rank(instance, lam - 1, "exhaustive").value
            assert made.value >= smaller - 1e-9, "solutions of fewer than λ items are all met"
        ratios.append(made.value / best)
        programs.append(made.programs)
    assert np.mean(programs) > 10, "the programs really ran"
    assert np.mean(ratios) > 0.8


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


def test_what_is_printed_leaves_out_the_reward_functions() -> None:
    """There may be as many of them as items."""
    assert "rank=1" in repr(by_hand(sw.ReLU(0.5)))
    assert "rewards=" not in repr(by_hand(sw.ReLU(0.5)))


def test_the_worst_reward_function_counts() -> None:
    """h(e) = e/2 and e/5, g(e) = 1 − exp(−e/2) and 1 − exp(−e/5): the larger of each, wherever it stands."""
    rewards = (sw.ReLU(0.2), sw.ReLU(0.5), sw.Exp(0.2), sw.Exp(0.5), sw.Constant(0.1))
    for order in (rewards, rewards[::-1]):
        made = by_hand(rewards[0], rewards=order, lam=4)
        assert made.guarantee(100.0) == pytest.approx((100 * np.exp(-0.5) - 2) * np.exp(-0.5) - 2)


def test_the_guarantee_by_hand_for_a_relative_loss() -> None:
    """g(e) = 1 − exp(−e/2), h = 0: w = 1, c = 2.25 and c' = 1."""
    made = by_hand(sw.Exp(0.5))
    expected = (100 * np.exp(-0.5 - 1.125) - 4) * 0.75 * np.exp(-0.5 - 0.5)
    assert made.guarantee(100.0) == pytest.approx(expected)


@pytest.mark.nightly
def test_a_finer_grid_finds_better_sets() -> None:
    coarse, fine = [], []
    for seed in range(1, 7):
        instance = low_rank(2 * seed + 1, 6)
        best = sw.rank(instance, 3, "exhaustive").value
        for epsilon, ratios in ((1.0, coarse), (0.15, fine)):
            made = phase_two(instance, Constraints.of(instance, 3), lam=1, lam_prime=1, epsilon=epsilon)
            ratios.append(made.value / best)
    assert np.mean(fine) > np.mean(coarse) + 0.05


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


def test_exclusions() -> None:
    instance = low_rank(4, 7)
    made = phase_two(instance, Constraints.of(instance, 3, exclude=[0, 5]))
    assert not {0, 5} & set(made.indices.tolist())
    assert made.value == pytest.approx(sw.rank(instance, 3, "exhaustive", exclude=[0, 5]).value)


@pytest.mark.parametrize("depth", [None, 1])
@pytest.mark.parametrize(
    "instance",
    [
        sw.Instance(np.zeros((1, 1)), [-3.0]),
        sw.Instance(np.zeros((3, 3)), [1.0, 1.0, 1.0]),
        sw.Instance(np.zeros((3, 3)), [1.0, 2.0, 3.0], sw.Constant(0.0)),
        sw.Instance(30.0 * np.eye(4), [0.0, 0.0, 1.0, 2.0], sw.ReLU()),
    ],
    ids=["one candidate", "equal items", "no reward", "weights of all sizes"],
)
def test_corner_cases(instance: sw.Instance, depth) -> None:
    for k in (1, 2, 5):
        made, best = solve(instance, k, lam=depth, lam_prime=depth, rank=min(2, instance.m))
        assert 1 <= len(made.indices) <= min(k, instance.m)
        assert made.guarantee(best) - 1e-9 <= made.value <= best + 1e-9


def test_a_smallest_weight_of_nothing_costs_nothing() -> None:
    """W'_min is below 10^−300: the printed constant (1 + γ) ε / W'_min would promise nothing; the grids do not use it."""
    equal_rows = np.tile([0.0, -699.0, -350.0, 0.0], (4, 1))
    made, best = solve(
        sw.Instance(equal_rows, [0.0, 0.1, 0.2, 0.3], sw.ReLU(1.0, 9.0)), 3, lam=1, lam_prime=2, epsilon=1.0
    )
    assert made.gamma < 1e-9
    assert row_stochastic(equal_rows).min() < 1e-300
    assert 0.3 * best < made.guarantee(best) <= made.value


def test_a_loss_that_cannot_be_measured_promises_nothing() -> None:
    assert by_hand(sw.ReLU(0.5), score_max=np.inf).guarantee(100.0) == 0.0
    assert by_hand(sw.ReLU(0.5), score_max=1e9).guarantee(100.0) == 0.0


def test_a_surrogate_that_is_passed() -> None:
    """W' of all candidates, restricted to the open ones: with W itself, of full rank, the answer is the optimum."""
    instance = random_instance(3, n=7, rewards=(REWARDS[0],))
    whole = SURROGATES["clusters"](instance.logit[0], 7)
    made = phase_two(instance, Constraints.of(instance, 3, exclude=[2]), surrogate=whole)
    assert made.rank == 7
    assert made.gamma < 1e-9
    assert made.value == pytest.approx(sw.rank(instance, 3, "exhaustive", exclude=[2]).value)
    with pytest.raises(InvalidInput, match="surrogate must be of 7 rows, one a candidate, got 6"):
        phase_two(instance, Constraints.of(instance, 3), surrogate=SURROGATES["clusters"](instance.logit[0, :6, :6], 2))


REFUSED = [
    ({}, {"epsilon": 0.0}, "epsilon must be at least 1e-09, got 0.0"),
    ({}, {"rank": 0}, "rank must be a whole number of at least 1"),
    ({}, {"lam": 0}, "lam must be a whole number of at least 1"),
    ({}, {"surrogate": "svd"}, "surrogate must be one of clusters, joint, factorised, got 'svd'"),
    ({"heads": 2}, {}, "instance must be of one head and without a sink"),
    ({"sink": True}, {}, "instance must be of one head and without a sink"),
    ({"sharpness": 1e5}, {}, "logit must be finite, within 700 in a row"),
    ({"rewards": (sw.Linear(),)}, {}, "rewards must be finite and at least 0"),
    ({"rewards": (sw.Exp(0.5, 1000.0),)}, {}, "rewards must be finite and at least 0"),
]  # fmt: skip


def test_every_reward_function_is_checked() -> None:
    """The least and the largest over all items: an item of another reward function hides neither."""
    logit, score = np.zeros((2, 2)), [0.0, 1.0]
    for other in (sw.Linear(1.0, -9.0), sw.Exp(0.5, 1000.0)):
        for classes in ([0, 1], [1, 0]):
            instance = sw.Instance(logit, score, ([sw.Constant(0.3), other], classes))
            with pytest.raises(InvalidInput, match="rewards must be finite and at least 0"):
                phase_two(instance, Constraints.of(instance, 2))
    mixed = sw.Instance(logit, score, ([sw.Constant(0.3), sw.ReLU(2.0)], [0, 1]))
    made = phase_two(mixed, Constraints.of(mixed, 1), epsilon=0.4)
    assert (made.reward_max, made.lam, made.lam_prime) == (2.0, 10, 20)
