"""Proposition "lower bound": both constructions against all subsets, and the DIMACS reader."""

from __future__ import annotations

import gzip
import itertools
import math

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput, MalformedFile
from setwise.hardness import (
    Graph,
    Reduction,
    clique_catalog,
    disjoint_cliques_catalog,
    near_orthogonal,
    read_dimacs,
    solution_to_clique,
)


def random_graph(rng: np.random.Generator, n: int, density: float) -> Graph:
    upper = np.triu(rng.random((n, n)) < density, 1)
    return Graph(upper | upper.T)


def union_of_cliques(rng: np.random.Generator, sizes: list[int]) -> Graph:
    """Disjoint cliques, their vertices shuffled."""
    clique_of = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    same = clique_of[:, None] == clique_of
    return Graph(same & ~np.eye(len(same), dtype=bool))


def largest_clique(graph: Graph) -> int:
    """The clique number, by growing every clique from its smallest vertex."""

    def grow(candidates: np.ndarray) -> int:
        return max(
            (1 + grow(candidates[i + 1 :][graph.adjacency[v, candidates[i + 1 :]]]) for i, v in enumerate(candidates)),
            default=0,
        )

    return grow(np.arange(graph.n_vertices))


def best_set(reduction: Reduction, **options) -> sw.Ranking:
    return sw.rank(reduction.instance(), reduction.k, "exhaustive", **options)


def is_clique(graph: Graph, vertices: np.ndarray) -> bool:
    return bool(graph.closed[np.ix_(vertices, vertices)].all())


# --- construction (a) ---


def test_the_best_set_of_any_graph_is_its_largest_clique_below_k(count):
    for seed in range(count(100, 5)):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, int(rng.integers(2, 21)), rng.uniform(0.1, 0.95))
        k = int(rng.integers(2, 7))
        best = best_set(clique_catalog(graph, k, M=rng.choice([2.0, 3.5, 1e6])))
        assert best.value == min(largest_clique(graph), k - 1)
        clique = solution_to_clique(graph, best.indices)
        assert len(clique) == best.value
        assert is_clique(graph, clique)


def test_a_k_minus_1_clique_exists_if_and_only_if_the_optimum_is_k_minus_1():
    five_cycle = np.roll(np.eye(5, dtype=bool), 1, axis=1)
    assert best_set(clique_catalog(Graph(five_cycle | five_cycle.T), 4)).value < 3
    wheel = np.ones((6, 6), bool)
    wheel[:5, :5] = five_cycle | five_cycle.T
    wheel[5, 5] = False
    assert best_set(clique_catalog(Graph(wheel), 4)).value == 3


def test_every_set_is_worth_the_vertices_that_know_all_others():
    rng = np.random.default_rng(0)
    graph = random_graph(rng, 30, 0.8)
    reduction = clique_catalog(graph, 12)
    instance = reduction.instance()
    for _ in range(300):
        rows = rng.choice(31, int(rng.integers(1, 13)), replace=False)
        clique = solution_to_clique(graph, rows)
        assert is_clique(graph, clique)
        assert instance.value(rows) == len(clique)
        assert sw.set_value(reduction.catalog, reduction.user, rows) == len(clique)


def test_rewards_are_whole_for_large_k_in_float32():
    graph = Graph(~np.eye(400, dtype=bool))
    reduction = clique_catalog(graph, 401)
    assert reduction.catalog.query.dtype == np.float32
    assert sw.set_value(reduction.catalog, reduction.user, np.arange(401)) == 400
    nearly = graph.adjacency.copy()
    nearly[0, 1] = nearly[1, 0] = False
    reduction = clique_catalog(Graph(nearly), 401)
    assert sw.set_value(reduction.catalog, reduction.user, np.arange(401)) == 398


def test_a_set_without_the_extra_item_encodes_nothing():
    graph = random_graph(np.random.default_rng(1), 5, 0.9)
    assert solution_to_clique(graph, [0, 1, 2]).size == 0
    assert solution_to_clique(graph, [5]).size == 0


@pytest.mark.parametrize(("k", "M"), [(1, 2.0), (2.5, 2.0), (3, 1.5), (3, math.nan)])
def test_impossible_parameters_are_refused(k, M):
    with pytest.raises(InvalidInput):
        clique_catalog(random_graph(np.random.default_rng(0), 4, 0.5), k, M)


# --- construction (b) ---


def test_the_best_set_of_disjoint_cliques_is_the_largest(count):
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


