"""Exact: optimal when it says so, and honest when it stops."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.constraints import Constraints
from setwise.ranking.exact import exact
from small_instances import small_instance
from worlds import random_instance


def asked(instance: sw.Instance, k: int, exclude=(), include=(), at_most=None, **options) -> sw.Ranking:
    return exact(instance, Constraints.of(instance, k, exclude, include, at_most=at_most), **options)


def test_equals_exhaustive_search(count) -> None:
    rng = np.random.default_rng(3)
    for number in range(count(1_000)):
        instance, k, options = small_instance(rng, most=11)
        best = sw.rank(instance, k, "exhaustive", **options)
        found = asked(instance, k, **options)
        assert found.proven, number
        assert found.value == pytest.approx(best.value, rel=1e-9, abs=1e-12)
        within = 1e-9 * np.abs(instance.rewards_of(found.indices)).sum() + 1e-12
        assert best.value <= found.upper_bound <= found.value + within


def test_random_instances_are_proven(count) -> None:
    """Gaussian catalogues, one head, m = 100, k = 5: median at most 1,000 nodes, all within 20,000."""
    nodes = []
    for seed in range(count(200)):
        instance = random_instance(seed, n=100, d=8)
        found = asked(instance, 5, nodes=20_000)
        assert found.proven, seed
        assert found.value >= sw.rank(instance, 5, "swap").value * (1 - 1e-9)
        nodes.append(found.evaluations)
    assert np.median(nodes) <= 1_000


def test_trained_instances_are_proven(count, shared_data) -> None:
    """Held-out users of a trained one-head catalogue, 40 cells × k candidates, k = 5."""
    arrays = np.load(shared_data / "catalogs" / "playlists_one_head.npz")
    reward = sw.Logistic(float(arrays["scale"]), float(arrays["bias"]))
    catalog = sw.Catalog(arrays["query"], arrays["key"], arrays["value"], reward)
    index = sw.Index.build(catalog, cells=40)
    nodes = []
    for user, history in list(zip(arrays["user_heads"], arrays["history"], strict=True))[: count(100)]:
        candidates = index.candidates(user, per_cell=5, exclude=np.unique(history))
        found = asked(sw.Instance.from_catalog(catalog, user, candidates), 5, nodes=20_000)
        assert found.proven
        nodes.append(found.evaluations)
    assert np.median(nodes) <= 700


def test_a_bad_start_changes_nodes_not_the_answer() -> None:
    """Different seeds start from different sets and prove the same value."""
    instance = random_instance(7, n=80, heads=2, sharpness=3.0)
    found = [asked(instance, 6, seed=seed) for seed in range(3)]
    assert all(each.proven for each in found)
    np.testing.assert_allclose([each.value for each in found], found[0].value, rtol=1e-9)


def test_limits_leave_a_bound_that_holds() -> None:
    instance = random_instance(8, n=60, heads=4, sharpness=3.0)
    best = asked(instance, 5)
    assert best.proven
    few = asked(instance, 5, nodes=5)
    assert few.evaluations <= 5
    assert not few.proven
    for each in (
        few,
        asked(instance, 5, budget_ms=0.01),
        asked(instance, 5, budget_ms=5.0),
        asked(instance, 8, open_nodes=1),
    ):
        assert each.value <= each.upper_bound
        assert best.value <= each.upper_bound
    gaps = [asked(instance, 5, nodes=nodes).upper_bound for nodes in (1, 10, 100)]
    assert gaps == sorted(gaps, reverse=True)


def test_a_generous_budget_ends_with_the_proof() -> None:
    instance = random_instance(9, n=50)
    found = asked(instance, 4, budget_ms=60_000.0)
    assert found.proven
    assert found.value == pytest.approx(asked(instance, 4).value, rel=1e-9)


def test_everything_pinned() -> None:
    instance = random_instance(10)
    found = asked(instance, 3, include=[4, 7, 2])
    assert found.proven
    assert sorted(found.indices.tolist()) == [2, 4, 7]


def test_worthless_items() -> None:
    """Dead rewards: every set is worth 0, which is proven at once."""
    found = asked(random_instance(11, n=40, rewards=[sw.ReLU(1.0, -50.0)]), 5)
    assert found.proven
    assert found.value == found.upper_bound == 0.0


def test_values_that_cancel() -> None:
    """Linear rewards around 0: the tolerance is relative to Σ|f_i|, not to their sum."""
    instance = sw.Instance(np.eye(6) * 30.0, [3.0, -1.0, -1.0, -1.0, -1.0, -1.0], sw.Linear())
    found = asked(instance, 4, include=[1, 2, 3])
    assert found.proven
    assert found.value == pytest.approx(sw.rank(instance, 4, "exhaustive", include=[1, 2, 3]).value, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nodes": 0}, "nodes must be a whole number of at least 1, got 0; pass 1 or more."),
        ({"budget_ms": 0}, "budget_ms must be above 0, got 0.0; pass milliseconds, or leave it out."),
        ({"budget_ms": float("nan")}, None),
        ({"open_nodes": 1.5}, "open_nodes must be a whole number of at least 1, got 1.5; pass an int."),
        ({"seed": -1}, None),
    ],
)
def test_invalid_arguments(options, sentence) -> None:
    with pytest.raises(InvalidInput) as caught:
        asked(random_instance(0), 3, **options)
    assert sentence is None or str(caught.value) == sentence
