"""Phase Two as the paper's experiments run it: tuples, auxiliary problems, candidate solutions."""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.model.rewards import evaluate
from setwise.ranking.paper import (
    GUESSES,
    AuxiliaryProblems,
    candidate_solutions,
    paper,
    valid_tuples,
)
from worlds import REWARDS, random_instance


@pytest.mark.parametrize(("m", "c"), [(5, 1), (6, 2), (7, 3), (4, 4), (9, 2)])
def test_every_tuple_comes_once_in_the_order_of_its_sum(m: int, c: int) -> None:
    tuples = list(valid_tuples(m, c))
    assert sorted(tuples) == list(combinations(range(m), c))
    assert [sum(one) for one in tuples] == sorted(sum(one) for one in tuples)


def auxiliary_objective(instance: sw.Instance, rows: list[int], t: np.ndarray, level: np.ndarray) -> float:
    """The objective of P(X, t), item by item."""
    total = 0.0
    for i in rows:
        argument = instance.base[i]
        for h in range(instance.heads):
            numerator = sum(instance.weight[h, i, j] * (instance.score[h, j] - level[h]) for j in rows)
            if instance.sink_logit is not None:
                numerator += instance.sink_weight[h, i] * (instance.sink_score[h] - level[h])
            argument += level[h] + numerator / t[h, i]
        total += float(evaluate(instance.rewards, instance.reward_class[[i]], np.array([argument]))[0])
    return total


def denominator(instance: sw.Instance, rows: list[int], h: int, i: int) -> float:
    return float(instance.sink_weight[h, i] + sum(instance.weight[h, i, j] for j in {*rows, i}))


def is_feasible(instance: sw.Instance, rows: list[int], t: np.ndarray) -> bool:
    heads = range(instance.heads)
    return all(denominator(instance, rows, h, i) <= t[h, i] * (1 + 1e-9) for h in heads for i in rows)


def mixed_instance(seed: int, n: int = 9) -> sw.Instance:
    """One to three heads, with and without base and sink, all families of rewards."""
    return random_instance(seed, n=n, heads=1 + seed % 3, base=seed % 2 == 0, sink=seed % 3 == 0, rewards=REWARDS)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("factor", "quantile"), [(1.1, 0.0), (1.3, 0.5), (2.0, 0.9), (9.0, 0.97)])
