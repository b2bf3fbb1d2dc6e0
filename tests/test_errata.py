"""Counter-examples in numbers for docs/explanation/errata.md, and a check that every entry of the page names its test."""

from __future__ import annotations

import ast
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hard_instances import disjoint_cliques_catalog
from proofs.discretization import denominators
from proofs.enumeration import PartialSolution, valid_tuples
from proofs.nonnegative_rank import SurrogateProblem, joint_clusters, query_clusters
from proofs.pure_embedding import guaranteed
from proofs.rounding import AuxiliarySolver, Programs

import setwise as sw
from setwise.errors import InvalidInput

ROOT = Path(__file__).parents[1]
ENTRY = re.compile(r"^\*\*(\d+)\. .*?(?=^\*\*\d+\. |\Z)", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def softmax(rows: np.ndarray) -> np.ndarray:
    weight = np.exp(rows - rows.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def problem_of_rank_one(seed: int, m: int = 6, k: int = 3) -> SurrogateProblem:
    rng = np.random.default_rng(seed)
    instance = sw.Instance(np.tile(rng.normal(size=m), (m, 1)), rng.random(m), sw.ReLU())
    return SurrogateProblem.of(instance, query_clusters(instance.logit[0], 1), k)


def test_every_entry_names_a_test_that_exists() -> None:
    page = (ROOT / "docs/explanation/errata.md").read_text()
    entries = {int(match.group(1)): match.group(0) for match in ENTRY.finditer(page)}
    assert list(entries) == list(range(len(entries)))
    for number, text in entries.items():
        named = TEST.findall(text.replace("\n", ""))
        assert named, f"erratum {number} names no test"
        for path, name in named:
            tree = ast.parse((ROOT / path).read_text())
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"


def test_masked_attention_gives_weight_to_what_is_not_selected() -> None:
    """Row i ∉ S is Σ_S v_j / n, and rows of S are not the averages over S that the problem has."""
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(5, 2)) for _ in range(3))
    mask = np.diag([1.0, 1.0, 0.0, 0.0, 0.0])
    output = softmax((mask @ query) @ (mask @ key).T) @ (mask @ value)
    np.testing.assert_allclose(output[4], value[:2].sum(axis=0) / 5)
    assert np.abs(output[4] - value[:2].mean(axis=0)).max() > 0.1
    over_set = softmax(query[:2] @ key[:2].T) @ value[:2]
    assert np.abs(output[:2] - over_set).max() > 0.1


def test_the_printed_augmentation_is_not_on_the_sphere() -> None:
    longest, v = 2.0, np.array([1.0, 0.0])
    assert np.linalg.norm([np.sqrt(longest - v @ v), *v]) / longest != pytest.approx(1)
    assert np.linalg.norm([np.sqrt(longest**2 - v @ v), *v]) / longest == pytest.approx(1)
    assert longest - np.array([1.9, 0.0]) @ [1.9, 0.0] < 0, "and its root need not exist"


@pytest.mark.parametrize(("theta", "kept"), [(8 * np.sqrt(2) * 0.01, False), (0.01 / 4, True)])
def test_the_printed_factor_on_distances_is_too_large(theta: float, kept: bool) -> None:
    """Unit vectors: a point (1 + θ) times as far as the nearest, of product 0, may lose 0.24 where ε = 0.01."""
    distance = (1 + theta) * np.sqrt(2.0)
    product = 1 - distance**2 / 2
    assert (product >= -0.01) == kept


def test_counting_overlaps_fails_from_two_sets_on() -> None:
    sets = [{1, 2}, {2, 3}]
    counter = sum(i in other for one in sets for i in one for other in sets)  # ordered pairs, j' = j included
    assert counter == 6
    assert len(sets[0]) + len(sets[1]) - len(sets[0] | sets[1]) == 1


