"""Phase Two as the paper's experiments run it: tuples, auxiliary problems, candidate solutions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.rewards import evaluate
from setwise.ranking.paper import ALPHAS, AuxiliaryProblems, candidate_solutions, paper, valid_tuples
from setwise.ranking.phase_two.algorithm import phase_two
from worlds import REWARDS, random_instance


@pytest.mark.parametrize(("m", "c"), [(5, 1), (6, 2), (7, 3), (4, 4), (9, 2)])
def test_every_tuple_comes_once_in_the_order_of_its_sum(m: int, c: int) -> None:
    tuples = list(valid_tuples(m, c))
    assert sorted(tuples) == list(combinations(range(m), c))
    assert [sum(one) for one in tuples] == sorted(sum(one) for one in tuples)


def auxiliary_objective(instance: sw.Instance, rows: list[int], t: np.ndarray) -> float:
    """The objective of P(X, t), item by item."""
    total = 0.0
    for i in rows:
        argument = instance.base[i]
        for h in range(instance.heads):
            scores, sink_score = instance.score[h], 0.0
            least = scores.min()
            numerator = sum(instance.weight[h, i, j] * (scores[j]) for j in rows)
            weight = sum(instance.weight[h, i, j] for j in rows)
            if instance.sink_logit is not None:
                sink_score = instance.sink_score[h]
                least = min(least, sink_score)
                numerator += instance.sink_weight[h, i] * sink_score
                weight += instance.sink_weight[h, i]
            argument += least + (numerator - least * weight) / t[h, i]
        total += float(evaluate(instance.rewards, instance.reward_class[[i]], np.array([argument]))[0])
    return total


@pytest.mark.parametrize("seed", range(6))
def test_greedy_takes_the_best_feasible_candidate_of_the_auxiliary_problem(seed: int) -> None:
    """Against the definition, step by step."""
    instance = random_instance(seed, n=9, heads=1 + seed % 3, base=seed % 2 == 0, sink=seed % 3 == 0, rewards=REWARDS)
    constraints = Constraints.of(instance, 4)
    problems = AuxiliaryProblems(instance, constraints)
    members, free = np.array([0, 1]), np.arange(9) >= 2
    for alpha in ALPHAS:
        t = problems.denominators(members, alpha)
        chosen = problems.greedy(members, free, t).tolist()
        assert chosen[:2] == [0, 1]
        for size in range(2, len(chosen) + 1):
            inside = chosen[:size]
            weight = instance.sink_weight + instance.weight[:, :, inside].sum(axis=2)
            assert (weight <= t * (1 + 1e-8)).all()
        for size in range(2, len(chosen)):
            values = {
                j: auxiliary_objective(instance, [*chosen[:size], j], t)
                for j in range(2, 9)
                if j not in chosen[:size]
                and (
                    instance.sink_weight + instance.weight[:, :, [*chosen[:size], j]].sum(axis=2) <= t * (1 + 1e-9)
                ).all()
            }
            assert values[chosen[size]] == pytest.approx(max(values.values()), rel=1e-9)
            assert values[chosen[size]] > auxiliary_objective(instance, chosen[:size], t)


def test_denominators_lie_between_those_of_the_tuple_and_the_largest() -> None:
    """t = D^(1 − α) T^α, T of the k largest weights of a row and D of the tuple, the sink in both."""
    instance = random_instance(2, n=7, heads=2, sink=True, sharpness=2.0)
    problems = AuxiliaryProblems(instance, Constraints.of(instance, 3))
    for h, i in np.ndindex(2, 7):
        weight, sink = sorted(instance.weight[h, i]), instance.sink_weight[h, i]
        own, largest = sink + instance.weight[h, i, 1] + instance.weight[h, i, 4], sink + sum(weight[-3:])
        for alpha in ALPHAS:
            t = problems.denominators(np.array([1, 4]), alpha)[h, i]
            assert t == pytest.approx(own ** (1 - alpha) * largest**alpha, rel=1e-12)


@pytest.mark.parametrize("sink", [None, -9.0, 9.0])
def test_scores_are_shifted_to_at_least_zero(sink: float | None) -> None:
    """By the smallest score of a candidate, or of the sink if there is one."""
    attended = {} if sink is None else {"sink_logit": np.zeros((1, 3)), "sink_score": np.full(1, sink)}
    instance = sw.Instance(np.zeros((3, 3)), [4.0, 2.0, 3.0], sw.Linear(), **attended)
    problems = AuxiliaryProblems(instance, Constraints.of(instance, 2))
    least = min(2.0, 2.0 if sink is None else sink)
    assert problems.least.tolist() == [least]
    assert problems.score.tolist() == [[4.0 - least, 2.0 - least, 3.0 - least]]
    assert (problems.sink >= 0).all()


def test_the_first_problem_restricts_nothing() -> None:
    """α = 1 and as many places as candidates: every candidate that adds to the objective is chosen."""
    for seed in range(5):
        instance = random_instance(seed, n=5, heads=2, sink=seed % 2 == 0, sharpness=2.0)
        problems = AuxiliaryProblems(instance, Constraints.of(instance, 9))
        t = problems.denominators(np.array([0]), 1.0)
        assert sorted(problems.greedy(np.array([0]), np.arange(5) > 0, t).tolist()) == [0, 1, 2, 3, 4]


def test_an_item_that_attends_to_nothing() -> None:
    """Its average is 0, in the auxiliary problems too."""
    logit = np.zeros((4, 4))
    logit[0] = -np.inf
    instance = sw.Instance(logit, [9.0, -1.0, -2.0, -3.0], sw.Linear(1.0, 5.0))
    best = sw.rank(instance, 3, "exhaustive")
    made = paper(instance, Constraints.of(instance, 3))
    assert np.isfinite(made.solutions).all()
    assert made.value == pytest.approx(best.value)


def test_evaluations_are_those_of_the_greedy_steps_and_the_solutions() -> None:
    """k = 3 of four: three of the six pairs have a candidate after them, and a step values all four."""
    instance = random_instance(1, n=4)
    made = paper(instance, Constraints.of(instance, 3), problems=1)
    assert made.evaluations == 3 * 4 + 6 + 1
    pairs = paper(instance, Constraints.of(instance, 2), problems=1)
    assert pairs.evaluations == len(pairs.solutions) == 6 + 1
    pinned = paper(instance, Constraints.of(instance, 2, include=[1, 2]))
    assert sorted(pinned.indices.tolist()) == [1, 2]


def test_without_restriction_and_budget_every_pair_is_a_start() -> None:
    instance = random_instance(1, n=7)
    constraints = Constraints.of(instance, 3)
    sets = list(candidate_solutions(AuxiliaryProblems(instance, constraints), 2, 1))
    order = np.argsort(-instance.alone, kind="stable")
    place = {int(item): number for number, item in enumerate(order)}
    tops = {tuple(sorted(sorted(place[int(i)] for i in chosen)[:2])) for chosen in sets if len(chosen) >= 2}
    assert tops == set(combinations(range(7), 2))


def test_the_trace_is_the_best_so_far() -> None:
    instance = random_instance(3, n=20, rewards=REWARDS)
    ranking = paper(instance, Constraints.of(instance, 4), solutions=30)
    np.testing.assert_array_equal(ranking.trace, np.maximum.accumulate(ranking.solutions))
    assert len(ranking.solutions) == 30
    assert ranking.value == ranking.trace[-1] == instance.value(ranking.indices)


def test_defaults() -> None:
    """A hundred solutions, tuples of two items, four problems for each."""
    instance = random_instance(3, n=20, rewards=REWARDS)
    constraints = Constraints.of(instance, 4)
    default = paper(instance, constraints)
    assert len(default.solutions) == 100
    told = paper(instance, constraints, solutions=100, top=2, problems=4)
    np.testing.assert_array_equal(default.solutions, told.solutions)
    for other in ({"top": 1}, {"top": 3}, {"problems": 3}):
        different = paper(instance, constraints, **other)
        assert not np.array_equal(default.solutions, different.solutions)


def test_the_best_single_item_is_the_last_solution() -> None:
    """Rewards so negative that one item is best: no tuple of two is as good. With one solution there is no room."""
    instance = sw.Instance(np.zeros((5, 5)), [-3.0, -1.0, -2.0, -5.0, -4.0], sw.Linear())
    constraints = Constraints.of(instance, 3)
    made = paper(instance, constraints, solutions=6)
    assert made.indices.tolist() == [1]
    assert (len(made.solutions), made.solutions[-1]) == (6, -1.0)
    assert len(paper(instance, constraints, solutions=1).indices) == 2
    pinned = paper(instance, Constraints.of(instance, 3, include=[3, 4]), solutions=6)
    assert sorted(pinned.indices.tolist()) == [3, 4]


def test_literal_is_phase_two() -> None:
    instance = random_instance(2, n=8)
    constraints = Constraints.of(instance, 3)
    literal = paper(instance, constraints, literal=True, epsilon=0.5, rank=2)
    reference = phase_two(instance, constraints, epsilon=0.5, rank=2)
    np.testing.assert_array_equal(literal.indices, reference.indices)
    assert literal.value == reference.value
    assert literal.evaluations == reference.evaluations


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.5}, "epsilon must be absent with literal=False"),
        ({"rank": 1}, "rank must be absent with literal=False"),
        ({"literal": True, "solutions": 10}, "solutions must be absent with literal=True"),
        ({"literal": True, "top": 2}, "top must be absent with literal=True"),
        ({"literal": True, "problems": 3}, "problems must be absent with literal=True"),
        ({"literal": 1}, "literal must be True or False"),
        ({"top": 0}, "top must be"),
        ({"problems": 5}, "problems must be at most 4"),
    ],
)
def test_options_that_do_not_go_together(options, message: str) -> None:
    instance = random_instance(0)
    with pytest.raises(InvalidInput, match=message):
        paper(instance, Constraints.of(instance, 3), **options)


def test_lambda_can_be_set_by_hand() -> None:
    """With λ = λ' = 1 the linear programs of the literal algorithm run, and what they find is no better than the optimum."""
    from worlds import random_instance

    instance = random_instance(3, n=6, rewards=[sw.Logistic(1.0, 0.5)])
    best = sw.rank(instance, 3, "exhaustive").value
    by_hand = sw.rank(instance, 3, "paper", literal=True, epsilon=0.5, rank=1, lam=1, lam_prime=1)
    by_formula = sw.rank(instance, 3, "paper", literal=True, epsilon=0.5, rank=1)
    assert 0 < by_hand.value <= best * (1 + 1e-12)
    assert by_formula.value <= best * (1 + 1e-12)
    with pytest.raises(InvalidInput, match="lam must be absent with literal=False"):
        sw.rank(instance, 3, "paper", lam=1)