def test_there_may_be_many_more_cliques_than_dimensions():
    rng = np.random.default_rng(0)
    sizes = [7] * 39 + [8]
    graph = union_of_cliques(rng, sizes)
    reduction = disjoint_cliques_catalog(graph, k=9, dimension=24)
    instance, extra = reduction.instance(), graph.n_vertices
    cliques = {tuple(np.flatnonzero(row)) for row in graph.closed}
    assert len(cliques) == 40
    assert max(instance.value([*clique, extra]) for clique in cliques) == 8
    for _ in range(300):  # more vertices than the largest clique has earn nothing
        assert instance.value([*rng.choice(extra, 8, replace=False), extra]) == 0


def test_the_theorem_holds_at_the_edge_of_its_condition():
    """δ = 0.3 and M = 3: every pair of cliques as close as allowed, so that (*) has 1 % to spare."""
    together = np.full((3, 3), 0.3) + 0.7 * np.eye(3)
    vectors = np.linalg.cholesky(together)
    assert np.allclose(vectors @ vectors.T, together)
    for sizes in ([1, 1, 1], [1, 2, 3], [3, 3, 3], [2, 2, 1]):
        graph = union_of_cliques(np.random.default_rng(0), sizes)
        reduction = disjoint_cliques_catalog(graph, 4, 3, coherence=0.3)
        clique_of = np.unique(graph.closed.argmax(axis=1), return_inverse=True)[1]
        catalog = reduction.catalog
        N = float(np.abs(catalog.query).max())  # three cliques in three dimensions have the axes as their vectors
        key = np.vstack([vectors[clique_of], np.zeros(3)])
        closest = sw.Catalog(-N * key, key, catalog.value, (catalog.rewards, catalog.reward_class))
        assert best_set(Reduction(closest, 4, reduction.pinned)).value == max(sizes)


def test_other_graphs_and_impossible_sizes_are_refused():
    path = np.zeros((3, 3), bool)
    path[0, 1] = path[1, 0] = path[1, 2] = path[2, 1] = True
    with pytest.raises(InvalidInput, match="disjoint union of cliques"):
        disjoint_cliques_catalog(Graph(path), 4, 3)
    two = union_of_cliques(np.random.default_rng(0), [2, 3])
    with pytest.raises(InvalidInput, match="more than the largest clique has vertices, 3"):
        disjoint_cliques_catalog(two, 3, 2)
    for coherence in (0.35, 0.7, 0.0, -0.1):
        with pytest.raises(InvalidInput, match="coherence must be above 0 and small enough"):
            disjoint_cliques_catalog(union_of_cliques(np.random.default_rng(0), [1, 3]), 4, 2, coherence)


# --- nearly orthogonal vectors ---


@pytest.mark.parametrize(("count", "dimension", "coherence"), [(12, 8, 0.3), (40, 24, 0.2), (4, 9, 0.0), (3, 3, 0.1)])
@pytest.mark.parametrize("seed", [0, 1])
def test_vectors_are_unit_and_nearly_orthogonal(count, dimension, coherence, seed):
    vectors = near_orthogonal(count, dimension, coherence, seed)
    assert vectors.shape == (count, dimension)
    gram = vectors @ vectors.T
    assert np.allclose(gram.diagonal(), 1)
    assert np.abs(gram - np.diag(gram.diagonal())).max() <= coherence
    assert np.array_equal(vectors, near_orthogonal(count, dimension, coherence, seed))


def test_vectors_that_cannot_be_are_refused():
    with pytest.raises(InvalidInput, match=r"at least 0\.3536 for 7 vectors in 4 dimensions"):
        near_orthogonal(7, 4, 0.3)
    with pytest.raises(InvalidInput, match="no such vectors in 1000 rounds"):
        near_orthogonal(8, 5, 0.2928)  # allowed by Welch's bound, by a hair


# --- graphs and their files ---


@pytest.mark.parametrize(
    ("adjacency", "weights"),
    [
        (np.zeros((0, 0), bool), None),
        (np.zeros((2, 3), bool), None),
        (np.zeros((2, 2), int), None),
        (np.eye(2, dtype=bool), None),
        (np.triu(np.ones((2, 2), bool), 1), None),
        (np.zeros((2, 2), bool), np.ones(3, int)),
        (np.zeros((2, 2), bool), [0.5, 1]),
        ([[False, True], [True]], None),
        ([[0, 1], [1, 0]], None),
        (3, None),
    ],
)
def test_matrices_that_are_no_graph_are_refused(adjacency, weights):
    with pytest.raises(InvalidInput):
        Graph(adjacency, weights)


def test_a_graph_from_lists():
    graph = Graph([[False, True], [True, False]], weights=[3, 4])
    assert graph.closed.tolist() == [[True, True], [True, True]]
    assert graph.weights.dtype == np.int64


