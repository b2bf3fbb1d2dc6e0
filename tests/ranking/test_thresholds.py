"""Query clusters and thresholds: what their rows mean. What the search promises is in test_paper.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.model.constraints import Constraints
from setwise.ranking.exhaustive import exhaustive
from setwise.ranking.linear_program import LinearProgram
from setwise.ranking.lp_search import CandidateSolutions, Guess
from setwise.ranking.partial_set import PartialSet
from setwise.ranking.query_clusters import QueryClusters
from setwise.ranking.thresholds import ThresholdRows, _anchors, thresholds
from worlds import REWARDS, random_catalog, random_instance

# --- query clusters ---


def test_as_many_clusters_as_items_lose_nothing() -> None:
    instance = random_instance(0, heads=2, sink=True)
    clusters = QueryClusters.of(instance, 12)
    np.testing.assert_array_equal(clusters.cluster_of, np.arange(12))
    numerator, denominator = clusters.sums(np.array([3]), np.array([1, 3, 8]))
    a = (numerator / denominator).sum() + instance.base[3]
    reward = instance.rewards[instance.reward_class[3]]
    assert reward(a) == pytest.approx(instance.rewards_of([1, 3, 8])[1], rel=1e-12)


def test_a_cluster_attends_with_its_mean_query() -> None:
    catalog, user = random_catalog(1, n=30, heads=2, sink=True)
    clusters = QueryClusters.of(sw.Instance.from_catalog(catalog, user, np.arange(30)), 5)
    assert clusters.weight.shape == (2, clusters.cluster_of.max() + 1, 30)
    for c in range(clusters.weight.shape[1]):
        query = catalog.query[clusters.cluster_of == c].mean(axis=0)
        for h in range(2):
            logit = np.append(catalog.key[:, h] @ query[h], catalog.sink.key[h] @ query[h])
            weight = np.append(clusters.weight[h, c], clusters.sink_weight[h, c])
            np.testing.assert_allclose(weight / weight.max(), np.exp(logit - logit.max()), rtol=1e-5)


def test_equal_queries_share_a_cluster_and_lose_nothing() -> None:
    rng = np.random.default_rng(2)
    query = np.repeat(rng.normal(size=(4, 3)), 5, axis=0)
    catalog = sw.Catalog(query, rng.normal(size=(20, 3)), rng.normal(size=(20, 3)), dtype=np.float64)
    instance = sw.Instance.from_catalog(catalog, rng.normal(size=3), np.arange(20))
    clusters = QueryClusters.of(instance, 4)
    assert len(np.unique(clusters.cluster_of)) == 4
    assert all(len(np.unique(group)) == 1 for group in clusters.cluster_of.reshape(4, 5))
    numerator, denominator = clusters.sums(clusters.cluster_of[[7]], np.array([0, 7, 13]))
    assert sw.Logistic()(numerator / denominator) == pytest.approx(instance.rewards_of([0, 7, 13])[1])


def test_fewer_distinct_rows_than_clusters() -> None:
    instance = sw.Instance(np.zeros((6, 6)), np.arange(6.0))
    clusters = QueryClusters.of(instance, 3)
    assert clusters.cluster_of.tolist() == [0] * 6
    assert thresholds(instance, Constraints.of(instance, 2), clusters=3).value == pytest.approx(
        exhaustive(instance, Constraints.of(instance, 2)).value
    )


def test_rows_without_any_attention() -> None:
    logit = np.full((5, 5), -np.inf)
    logit[0] = 0.0
    instance = sw.Instance(logit, [1.0, 2.0, 3.0, 4.0, 5.0], sw.Linear())
    for clusters in (2, 5):
        ranking = thresholds(instance, Constraints.of(instance, 3), clusters=clusters)
        assert ranking.value == pytest.approx(exhaustive(instance, Constraints.of(instance, 3)).value)


# --- thresholds ---


@examples(25)
@given(seed=st.integers(0, 10**6), heads=st.integers(1, 3), sink=st.booleans(), clusters=st.sampled_from([3, 100]))
def test_a_row_holds_exactly_when_the_threshold_is_reached(seed: int, heads: int, sink: bool, clusters: int) -> None:
    instance = random_instance(seed, heads=heads, sink=sink, sharpness=2.0)
    programs = ThresholdRows(instance, Constraints.of(instance, 4), clusters)
    rng = np.random.default_rng(seed)
    known = rng.choice(12, 3, replace=False)
    used = programs.clusters.used_by(known)
    rows, low = programs.rows(used, known)
    assert len(rows) == heads * len(used)
    alpha = np.divide(*programs.clusters.sums(used, known)).ravel()
    np.testing.assert_allclose(rows[:, known].sum(axis=1), low, atol=1e-9, err_msg="the known set reaches its own α")
    for _ in range(20):
        other = rng.choice(12, 4, replace=False)
        a = np.divide(*programs.clusters.sums(used, other)).ravel()
        slack = rows[:, other].sum(axis=1) - low
        clear = np.abs(a - alpha) > 1e-9
        np.testing.assert_array_equal((slack > 0)[clear], (a > alpha)[clear])


def test_a_cluster_without_weight_on_the_known_set_is_not_bounded() -> None:
    """Item 0 attends to item 3 alone, which is not known yet; item 1 attends to everything."""
    logit = np.zeros((4, 4))
    logit[0, :3] = -np.inf
    instance = sw.Instance(logit, [1.0, 3.0, 3.0, -2.0])
    programs = ThresholdRows(instance, Constraints.of(instance, 3), 100)
    rows, low = programs.rows(np.array([0, 1]), np.array([0, 1]))
    np.testing.assert_allclose(rows[1], [-1.0, 1.0, 1.0, -4.0])
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(low, [-np.inf, 0.0], atol=1e-12)


def test_fractional_entries_of_one_head(monkeypatch) -> None:
    """At most r + 1: a row for each of r clusters in use, and Σx ≤ k."""
    seen = []
    original = LinearProgram.maximise

    def recorded(self, objective, *, rows, **others):
        vertex = original(self, objective, rows=rows, **others)
        if vertex is not None:
            seen.append((len(vertex.fractional), len(rows)))
        return vertex

    monkeypatch.setattr(LinearProgram, "maximise", recorded)
    for seed, sharpness in enumerate((0.5, 2.0, 6.0)):
        instance = random_instance(seed, n=80, sharpness=sharpness)
        thresholds(instance, Constraints.of(instance, 6), clusters=10)
    assert len(seen) > 100
    assert all(fractional <= rows for fractional, rows in seen)
    assert max(rows for _, rows in seen) <= 6 + 1, "no more clusters in use than items"
    assert any(fractional > 0 for fractional, _ in seen)


def test_an_auxiliary_problem_knows_the_best_set_from_its_thresholds() -> None:
    """With α of the best set and a row for each item, the program's optimum is worth as much as the best set."""
    instance = random_instance(7, n=14, sharpness=3.0)
    constraints = Constraints.of(instance, 4)
    best = exhaustive(instance, constraints)
    known = PartialSet.from_pinned(instance, constraints)
    for c in best.indices:
        known = known.add(c)
    programs = ThresholdRows(instance, constraints, 100)
    assert programs.objective(known)[best.indices].sum() == pytest.approx(best.value)
    pool = CandidateSolutions(instance, constraints, 10)
    rounded = programs.round_vertex(known, best.indices, np.zeros(0, np.intp))
    assert pool.add(pool.partial_set(rounded, np.zeros(0, np.intp))).value == pytest.approx(best.value)