@pytest.mark.parametrize(("sets", "k"), [([{1, 2}, {3, 4}], 3), ([{1, 2}, {1, 2}], 3)])
def test_the_printed_test_of_sizes_is_reversed(sets: list[set[int]], k: int) -> None:
    total = sum(map(len, sets))
    overlap = total - len(set.union(*sets))
    assert (overlap <= total - k) != (len(set.union(*sets)) <= k)


def test_a_factor_on_an_average_needs_its_sign() -> None:
    """All scores −1: every average is −1, below (1 − ε)/(1 + ε) times −1."""
    assert -1.0 < (1 - 0.1) / (1 + 0.1) * -1.0


def test_the_weights_of_model_1_overflow_from_nine_on() -> None:
    with np.errstate(over="ignore"):
        assert np.isfinite(np.exp(8.0**3))
        assert np.isinf(np.exp(9.0**3))
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.log(np.array([0.6, -0.8]))).any(), "points of the sphere have negative coordinates"
    assert np.exp(-2.0 * 1.0) < np.exp(-2.0 * 0.5), "exp(βx) decreases for β < 0"


def test_the_second_head_of_model_2_decreases() -> None:
    """f(x) = −exp(M) x is no reward function of the paper's Problem Main, which needs them non-decreasing."""
    with pytest.raises(InvalidInput):
        sw.Linear(-np.exp(2.0))


def test_two_heads_are_not_one_in_block_form() -> None:
    rng = np.random.default_rng(1)
    query, key, value = (rng.normal(size=(2, 4, 3)) for _ in range(3))
    two = sum(softmax(query[h] @ key[h].T) @ value[h] for h in range(2))
    one = softmax(np.hstack(query) @ np.hstack(key).T) @ (value[0] + value[1])
    assert np.abs(two - one).max() > 0.1


def test_lambda_is_nearly_always_at_least_k() -> None:
    """Standard normal scores of 50 candidates, rank 1, ε = 1/2 of rewards of at most 1, k = 10."""
    rng = np.random.default_rng(2)
    lam = [np.ceil(4 * np.ptp(rng.normal(size=50)) / 0.5) for _ in range(200)]
    assert np.mean(np.array(lam) >= 10) > 0.99


def test_a_larger_denominator_raises_a_negative_term() -> None:
    """The lemma on auxiliary problems lowers t to W'x and gains; with a negative numerator it loses."""
    assert -1.0 / 0.5 < -1.0 / 0.8


def test_values_of_disjoint_cliques_need_not_be_whole() -> None:
    """Lower bound (b): k* ≥ k' + 1 does not follow from k* > k' for values; for the number of vertices it does."""
    clique = np.repeat(np.arange(8), 18)
    adjacency = (clique[:, None] == clique) & ~np.eye(len(clique), dtype=bool)
    reduction = disjoint_cliques_catalog(adjacency, 20, dimension=6, coherence=0.3)
    instance, extra = reduction.instance(), [len(clique)]
    sets = [[*range(18 * a, 18 * a + 2), 18 * b, *extra] for a, b in combinations(range(8), 2)]
    values = np.array([instance.value(np.array(chosen)) for chosen in sets])
    fractional = np.count_nonzero(np.abs(values - np.round(values)) > 0.01)
    assert fractional > 0


def test_the_largest_g_promises_more_of_a_negative_optimum() -> None:
    rewards = [sw.Exp(1.0), sw.Linear(1.0, -10.0)]
    after = rewards[1](np.array([0.0]) - 0.5)[0]
    assert guaranteed(rewards, 0.5, 1, optimum=rewards[1](np.array([0.0]))[0]) > after


def test_as_many_columns_as_clusters_are_enough() -> None:
    rng = np.random.default_rng(3)
    cluster = np.arange(9) % 3
    logit = rng.normal(size=(3, 3))[cluster][:, cluster]
    made = joint_clusters(logit, 3)
    assert made.rank == 3 < 3 * 4 / 2
    assert made.gamma < 1e-9


