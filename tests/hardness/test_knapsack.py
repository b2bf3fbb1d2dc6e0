"""Proposition "MDK lower bound": the lemma both ways, why the printed form fails, and the readers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput, MalformedFile
from setwise.hardness import (
    Knapsack,
    knapsack_catalog,
    knapsack_to_solution,
    read_or_library,
    read_sac94,
    solution_to_knapsack,
)
from setwise.hardness.knapsack import largest_capacity


def random_knapsack(rng: np.random.Generator, most: int = 20) -> Knapsack:
    """Up to six items and four constraints; zero weights, tight and loose capacities, fractional profits at times."""
    c, d = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    profit = np.round(rng.uniform(0, 50, c), int(rng.integers(0, 2)))
    weight = rng.integers(0, most, (d, c)) * rng.integers(0, 2, (d, c))
    return Knapsack(profit, weight, rng.integers(0, weight.sum(axis=1) + 2))


def all_choices(problem: Knapsack) -> list[np.ndarray]:
    return [np.array(z) for z in itertools.product([False, True], repeat=problem.n_items)]


def optimum(problem: Knapsack) -> float:
    return max(problem.value(z) for z in all_choices(problem) if problem.is_feasible(z))


def test_lemma_feasible_solutions_map_both_ways_and_others_are_penalised(count):
    for seed in range(count(200, 10)):
        problem = random_knapsack(np.random.default_rng(seed), most=20 if seed % 2 else 20_000)
        reduction = knapsack_catalog(problem)
        instance = reduction.instance()
        for z in all_choices(problem):
            rows = knapsack_to_solution(problem, z)
            assert np.array_equal(solution_to_knapsack(problem, rows), z)
            assert set(reduction.pinned) <= set(rows)
            assert len(rows) <= reduction.k
            violated = int((problem.weight @ z > problem.capacity).sum())
            penalty = violated * (problem.profit.sum() + 1)
            assert instance.value(rows) == pytest.approx(problem.value(z) - penalty, rel=1e-12, abs=1e-9)
            assert (instance.value(rows) < 0) == (violated > 0)


def test_the_best_set_with_the_pinned_rows_is_the_optimum():
    for seed in range(20):
        problem = random_knapsack(np.random.default_rng(1000 + seed))
        reduction = knapsack_catalog(problem)
        best = sw.rank(reduction.instance(), reduction.k, "exhaustive", include=reduction.pinned)
        assert best.value == pytest.approx(optimum(problem))
        z = solution_to_knapsack(problem, best.indices)
        assert problem.is_feasible(z)
        assert problem.value(z) == pytest.approx(best.value)


def test_erratum_without_pinning_the_best_set_leaves_the_constraints_out():
    """The printed lemma says F(x) > 0 gives a feasible z of the same value. It does not."""
    problem = Knapsack(np.array([3.0, 4.0]), np.array([[2, 2]]), np.array([3]))
    reduction = knapsack_catalog(problem)
    free = sw.rank(reduction.instance(), reduction.k, "exhaustive")
    assert free.value == 7.0 > optimum(problem) == 4.0
    assert not problem.is_feasible(solution_to_knapsack(problem, free.indices))


def test_erratum_printed_knots_stand_where_rounding_decides():
    """(Y+2)/(Y+1), summed in another order, falls on either side of the knot (t+2)/(t+1) for Y = t."""
    sides = set()
    for t in range(1, 200):
        share = np.exp(np.log(np.array([t, 1.0])) - np.log(t))
        share /= share.sum()
        sides.add(np.sign((share * [1.0, 2.0]).sum() - (t + 2) / (t + 1)))
    assert -1.0 in sides


def test_keys_have_a_dimension_a_constraint_and_rows_are_exact():
    problem = random_knapsack(np.random.default_rng(3))
    catalog = knapsack_catalog(problem).catalog
    assert catalog.query.shape == (problem.n_items + problem.n_constraints + 1, 1, problem.n_constraints)
    assert catalog.query.dtype == np.float64


def test_large_capacities_are_kept_up_to_the_limit():
    n = 6
    t = largest_capacity(n)
    problem = Knapsack(np.ones(4), np.array([[t - 1, 1, 1, 0]]), np.array([t]))
    reduction = knapsack_catalog(problem)
    for z in all_choices(problem):
        value = sw.set_value(reduction.catalog, reduction.user, knapsack_to_solution(problem, z))
        assert value == problem.value(z) - 5 * (not problem.is_feasible(z))
    with pytest.raises(InvalidInput, match=f"capacity must be at most {t} with 6 rows"):
        knapsack_catalog(Knapsack(np.ones(4), np.array([[1, 1, 1, 1]]), np.array([t + 1])))


@pytest.mark.parametrize(
    ("profit", "weight", "capacity", "parameter"),
    [
        ([[1.0]], [[1]], [1], "profit"),
        ([math.nan], [[1]], [1], "profit"),
        ([-1.0], [[1]], [1], "profit"),
        ([1.0], [1], [1], "weight"),
        ([1.0, 2.0], [[1]], [1], "weight"),
        ([1.0], [[0.5]], [1], "weight"),
        ([1.0], [[-1]], [1], "weight"),
        ([1.0], np.zeros((0, 1), int), np.zeros(0, int), "weight"),
        ([1.0], [[1]], [1, 2], "capacity"),
        ([1.0], [[1]], [-1], "capacity"),
        ([1.0], [[1]], [1.5], "capacity"),
        ([1.0, 1.0], [[2**53 - 1, 2]], [1], "weight"),
        ([1.0], [[2**63]], [1], "weight"),
        ([1.0], [[1]], [2**53 + 1], "capacity"),
        ([1e16, 0.0], [[1, 1]], [1], "profit"),
    ],
)
def test_what_is_no_knapsack_is_refused(profit, weight, capacity, parameter):
    with pytest.raises(InvalidInput) as caught:
        Knapsack(np.array(profit), np.array(weight), np.array(capacity))
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, list])
def test_numbers_of_any_type_add_up(dtype):
    def given(numbers):
        return numbers if dtype is list else np.array(numbers, dtype)

    problem = Knapsack(given([120, 100]), given([[120, 100]]), given([127]))
    assert (problem.profit.dtype, problem.weight.dtype, problem.capacity.dtype) == (float, np.int64, np.int64)
    assert problem.value([1, 1]) == 220
    assert not problem.is_feasible([1, 1])
    assert problem.is_feasible([1, 0])


def test_rows_and_choices_of_another_problem_are_refused():
    problem = Knapsack(np.ones(2), np.ones((1, 2), int), np.ones(1, int))
    with pytest.raises(InvalidInput):
        solution_to_knapsack(problem, [4])
    for wrong in (knapsack_to_solution, Knapsack.value, Knapsack.is_feasible):
        with pytest.raises(InvalidInput, match="z must be an array of shape"):
            wrong(problem, [True])


# --- the files ---


def test_lines_break_anywhere(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text("2\n 2 1 0\n1.5\n2e1 3\n\n 4 5 \n1 2 9 7 1 0 5 6\n")
    first, second = read_or_library(path)
    assert (first.name, first.optimum) == ("two-0", None)
    assert first.profit.tolist() == [1.5, 20.0]
    assert (first.weight.tolist(), first.capacity.tolist()) == ([[3, 4]], [5])
    assert (second.name, second.optimum, second.profit.tolist()) == ("two-1", 9.0, [7.0])
    assert (second.weight.tolist(), second.capacity.tolist()) == ([[1], [0]], [5, 6])


GOOD = "2 2 7\n4 3\n1 2\n2 1\n3 3\n"


def test_sac94_has_one_problem(tmp_path):
    path = tmp_path / "good.dat"
    path.write_text(GOOD)
    problem = read_sac94(path)
    assert (problem.name, problem.optimum) == ("good", 7.0)
    assert problem.weight.tolist() == [[1, 2], [2, 1]]
    assert problem.is_feasible([True, True])
    assert problem.value([True, True]) == 7.0


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "the file ends where the number of items should stand"),
        ("2 2\n", 1, "the file ends where the optimum should stand"),
        ("0 2 7\n", 1, "the number of items must be at least 1"),
        ("2 -2 7\n", 1, "the number of constraints must be a whole number"),
        ("2 2 x\n", 1, "the optimum must be a number"),
        ("2 2 inf\n", 1, "the optimum must be a number"),
        ("2 2 7\n4 1e999\n", 2, "a profit must be a number"),
        ("2 2 7\n4 -3\n", 2, "a profit must be a number of at least 0"),
        ("2 2 7\n4 3\n1 2\n2 0.5\n3 3\n", 4, "a weight must be a whole number of at least 0, got '0.5'"),
        ("2 2 7\n4 3\n1 2\n2 1\n3 -3\n", 5, "a capacity must be a whole number"),
        ("2 2 7\n4 3\n1 2\n2 1\n3\n", 5, "ends where a capacity should stand (2 expected, 1 left)"),
        ("2 2 7\n4 3\n1 2\n2\n\n", 5, "ends where a weight should stand (4 expected, 3 left)"),
        ("999999999 9999999 7\n4 3\n", 2, "ends where a profit should stand"),
        (GOOD + "8\n", 6, "the file must end here, got '8'"),
        ("2 1 7\n4 3\n9007199254740991 2\n3\n", 4, "weight must be numbers that add up to less than 2^53"),
        ("2 1 7\n9e15 3e15\n1 2\n3\n", 4, "profit must be numbers that add up to less than 2^53"),
    ],
)
def test_broken_files_are_refused_with_their_line(tmp_path, text, line, reason):
    single, library = tmp_path / "broken.dat", tmp_path / "broken.txt"
    single.write_text(text)
    library.write_text("1\n" + text)
    for path, reader, shift in ((single, read_sac94, 0), (library, read_or_library, 1 if text else 0)):
        with pytest.raises(MalformedFile) as caught:
            reader(path)
        assert caught.value.line == line + shift
        assert reason in str(caught.value)


@pytest.mark.parametrize("text", ["0\n", "-1\n", "one\n", "", "2\n" + GOOD])
def test_broken_numbers_of_problems_are_refused(tmp_path, text):
    path = tmp_path / "broken.txt"
    path.write_text(text)
    with pytest.raises(MalformedFile):
        read_or_library(path)


@pytest.mark.parametrize("number", range(4))
def test_mknap1_reaches_its_published_optimum(shared_data, number):
    problem = read_or_library(shared_data / "optim" / "mkp" / "mknap1.txt")[number]
    reduction = knapsack_catalog(problem)
    best = sw.rank(reduction.instance(), reduction.k, "exhaustive", include=reduction.pinned)
    assert best.value == pytest.approx(problem.optimum)
    assert problem.is_feasible(solution_to_knapsack(problem, best.indices))


def test_published_knapsacks(shared_data):
    folder = shared_data / "optim" / "mkp"
    large = read_or_library(folder / "mknapcb7.txt.gz")
    assert {(p.n_items, p.n_constraints, p.optimum) for p in large} == {(100, 30, None)}
    assert len(large) == 30
    small = [read_sac94(path) for path in sorted((folder / "sac94").glob("*.dat"))]
    small += read_or_library(folder / "mknap1.txt")
    assert len(small) == 34
    for problem in small:
        assert 0 < problem.optimum <= problem.profit.sum()
        assert not problem.is_feasible(np.ones(problem.n_items, bool))