def test_anchors_come_in_order_of_promise() -> None:
    """One item that all others attend to and a user loves: it is the first anchor, though it earns nothing itself."""
    logit = np.zeros((8, 8))
    logit[:, 2] = 5.0
    rewards = [sw.Logistic(1.0, -2.0), sw.Constant(0.0)]
    classes = (np.arange(8) == 2).astype(np.int64)
    instance = sw.Instance(logit, [0.0, 1.0, 9.0, 0.5, 0.0, 1.0, 2.0, 1.0], (rewards, classes))
    constraints = Constraints.of(instance, 4)
    first, filled, linearised, *_ = _anchors(CandidateSolutions(instance, constraints, 100))
    assert len(first.known) == 0
    assert filled == Guess(filled.known)
    assert filled.known.tolist() == linearised.known.tolist() == [2]
    assert linearised.linear
    assert 2 in thresholds(instance, constraints, solutions=5).indices


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_anchors_is_that_of_the_estimate(seed: int) -> None:
    """The reward alone and the k − 1 largest positive rewards beside the anchor, all by the reference objective."""
    instance = random_instance(
        seed, n=10, heads=1 + seed % 2, base=seed % 3 == 0, sink=seed % 2 == 0, sharpness=2.0, rewards=REWARDS
    )
    constraints = Constraints.of(instance, 1 + seed % 4, exclude=[2, 5])
    estimates = {}
    for t in set(range(10)) - {2, 5}:
        beside = [instance.rewards_of([t, i])[1] for i in range(10) if i not in (2, 5, t)]
        partners = sorted((max(reward, 0.0) for reward in beside), reverse=True)[: constraints.k - 1]
        estimates[t] = instance.value([t]) + sum(partners)
    _, *guesses = _anchors(CandidateSolutions(instance, constraints, 100))
    assert [guess.known.tolist() for guess in guesses[::2]] == [guess.known.tolist() for guess in guesses[1::2]]
    order = [estimates[guess.known[0]] for guess in guesses[::2]]
    assert len(order) == 8
    assert (np.diff(order) <= 1e-9).all()