def test_the_best_t_need_not_be_the_denominators() -> None:
    """Two items, one of them worthless: its t may be anything."""
    weight, score = np.full((2, 2), 0.5), np.array([1.0, 0.0])

    def best(t: np.ndarray) -> float:
        sets = [x for x in ([1, 0], [0, 1], [1, 1]) if (weight @ x <= t + 1e-12).all()]
        return max(float(x[0] * (weight[0] * score @ x) / t[0]) for x in map(np.array, sets))  # f_1(a) = a, f_2 = 0

    own = weight @ [1, 0]
    grid = [np.array(t) for t in ([0.5, 0.5], [0.5, 0.9], [0.7, 0.7], [1.0, 1.0])]
    assert max(map(best, grid)) == best(np.array([0.5, 0.9])) == best(own) == 1.0
    assert not np.array_equal(own, [0.5, 0.9])


def test_an_arbitrary_t_of_a_cell_may_exclude_its_best_solution() -> None:
    rng = np.random.default_rng(4)
    infeasible = 0
    for seed in range(100):
        problem = problem_of_rank_one(seed)
        partial = next(iter(valid_tuples(problem.d, 3, 1)))
        x = partial.fixed.copy()
        x[np.flatnonzero(partial.free)[:2]] = True
        own = problem.surrogate.weight @ x
        upper = min((t for t in denominators(problem, partial, 0.5) if (t >= own * (1 - 1e-9)).all()), key=np.sum)
        assert (upper <= 1.5 * own * (1 + 1e-9)).all()
        infeasible += bool((own > upper / rng.uniform(1, 1.5) * (1 + 1e-9)).any())
    assert infeasible > 20


def test_the_best_solution_may_miss_its_target() -> None:
    """f(x) = x, d·x* = 0.9: θ = 0.5 on a grid of step 0.5, and the last ζ below OPT = 0.9 on a grid of 0.2 is 0.8."""
    own, delta_1, delta_2 = 0.9, 0.5, 0.2
    theta, zeta = delta_1 * np.floor(own / delta_1), delta_2 * np.floor(own / delta_2)
    assert theta < zeta


def test_slack_for_small_solutions_would_prefer_a_poor_one() -> None:
    """With λ' = 1 the small solution is X alone. It reaches ζ − δ₂ but not ζ; ours goes on to the linear program."""
    problem = problem_of_rank_one(7)
    fixed = np.zeros(6, bool)
    fixed[np.argmax(problem.d[0])] = True
    partial = PartialSolution(fixed[None, :], np.zeros(6, bool))
    t, theta = np.full(6, problem.surrogate.weight.sum()), problem.d @ fixed
    phi = problem.reward((problem.surrogate.a @ theta) / t)
    zeta = float(np.sort(phi)[-3:].sum()) * 0.95
    (solution,) = AuxiliarySolver(Programs(problem), partial, 1).solutions(t, theta, np.array([zeta]))
    assert zeta - 3 * 0.5 <= phi @ fixed < 0.5 * zeta
    assert phi @ solution > phi @ fixed


def test_the_smallest_weight_makes_the_printed_bound_empty() -> None:
    """c = (1 + γ) ε / W'_min with an ε that makes λ < k: more than the range of the scores, on every instance."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        m, k = 8, 4
        made = query_clusters(0.2 * rng.normal(size=(m, m)), 2)
        sigma = np.ptp(rng.normal(size=m))
        epsilon = (2 * made.rank + 2) * sigma / (k - 1)
        assert np.ceil((2 * made.rank + 2) * sigma / epsilon * (1 - 1e-12)) < k
        assert (1 + made.gamma) * epsilon / made.weight.min() > sigma


def test_the_run_time_of_lemma_1_exceeds_a_scan() -> None:
    n, d, k, eps = 10**6, 64, 10, 0.1
    theta = eps / 4
    assert k * theta**-3 * np.log(n) ** 2 > n * d
