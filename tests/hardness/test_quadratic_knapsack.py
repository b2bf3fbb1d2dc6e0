"""Quadratic knapsack: a softmax that acts like a sum, a capacity as a pinned row, and the reader."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput, MalformedFile
from setwise.hardness import (
    QuadraticKnapsack,
    pairwise_instance,
    quadratic_knapsack_instance,
    read_billionnet_soutif,
    solution_to_quadratic_knapsack,
)


def random_problem(rng: np.random.Generator, n: int, density: float = 0.5) -> QuadraticKnapsack:
    pair = np.triu(rng.integers(1, 101, (n, n)) * (rng.random((n, n)) < density), 1)
    weight = rng.integers(0, 51, n)
    return QuadraticKnapsack(rng.integers(0, 101, n), pair + pair.T, weight, int(rng.integers(0, weight.sum() + 1)))


def direct(problem: QuadraticKnapsack, items) -> int:
    """The profit, pair by pair."""
    alone = sum(int(problem.profit[i]) for i in items)
    return alone + sum(int(problem.pair[i, j]) for i, j in itertools.combinations(items, 2))


@pytest.mark.parametrize("eps", [1.0, 1e-6])
def test_the_value_of_a_set_is_its_profit_within_eps(eps):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(1, 13))
        problem = random_problem(rng, 12, density=(0.0, 0.25, 1.0)[seed % 3])
        instance = pairwise_instance(problem, k, eps)
        for _ in range(50):
            items = rng.choice(12, int(rng.integers(0, k + 1)), replace=False)
            profit = direct(problem, items)
            assert problem.value(items) == profit
            assert -1e-9 <= profit - instance.value(items) <= eps + 1e-9


def test_the_best_set_of_at_most_k():
    for seed in range(5):
        problem = random_problem(np.random.default_rng(seed), 10)
        best = sw.rank(pairwise_instance(problem, 4), 4, "exhaustive")
        sets = (items for size in range(1, 5) for items in itertools.combinations(range(10), size))
        assert best.value == pytest.approx(max(direct(problem, items) for items in sets), abs=1.001e-6)


def test_the_capacity_is_a_pinned_row():
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), 8)
        instance = quadratic_knapsack_instance(problem)
        optimum = 0
        for choice in itertools.product([False, True], repeat=8):
            items = np.flatnonzero(choice)
            rows = np.append(items, 8)
            assert solution_to_quadratic_knapsack(problem, rows[::-1]).tolist() == items.tolist()
            if problem.is_feasible(items):
                optimum = max(optimum, direct(problem, items))
                assert instance.value(rows) == pytest.approx(direct(problem, items), abs=1.001e-6)
            else:
                assert instance.value(rows) < 0
        best = sw.rank(instance, 9, "exhaustive", include=[8])
        assert best.value == pytest.approx(optimum, abs=1.001e-6)


@pytest.mark.parametrize("most", [100, 10**6, 10**9])
@pytest.mark.parametrize("eps", [1.0, 1e-3, 2e-6, 1e-6, 1e-9, 1e-12])
def test_rounding_is_counted(most, eps):
    """Within eps, or refused with an eps that works."""
    rng = np.random.default_rng(0)
    pair = np.triu(rng.integers(1, most, (12, 12)), 1)
    problem = QuadraticKnapsack(rng.integers(0, most, 12), pair + pair.T, np.ones(12, int), 12)
    try:
        instance = pairwise_instance(problem, 12, eps)
    except InvalidInput as caught:
        assert "which is what double precision can keep here" in str(caught)  # noqa: PT017
        eps = float(str(caught).split("at least ")[1].split(",")[0])
        assert eps < 1e-11 * most
        instance = pairwise_instance(problem, 12, eps)
    for _ in range(300):
        items = rng.choice(12, int(rng.integers(1, 13)), replace=False)
        assert abs(instance.value(items) - problem.value(items)) <= eps


def test_a_set_too_heavy_is_below_0_whatever_eps():
    problem = QuadraticKnapsack([10**12, 3], [[0, 10**12], [10**12, 0]], [1, 1], 1)
    assert quadratic_knapsack_instance(problem, 1e3).value([0, 1, 2]) < 0


def test_lists_and_small_types_are_taken():
    problem = QuadraticKnapsack([1, 2], [[0, 200], [200, 0]], np.array([200, 100], np.uint8), np.uint8(250))
    assert problem.value([0, 1]) == 203
    assert not problem.is_feasible([0, 1])


def test_impossible_parameters_are_refused():
    problem = random_problem(np.random.default_rng(0), 4)
    for k, eps in ((0, 1e-6), (2, 0.0), (2, -1.0), (2, float("nan"))):
        with pytest.raises(InvalidInput):
            pairwise_instance(problem, k, eps)
    huge = QuadraticKnapsack(problem.profit, problem.pair, problem.weight, 10**9)
    with pytest.raises(InvalidInput, match="capacity must be at most"):
        quadratic_knapsack_instance(huge)


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"profit": np.array([1.0, 2.0])}, "profit"),
        ({"profit": np.array([[1, 2]])}, "profit"),
        ({"pair": np.array([[0, -1], [-1, 0]])}, "pair"),
        ({"pair": np.array([[0, 1], [2, 0]])}, "pair"),
        ({"pair": np.eye(2, dtype=int)}, "pair"),
        ({"weight": np.array([1])}, "weight"),
        ({"capacity": -1}, "capacity"),
        ({"weight": [2**53, 1]}, "weight"),
        ({"pair": [[0, 2**53], [2**53, 0]]}, "pair"),
        ({"profit": [], "pair": np.zeros((0, 0), int), "weight": []}, "profit"),
    ],
)
def test_what_is_no_problem_is_refused(change, parameter):
    good = {"profit": np.array([1, 2]), "pair": np.zeros((2, 2), int), "weight": np.array([1, 1]), "capacity": 1}
    QuadraticKnapsack(**good)
    with pytest.raises(InvalidInput) as caught:
        QuadraticKnapsack(**good | change)
    assert caught.value.parameter == parameter


# --- the files ---

GOOD = " r_3 \n3\n1 2 3\n4 5\n6\n\n0\n10\n7 8 9\n\nComments\nDensity : 100 %\n"


def test_a_small_file(tmp_path):
    path = tmp_path / "good.txt"
    path.write_text(GOOD)
    problem = read_billionnet_soutif(path)
    assert (problem.name, problem.capacity) == ("r_3", 10)
    assert problem.profit.tolist() == [1, 2, 3]
    assert problem.pair.tolist() == [[0, 4, 5], [4, 0, 6], [5, 6, 0]]
    assert problem.weight.tolist() == [7, 8, 9]
    path.write_text("one\n1\n5\n\n0\n3\n2")
    assert read_billionnet_soutif(path).value([0]) == 5


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "ends where the name should stand"),
        ("r\n", 1, "ends where the number of items should stand"),
        ("r\n3 4\n", 2, "the number of items: 1 expected on this line, got 2"),
        ("r\nthree\n", 2, "the number of items must be a whole number"),
        ("r\n0\n", 2, "must be at least 1, got 0"),
        ("r\n3\n1 2\n", 3, "profits: 3 expected on this line, got 2"),
        ("r\n3\n1 2 3\n4 5 6\n", 4, "pair profits: 2 expected on this line, got 3"),
        ("r\n3\n1 2 3\n4 5\n6.5\n", 5, "each of the pair profits must be a whole number"),
        ("r\n3\n1 2 3\n4 5\n6\n0\n", 6, "more pair profits: 0 expected on this line, got 1"),
        ("r\n3\n1 2 3\n4 5\n6\n\n1\n10\n7 8 9\n", 7, "the kind of constraint must be 0"),
        ("r\n3\n1 2 3\n4 5\n6\n\n0\n-10\n7 8 9\n", 8, "the capacity must be a whole number"),
        ("r\n3\n1 2 3\n4 5\n6\n\n0\n10\n7 8\n", 9, "weights: 3 expected on this line, got 2"),
        ("r\n3\n1 2 3\n4 5\n6\n\n0\n10\n", 8, "ends where weights should stand"),
        ("r\n2\n1 2\n9007199254740991\n\n0\n10\n7 8\n", 8, "pair must be numbers that add up to less than 2^53"),
    ],
)
def test_broken_files_are_refused_with_their_line(tmp_path, text, line, reason):
    path = tmp_path / "broken.txt"
    path.write_text(text)
    with pytest.raises(MalformedFile) as caught:
        read_billionnet_soutif(path)
    assert caught.value.line == line
    assert reason in str(caught.value)


def test_every_published_problem_parses(shared_data):
    files = sorted((shared_data / "optim" / "qkp").glob("*.gz"))
    assert len(files) == 28
    for path in files:
        n, density = (int(word) for word in path.name.split("_")[1:3])
        problem = read_billionnet_soutif(path)
        assert problem.n_items == n
        assert problem.name == path.name.split(".")[0].replace("jeu", "r")
        assert 100 * (problem.pair > 0).mean() == pytest.approx(density, abs=6)