def test_anchors_join_the_pinned_items() -> None:
    instance = random_instance(1, n=5)
    guesses = list(_anchors(CandidateSolutions(instance, Constraints.of(instance, 2, include=[3]), 100)))
    assert sorted(guess.known.tolist() for guess in guesses[1::2]) == [[3, 0], [3, 1], [3, 2], [3, 4]]
    assert all(guess.fixed for guess in guesses[2::2])
    full = Constraints.of(instance, 2, include=[3, 4])
    assert [guess.known.tolist() for guess in _anchors(CandidateSolutions(instance, full, 100))] == [[3, 4]]


@pytest.mark.parametrize("k", [1, 2])
def test_anchors_of_rewards_beyond_the_doubles(k: int) -> None:
    """A reward of −∞ alone is last, also where a partner of +∞ makes the estimate undefined."""
    rewards = ([sw.Exp(), sw.Exp(-1.0), sw.Linear()], [0, 1, 2])
    instance = sw.Instance.from_weights(np.eye(3), [900.0, -900.0, 1.0], reward=rewards)
    _, *guesses = _anchors(CandidateSolutions(instance, Constraints.of(instance, k), 100))
    assert [guess.known.tolist() for guess in guesses[::2]] == [[0], [2], [1]]


def test_capacities_are_found_by_the_rows() -> None:
    """In a knapsack the thresholds of the pinned items are the capacities: linear programs find what greedy cannot."""
    from setwise.hardness import Knapsack, knapsack_catalog

    rng = np.random.default_rng(0)
    weight = rng.integers(1, 50, (2, 12))
    profit = weight.mean(axis=0).round() + rng.integers(1, 20, 12)
    problem = Knapsack(profit, weight, weight.sum(axis=1) // 2)
    reduction = knapsack_catalog(problem)
    instance = reduction.instance()
    constraints = Constraints.of(instance, reduction.k, include=reduction.pinned)
    choices = ((np.arange(1 << 12)[:, None] >> np.arange(12)) & 1).astype(bool)
    optimum = max(problem.value(z) for z in choices[(choices @ weight.T <= problem.capacity).all(axis=1)])
    assert thresholds(instance, constraints).value >= 0.98 * optimum