def test_a_file_with_all_kinds_of_lines(tmp_path):
    text = "c hello \xe9\nc\n\np edge  3 2\t\nn 1 5\nn 3 0\nn 2 7\ne 1 2\ne 3 2\n"
    plain, packed = tmp_path / "small.clq", tmp_path / "small.clq.gz"
    plain.write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
    packed.write_bytes(gzip.compress(text.encode("latin-1")))
    for path in (plain, packed):
        graph = read_dimacs(path)
        assert graph.n_vertices == 3
        assert np.argwhere(graph.adjacency).tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
        assert graph.weights.tolist() == [5, 7, 0]
    plain.write_text("p col 2 0\n")
    assert read_dimacs(plain).weights is None


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "without a header"),
        ("c only\nc comments\n", 2, "without a header"),
        ("c\ne 1 2\n", 2, "one header line"),
        ("p edge 2 1\ne 1 2\np edge 2 1\n", 3, "one header line"),
        ("p edge 2\n", 1, "'p' must be followed by 3 words, got 2"),
        ("p cnf 2 1\n", 1, "'p edge' or 'p col', got 'p cnf'"),
        ("p edge two 1\n", 1, "the number of vertices must be a whole number"),
        ("p edge 2 -1\n", 1, "the number of edges must be a whole number"),
        ("p edge 0 0\n", 1, "1 to 20000 vertices, got 0"),
        ("p edge 99999999 0\n", 1, "1 to 20000 vertices"),
        ("p edge 2 99999999999999999999\n", 1, "at most 2^53"),
        ("p edge 2 1\nx 1 2\n", 2, "must start with c, p, n or e, got 'x'"),
        ("p edge 2 1\ne 1\n", 2, "'e' must be followed by 2 words"),
        ("p edge 2 1\ne 1 2 3\n", 2, "'e' must be followed by 2 words"),
        ("p edge 2 1\n\ne 1 3\n", 3, "a vertex must be 1 to 2, got 3"),
        ("p edge 2 1\ne 0 1\n", 2, "a vertex must be 1 to 2, got 0"),
        ("p edge 2 1\ne 1 1.5\n", 2, "a vertex must be a whole number"),
        ("p edge 2 1\ne 1 1_0\n", 2, "a vertex must be a whole number"),
        ("p edge 2 1\ne 2 2\n", 2, "must join two vertices"),
        ("p edge 2 2\ne 1 2\ne 2 1\n", 3, "must be listed once"),
        ("c\np edge 3 2\ne 1 2\n", 2, "announces 2 edges, but there are 1"),
        ("p edge 3 0\ne 1 2\n", 1, "announces 0 edges, but there are 1"),
        ("p edge 2 0\nn 1 4\nn 1 4\n", 3, "vertex 1 must have one weight"),
        ("p edge 2 0\nn 1 -4\n", 2, "a weight must be a whole number"),
        ("p edge 2 0\nn 1 4\n", 2, "weights for 1 of 2 vertices"),
    ],
)
def test_broken_files_are_refused_with_their_line(tmp_path, text, line, reason):
    path = tmp_path / "broken.clq"
    path.write_text(text)
    with pytest.raises(MalformedFile) as caught:
        read_dimacs(path)
    assert caught.value.line == line
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"broken.clq, line {line}: ")


@pytest.mark.parametrize("harm", ["cut", "flipped", "not gzip"])
def test_damaged_compression_is_refused(tmp_path, harm):
    packed = bytearray(gzip.compress(b"p edge 2 1\ne 1 2\n"))
    if harm == "cut":
        del packed[-9:]
    elif harm == "flipped":
        packed[10] ^= 0xFF
    else:
        packed[0] = 0
    path = tmp_path / "broken.clq.gz"
    path.write_bytes(packed)
    with pytest.raises(MalformedFile, match="damaged"):
        read_dimacs(path)


@pytest.mark.parametrize(("name", "omega"), [("johnson8-2-4", 4), ("hamming6-4", 4)])
def test_small_dimacs_graphs(shared_data, name, omega):
    graph = read_dimacs(shared_data / "optim" / "clique" / f"{name}.weighted.clq.gz")
    reduction = clique_catalog(graph, omega + 1)
    assert best_set(reduction, include=[graph.n_vertices]).value == omega == largest_clique(graph)
    assert graph.weights.tolist() == [v % 200 + 1 for v in range(1, graph.n_vertices + 1)]


def test_the_reference_clique_number_is_right():
    rng = np.random.default_rng(0)
    for _ in range(20):
        graph = random_graph(rng, 7, 0.6)
        cliques = (c for size in range(1, 8) for c in itertools.combinations(range(7), size))
        assert largest_clique(graph) == max(len(c) for c in cliques if is_clique(graph, np.array(c)))
