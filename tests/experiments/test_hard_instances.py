"""The paper's reductions against all subsets: cliques, disjoint cliques, knapsack with its errata."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hard_instances import (
    Knapsack,
    Reduction,
    clique_catalog,
    closed,
    disjoint_cliques_catalog,
    knapsack_catalog,
    largest_capacity,
    near_orthogonal,
    solution_to_clique,
    solution_to_knapsack,
)

import setwise as sw
from setwise.errors import InvalidInput

# --- cliques ---


def random_graph(rng: np.random.Generator, n: int, density: float) -> np.ndarray:
    upper = np.triu(rng.random((n, n)) < density, 1)
    return upper | upper.T


def union_of_cliques(rng: np.random.Generator, sizes: list[int]) -> np.ndarray:
    """Disjoint cliques, their vertices shuffled."""
    clique_of = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return (clique_of[:, None] == clique_of) & ~np.eye(len(clique_of), dtype=bool)


def largest_clique(adjacency: np.ndarray) -> int:
    """The clique number, by growing every clique from its smallest vertex."""

    def grow(candidates: np.ndarray) -> int:
        neighbours = (candidates[i + 1 :][adjacency[v, candidates[i + 1 :]]] for i, v in enumerate(candidates))
        return max((1 + grow(rest) for rest in neighbours), default=0)

    return grow(np.arange(len(adjacency)))


def best_set(reduction: Reduction) -> sw.Ranking:
    return sw.rank(reduction.instance(), reduction.k, "exhaustive", include=reduction.pinned)


def is_clique(adjacency: np.ndarray, vertices: np.ndarray) -> bool:
    return bool(closed(adjacency)[np.ix_(vertices, vertices)].all())


def test_the_best_set_of_any_graph_is_its_largest_clique_below_k(count) -> None:
    for seed in range(count(100, 5)):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, int(rng.integers(2, 21)), rng.uniform(0.1, 0.95))
        k = int(rng.integers(2, 7))
        best = best_set(clique_catalog(graph, k, M=rng.choice([2.0, 3.5, 1e6])))
        assert best.value == min(largest_clique(graph), k - 1)
        clique = solution_to_clique(graph, best.indices)
        assert len(clique) == best.value
        assert is_clique(graph, clique)


def test_a_k_minus_1_clique_exists_if_and_only_if_the_optimum_is_k_minus_1() -> None:
    five_cycle = np.roll(np.eye(5, dtype=bool), 1, axis=1)
    assert best_set(clique_catalog(five_cycle | five_cycle.T, 4)).value < 3
    wheel = np.ones((6, 6), bool)
    wheel[:5, :5] = five_cycle | five_cycle.T
    wheel[5, 5] = False
    assert best_set(clique_catalog(wheel, 4)).value == 3


def test_every_set_is_worth_the_vertices_that_know_all_others() -> None:
    rng = np.random.default_rng(0)
    graph = random_graph(rng, 30, 0.8)
    instance = clique_catalog(graph, 12).instance()
    for _ in range(300):
        rows = rng.choice(31, int(rng.integers(1, 13)), replace=False)
        clique = solution_to_clique(graph, rows)
        assert is_clique(graph, clique)
        assert instance.value(rows) == len(clique)


def test_rewards_are_whole_for_large_k_in_float32() -> None:
    graph = ~np.eye(400, dtype=bool)
    for missing, value in ((0, 400), (1, 398)):
        graph[0, missing] = graph[missing, 0] = False
        reduction = clique_catalog(graph, 401)
        assert reduction.catalog.query.dtype == np.float32
        assert sw.set_value(reduction.catalog, np.ones(1), np.arange(401)) == value


def test_the_best_set_of_disjoint_cliques_is_the_largest(count) -> None:
    for seed in range(count(100, 5)):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(4, 7))
        sizes = [int(size) for size in rng.integers(k - 3, k, 12)]
        while sum(sizes) > 20:
            sizes.pop()
        graph = union_of_cliques(rng, sizes)
        dimension = 8 if len(sizes) > 8 else len(sizes)
        reduction = disjoint_cliques_catalog(graph, k, dimension, coherence=0.3, seed=seed)
        best = best_set(reduction)
        assert best.value == max(sizes)
        clique = solution_to_clique(graph, best.indices)
        assert len(clique) == len(best.indices) - 1 == max(sizes)
        assert is_clique(graph, clique)
        assert reduction.catalog.query.shape[2] == dimension


def test_the_theorem_holds_at_the_edge_of_its_condition() -> None:
    """δ = 0.3 and M = 3: every pair of cliques as close as allowed, so that (*) has 1 % to spare."""
    vectors = np.linalg.cholesky(np.full((3, 3), 0.3) + 0.7 * np.eye(3))
    for sizes in ([1, 1, 1], [1, 2, 3], [3, 3, 3], [2, 2, 1]):
        graph = union_of_cliques(np.random.default_rng(0), sizes)
        reduction = disjoint_cliques_catalog(graph, 4, 3, coherence=0.3)
        clique_of = np.unique(closed(graph).argmax(axis=1), return_inverse=True)[1]
        catalog = reduction.catalog
        N = float(np.abs(catalog.query).max())  # three cliques in three dimensions have the axes as their vectors
        key = np.vstack([vectors[clique_of], np.zeros(3)])
        closest = sw.Catalog(-N * key, key, catalog.value, (catalog.rewards, catalog.reward_class))
        assert best_set(Reduction(closest, 4, reduction.pinned)).value == max(sizes)


def test_impossible_cliques_and_vectors_are_refused() -> None:
    path = np.zeros((3, 3), bool)
    path[0, 1] = path[1, 0] = path[1, 2] = path[2, 1] = True
    with pytest.raises(InvalidInput, match="disjoint union of cliques"):
        disjoint_cliques_catalog(path, 4, 3)
    two = union_of_cliques(np.random.default_rng(0), [2, 3])
    with pytest.raises(InvalidInput, match="more than the largest clique has vertices, 3"):
        disjoint_cliques_catalog(two, 3, 2)
    with pytest.raises(InvalidInput, match="coherence must be above 0 and small enough"):
        disjoint_cliques_catalog(union_of_cliques(np.random.default_rng(0), [1, 3]), 4, 2, 0.35)
    with pytest.raises(InvalidInput, match="no such vectors in 1000 rounds"):
        near_orthogonal(8, 5, 0.2928)  # allowed by Welch's bound, by a hair


def test_vectors_are_unit_and_nearly_orthogonal() -> None:
    for count, dimension, coherence in ((12, 8, 0.3), (40, 24, 0.2), (4, 9, 0.0), (3, 3, 0.1)):
        vectors = near_orthogonal(count, dimension, coherence)
        gram = vectors @ vectors.T
        assert vectors.shape == (count, dimension)
        assert np.allclose(gram.diagonal(), 1)
        assert np.abs(gram - np.diag(gram.diagonal())).max() <= coherence


# --- knapsack ---


def random_knapsack(rng: np.random.Generator, most: int = 20) -> Knapsack:
    """Up to six items and four constraints; zero weights, tight and loose capacities, fractional profits at times."""
    c, d = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    profit = np.round(rng.uniform(0, 50, c), int(rng.integers(0, 2)))
    weight = rng.integers(0, most, (d, c)) * rng.integers(0, 2, (d, c))
    return Knapsack(profit, weight, rng.integers(0, weight.sum(axis=1) + 2))


def all_choices(problem: Knapsack) -> list[np.ndarray]:
    return [np.array(z) for z in itertools.product([False, True], repeat=len(problem.profit))]


def optimum(problem: Knapsack) -> float:
    return max(problem.profit @ z for z in all_choices(problem) if problem.is_feasible(z))


def rows_of(problem: Knapsack, z: np.ndarray) -> np.ndarray:
    """All constraints, the chosen items, the dummy."""
    return np.flatnonzero(np.concatenate([np.ones(len(problem.capacity), bool), z, [True]]))


def test_lemma_feasible_solutions_map_both_ways_and_others_are_penalised(count) -> None:
    for seed in range(count(200, 10)):
        problem = random_knapsack(np.random.default_rng(seed), most=20 if seed % 2 else 20_000)
        reduction = knapsack_catalog(problem)
        instance = reduction.instance()
        for z in all_choices(problem):
            rows = rows_of(problem, z)
            assert np.array_equal(solution_to_knapsack(problem, rows), z)
            assert set(reduction.pinned) <= set(rows)
            violated = int((problem.weight @ z > problem.capacity).sum())
            penalty = violated * (problem.profit.sum() + 1)
            assert instance.value(rows) == pytest.approx(problem.profit @ z - penalty, rel=1e-12, abs=1e-9)
            assert (instance.value(rows) < 0) == (violated > 0)


def test_the_best_set_with_the_pinned_rows_is_the_optimum() -> None:
    for seed in range(20):
        problem = random_knapsack(np.random.default_rng(1000 + seed))
        best = best_set(knapsack_catalog(problem))
        assert best.value == pytest.approx(optimum(problem))
        z = solution_to_knapsack(problem, best.indices)
        assert problem.is_feasible(z)
        assert problem.profit @ z == pytest.approx(best.value)


def test_erratum_without_pinning_the_best_set_leaves_the_constraints_out() -> None:
    """The printed lemma says F(x) > 0 gives a feasible z of the same value. It does not."""
    problem = Knapsack(np.array([3.0, 4.0]), np.array([[2, 2]]), np.array([3]))
    reduction = knapsack_catalog(problem)
    free = sw.rank(reduction.instance(), reduction.k, "exhaustive")
    assert free.value == 7.0 > optimum(problem) == 4.0
    assert not problem.is_feasible(solution_to_knapsack(problem, free.indices))


def test_erratum_printed_knots_stand_where_rounding_decides() -> None:
    """(Y+2)/(Y+1), summed in another order, falls on either side of the knot (t+2)/(t+1) for Y = t."""
    sides = set()
    for t in range(1, 200):
        share = np.exp(np.log(np.array([t, 1.0])) - np.log(t))
        share /= share.sum()
        sides.add(np.sign((share * [1.0, 2.0]).sum() - (t + 2) / (t + 1)))
    assert -1.0 in sides


def test_large_capacities_are_kept_up_to_the_limit() -> None:
    t = largest_capacity(6)
    problem = Knapsack(np.ones(4), np.array([[t - 1, 1, 1, 0]]), np.array([t]))
    reduction = knapsack_catalog(problem)
    for z in all_choices(problem):
        value = sw.set_value(reduction.catalog, np.ones(1), rows_of(problem, z))
        assert value == z.sum() - 5 * (not problem.is_feasible(z))
    with pytest.raises(InvalidInput, match=f"capacity must be at most {t} with 6 rows"):
        knapsack_catalog(Knapsack(np.ones(4), np.array([[1, 1, 1, 1]]), np.array([t + 1])))