def test_greedy_takes_the_best_feasible_candidate_of_the_auxiliary_problem(
    seed: int, factor: float, quantile: float
) -> None:
    """Against the definition, step by step."""
    instance = mixed_instance(seed)
    problems = AuxiliaryProblems(instance, Constraints.of(instance, 4))
    members, free = np.array([0, 1]), np.arange(9) >= 2
    t, level = factor * problems.denominators(np.array([0, 1, 5])), problems.level(quantile)
    chosen = problems.greedy(members, free, t, level).tolist()
    assert chosen[:2] == [0, 1]
    for size in range(2, 5):
        inside = chosen[:size]
        possible = [j for j in range(2, 9) if j not in inside and is_feasible(instance, [*inside, j], t)]
        values = {j: auxiliary_objective(instance, [*inside, j], t, level) for j in possible}
        if size < len(chosen):
            assert values[chosen[size]] == pytest.approx(max(values.values()), rel=1e-9)
        if 3 <= size < len(chosen):  # the first is added whatever it brings
            assert values[chosen[size]] > auxiliary_objective(instance, inside, t, level)
        if size == len(chosen) < 4 and values:  # it stopped although candidates were left
            assert size > 2
            assert max(values.values()) <= auxiliary_objective(instance, inside, t, level) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_with_the_denominators_of_a_set_its_objective_is_its_value(seed: int) -> None:
    """The lemma's t = Wx: whatever μ is, P(X, t) values x as F does."""
    instance = mixed_instance(seed)
    problems, chosen = AuxiliaryProblems(instance, Constraints.of(instance, 4)), [1, 4, 6, 7]
    t = problems.denominators(np.array(chosen))
    for quantile in (0.0, 0.5, 0.97):
        value = auxiliary_objective(instance, chosen, t, problems.level(quantile))
        assert value == pytest.approx(instance.value(chosen), rel=1e-9)
    after = problems._objectives_after(np.array(chosen[:3]), t, problems.level(0.5))
    assert after[chosen[3]] == pytest.approx(instance.value(chosen), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_denominators_of_the_optimum_make_all_of_it_feasible(seed: int) -> None:
    """t* = Wx* of the lemma, against brute force: greedy may find less, and never more, than the optimum."""
    instance = mixed_instance(seed, n=8)
    constraints = Constraints.of(instance, 3)
    problems, best = AuxiliaryProblems(instance, constraints), sw.rank(instance, 3, "exhaustive")
    t = problems.denominators(best.indices)
    for size in range(1, len(best.indices)):
        assert problems._feasible(best.indices[:size], t)[best.indices[size:]].all()
    first = best.indices[:1]
    found = problems.greedy(first, np.arange(8) != first[0], t, problems.level(0.0))
    assert instance.value(found) <= best.value * (1 + 1e-12)


def test_denominators_by_hand() -> None:
    """D of every item beside a set, its own weight included once; T of the k largest with the set."""
    instance = random_instance(2, n=7, heads=2, sink=True, sharpness=2.0)
    problems, members = AuxiliaryProblems(instance, Constraints.of(instance, 4)), np.array([1, 4])
    beside, largest = problems.denominators(members), problems.largest(members)
    for h, i in np.ndindex(2, 7):
        assert beside[h, i] == pytest.approx(denominator(instance, [1, 4], h, i), rel=1e-12)
    for h, (place, i) in [(h, pair) for h in range(2) for pair in enumerate([1, 4])]:
        others = sorted(np.delete(instance.weight[h, i], [1, 4]))[-2:]
        assert largest[h, place] == pytest.approx(beside[h, i] + sum(others), rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_first_problem_is_greedy_for_the_objective(seed: int) -> None:
    """From X, with the candidates after it, the best set on the way: against values of the reference objective."""
    instance = mixed_instance(seed)
    constraints = Constraints.of(instance, 4)
    free = np.arange(9) > 3
    found = AuxiliaryProblems(instance, constraints).exact(np.array([2]), free)
    chosen, path = [2], []
    while len(chosen) < 4:
        chosen.append(max((j for j in range(4, 9) if j not in chosen), key=lambda j: instance.value([*chosen, j])))
        path.append(instance.value(chosen))
    assert found[0] == 2
    assert set(found[1:]) <= set(range(4, 9))
    assert instance.value(found) == pytest.approx(max(path), rel=1e-9)


def test_the_eight_problems_of_a_tuple() -> None:
    """Each with the denominators and the level that the docstring says, the earlier solutions among them."""
    for seed in range(4):
        instance = random_instance(seed, n=30, heads=1 + seed % 2, sharpness=2.0)
        problems = AuxiliaryProblems(instance, Constraints.of(instance, 5))
        order = np.argsort(-instance.alone, kind="stable")
        top, free = order[:1], np.arange(30) != order[0]
        expected = [problems.exact(top, free)]
        for factor, quantile, solution in (
            (2.0, 0.9, None), (1.1, 0.5, None), (2.0, 0.9, 2), (1.1, 0.9, None), (1.1, 0.5, 3), (1.1, 0.9, 5),
            (1.1, 0.0, None),
        ):  # fmt: skip
            t = factor * problems.denominators(top if solution is None else expected[solution - 1])
            if solution is None:
                t[:, top] = problems.largest(top)
            expected.append(problems.greedy(top, free, t, problems.level(quantile)))
            assert is_feasible(instance, expected[-1].tolist(), t)
        for per_tuple in (8, None):
            made = list(islice(candidate_solutions(problems, 1, per_tuple), 8))
            for found, wanted in zip(made, expected, strict=True):
                np.testing.assert_array_equal(found, wanted)
                assert found[0] == top[0]
        assert len(GUESSES) == 7


def test_the_second_round() -> None:
    """After three tuples t comes from the best solution, again from each better one, and then from pairs."""
    continued = 0
    for seed in range(12):
        instance = random_instance(seed, n=40, heads=1 + seed % 2, sharpness=2.0)
        constraints = Constraints.of(instance, 5)
        problems = AuxiliaryProblems(instance, constraints)
        order = np.argsort(-instance.alone, kind="stable")
        first = list(islice(candidate_solutions(problems, 1, 8), 24))
        values = [instance.value(chosen) for chosen in first]
        best, most, expected = first[int(np.argmax(values))], max(values), []
        better = True
        while better:
            better, t = False, 1.1 * problems.denominators(best)
            top = best[:1]
            free = np.isin(np.arange(40), order[list(order).index(top[0]) + 1 :])
            for quantile in (0.9, 0.5, 0.97, 0.0):
                expected.append(problems.greedy(top, free, t, problems.level(quantile)))
                if instance.value(expected[-1]) > most:
                    best, most, better = expected[-1], instance.value(expected[-1]), True
                    continued += 1
                    break
        for j in sorted(order[1:], key=lambda j: -instance.value([order[0], j])):
            t = 2.0 * problems.denominators(np.array([order[0], j]))
            expected.append(problems.greedy(order[:1], np.arange(40) != order[0], t, problems.level(0.9)))
        made = list(islice(candidate_solutions(problems, 1), 24 + len(expected)))
        for found, wanted in zip(made, [*first, *expected], strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert next(islice(candidate_solutions(problems, 1), 24 + len(expected), None))[0] == order[3]
    assert continued


def test_pinned_items_are_the_tuple() -> None:
    """Nothing is added to them: t = 2 D(X ∪ {j}) for every other j, those of large F(X ∪ {j}) first, two μ in turn."""
    instance = random_instance(4, n=12, heads=2, sharpness=2.0)
    constraints = Constraints.of(instance, 4, include=[7, 2])
    problems = AuxiliaryProblems(instance, constraints)
    made = list(candidate_solutions(problems, 0))
    assert len(made) == 11
    assert all({2, 7} <= set(chosen) for chosen in made)
    free = ~np.isin(np.arange(12), [2, 7])
    order = sorted(np.flatnonzero(free), key=lambda j: -instance.value([2, 7, j]))
    for number, (chosen, j) in enumerate(zip(made[1:], order, strict=True)):
        t = 2.0 * problems.denominators(np.append(constraints.pinned, j))
        expected = problems.greedy(constraints.pinned, free, t, problems.level((0.97, 0.5)[number % 2]))
        np.testing.assert_array_equal(chosen, expected)
    by_rank = paper(instance, constraints, solutions=9)
    np.testing.assert_allclose(by_rank.solutions, [instance.value(chosen) for chosen in made[:9]])
    three = paper(instance, constraints, top=3, solutions=40)  # one more item is added to the pair
    assert {2, 7} <= set(three.indices)
    assert not np.array_equal(three.solutions[:8], by_rank.solutions[:8])
    few = paper(instance, constraints, problems=3)
    assert len(few.solutions) == 3


@pytest.mark.parametrize("seed", range(8))
def test_never_better_than_the_optimum_and_often_as_good(seed: int) -> None:
    """Against brute force on small instances; the value is the reference objective's."""
    instance = mixed_instance(seed, n=10)
    best, made = sw.rank(instance, 4, "exhaustive"), sw.rank(instance, 4, "paper")
    assert made.value == pytest.approx(instance.value(made.indices), rel=1e-12)
    assert made.value <= best.value * (1 + 1e-12) if best.value > 0 else made.value <= best.value + 1e-12
    assert made.value >= sw.rank(instance, 1, "exhaustive").value
    shares = [
        sw.rank(one, 4, "paper").value / sw.rank(one, 4, "exhaustive").value
        for one in (random_instance(10 * seed + number, n=10, sharpness=2.0) for number in range(5))
    ]
    assert np.mean(shares) > 0.97  # a guard: 0.98 to 1.00


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
    """Greedy for F from each of four items: it values the candidates after it, one fewer in each step."""
    instance = random_instance(1, n=4, rewards=[sw.Linear(1.0, 9.0)])
    made = paper(instance, Constraints.of(instance, 3), problems=1)
    assert made.evaluations == (3 + 2) + (2 + 1) + 1 + len(made.solutions)
    assert len(made.solutions) == 4 + 1
    two = paper(instance, Constraints.of(instance, 3), problems=2, solutions=3)
    assert len(two.solutions) == 3
    assert two.evaluations in (5 + 4 + 3, 5 + 8 + 3)  # a step of an auxiliary problem values all four
    pinned = paper(instance, Constraints.of(instance, 2, include=[1, 2]))
    assert sorted(pinned.indices.tolist()) == [1, 2]


@pytest.mark.parametrize("c", [1, 2, 3])
def test_every_tuple_is_a_start(c: int) -> None:
    """With rewards that every item raises, the first problems' sets have the tuples as their highest items."""
    instance = random_instance(1, n=7, rewards=[sw.Linear(1.0, 99.0)])
    constraints = Constraints.of(instance, 4)
    sets = list(candidate_solutions(AuxiliaryProblems(instance, constraints), c, 1))
    order = np.argsort(-instance.alone, kind="stable")
    place = {int(item): number for number, item in enumerate(order)}
    tops = {tuple(sorted(sorted(place[int(i)] for i in chosen)[:c])) for chosen in sets}
    assert tops == set(combinations(range(7), c))


def test_the_trace_is_the_best_so_far() -> None:
    instance = random_instance(3, n=20, rewards=REWARDS)
    ranking = paper(instance, Constraints.of(instance, 4), solutions=30)
    np.testing.assert_array_equal(ranking.trace, np.maximum.accumulate(ranking.solutions))
    assert len(ranking.solutions) == 30
    assert ranking.value == ranking.trace[-1] == instance.value(ranking.indices)


def test_defaults() -> None:
    """A hundred solutions, tuples of one item, and after three of them a second round; none with ``problems``."""
    instance = random_instance(3, n=20, rewards=REWARDS)
    constraints = Constraints.of(instance, 4)
    default = paper(instance, constraints)
    assert len(default.solutions) == 100
    told = paper(instance, constraints, solutions=100, top=1)
    np.testing.assert_array_equal(default.solutions, told.solutions)
    np.testing.assert_array_equal(default.solutions[:24], paper(instance, constraints, problems=8).solutions[:24])
    for other in ({"top": 2}, {"top": 3}, {"problems": 3}, {"problems": 8}):
        different = paper(instance, constraints, **other)
        assert not np.array_equal(default.solutions, different.solutions)


def test_the_best_single_item_is_the_last_solution() -> None:
    """Rewards so negative that one item is best: no other set is as good. With one solution there is no room."""
    instance = sw.Instance(np.zeros((5, 5)), [-3.0, -1.0, -2.0, -5.0, -4.0], sw.Linear())
    constraints = Constraints.of(instance, 3)
    made = paper(instance, constraints, solutions=6)
    assert made.indices.tolist() == [1]
    assert (len(made.solutions), made.solutions[-1]) == (6, -1.0)
    assert len(paper(instance, constraints, solutions=1).indices) == 2
    pinned = paper(instance, Constraints.of(instance, 3, include=[3, 4]), solutions=6)
    assert sorted(pinned.indices.tolist()) == [3, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top must be"),
        ({"problems": 9}, "problems must be at most 8"),
    ],
)
def test_options_that_do_not_go_together(options, message: str) -> None:
    instance = random_instance(0)
    with pytest.raises(InvalidInput, match=message):
        paper(instance, Constraints.of(instance, 3), **options)
