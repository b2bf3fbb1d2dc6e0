"""On-policy slates: exclusions, quality against an unlimited search, outcomes from the targets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_networks import ITEMS, grouped_sessions, random_network

import setwise as sw
from counts import examples
from setwise.datasets.splits import HistorySplit
from setwise.errors import InvalidInput
from setwise.model.alone import self_weight
from setwise.training.export import export_model
from setwise.training.network import Shape
from setwise.training.on_policy import CANDIDATES, on_policy_slates, optimised_slates, top_candidates
from worlds import random_catalog


def users_of(catalog: sw.Catalog, count: int, seed: int = 0) -> list[sw.User]:
    rng = np.random.default_rng(seed)
    base = None if catalog.base is None else catalog.base.shape[1]
    return [
        sw.User(rng.normal(size=catalog.value.shape[1:]), None if base is None else rng.normal(size=base))
        for _ in range(count)
    ]


@examples(25)
@given(
    st.integers(0, 10_000),
    st.integers(2, 40),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.integers(1, 6),
    st.sampled_from(["swap", "knn", "greedy"]),
)
def test_nothing_excluded_and_nothing_twice(
    seed: int, n: int, heads: int, base: bool, sink: bool, k: int, ranker: str
) -> None:
    catalog, _ = random_catalog(seed, n=n, heads=heads, base=base, sink=sink)
    rng = np.random.default_rng(seed)
    excluded = [rng.permutation(n)[: rng.integers(0, n)] for _ in range(4)]  # for some all items but one
    for rows, out in zip(
        optimised_slates(catalog, users_of(catalog, 4, seed), excluded, k, ranker), excluded, strict=True
    ):
        assert 1 <= len(rows) <= k
        assert len(set(rows)) == len(rows)
        assert not set(rows) & set(out)


def test_many_exclusions_of_one_user_do_not_affect_the_others() -> None:
    catalog, _ = random_catalog(0, n=60, heads=2, base=True, sink=True)
    users = users_of(catalog, 3)
    seen = np.arange(58)
    without = optimised_slates(catalog, users[:2], [seen[:1], seen[:2]], 5)
    together = optimised_slates(catalog, users, [seen[:1], seen[:2], seen], 5)
    for one, other in zip(without, together, strict=False):
        np.testing.assert_array_equal(one, other)
    assert set(together[2]) <= {58, 59}


def test_a_user_without_eligible_items_is_refused() -> None:
    catalog, _ = random_catalog(0, n=6)
    with pytest.raises(InvalidInput, match="users must be with one eligible item or more"):
        optimised_slates(catalog, users_of(catalog, 1), [np.arange(6)], 2)


@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("n", [40, 400])
def test_value_is_close_to_an_unlimited_search(n: int, base: bool) -> None:
    """On average at least 0.97 of the value that the swap search finds over all items with its default budget."""
    shares = []
    for seed in range(4):
        catalog, _ = random_catalog(seed, n=n, heads=2, base=base, sink=True)
        users = users_of(catalog, 3, seed)
        for user, rows in zip(users, optimised_slates(catalog, users, [np.arange(2)] * 3, 5), strict=True):
            best = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(2, n)), 5, "swap")
            shares.append(sw.set_value(catalog, user, rows) / best.value)
    assert np.mean(shares) >= 0.97


def test_fewer_items_than_candidates_are_all_searched() -> None:
    catalog, _ = random_catalog(0, n=30, base=True)
    assert CANDIDATES > 30
    excluded = [np.array([3, 7]), np.array([], np.int64)]
    one, other = top_candidates(catalog, users_of(catalog, 2), excluded, CANDIDATES)
    np.testing.assert_array_equal(one, np.setdiff1d(np.arange(30), [3, 7]))
    np.testing.assert_array_equal(other, np.arange(30))


def test_candidates_are_the_best_of_some_measure() -> None:
    catalog, _ = random_catalog(0, n=200, heads=2, base=True, sink=True)
    (user,) = users_of(catalog, 1)
    (rows,) = top_candidates(catalog, [user], [np.array([], np.int64)], 20)
    assert len(rows) == 20
    instance = sw.Instance.from_catalog(catalog, user, np.arange(200))
    for measure in (instance.base, *instance.score):
        assert np.argmax(measure) in rows
    single = [instance.value([row]) for row in range(200)]
    assert len(set(np.argsort(single)[-10:]) & set(rows)) == 10, "half of them by their value as a slate of one"


def test_more_users_than_one_batch() -> None:
    catalog, _ = random_catalog(0, n=20, base=True)
    users = users_of(catalog, 300)
    excluded = [np.array([row % 20]) for row in range(300)]
    slates = optimised_slates(catalog, users, excluded, 2, "knn")
    assert len(slates) == 300
    for row in (0, 255, 256, 299):
        np.testing.assert_array_equal(
            slates[row], optimised_slates(catalog, users[row : row + 1], excluded[row : row + 1], 2, "knn")[0]
        )
    assert optimised_slates(catalog, [], [], 2) == []


def test_self_weight_is_the_attention_of_a_slate_of_one() -> None:
    catalog, _ = random_catalog(5, heads=2, sink=True)
    weight = self_weight(catalog)
    for row in range(3):
        np.testing.assert_allclose(weight[:, row], sw.attention(catalog, [row])[:, 0, 0], rtol=1e-5)
    assert (self_weight(random_catalog(5, heads=2)[0]) == 1).all()


# --- slates with outcomes ---


@examples(15)
@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from(["swap", "knn"]))
def test_on_policy_slates_exclude_the_history_and_have_the_outcomes_of_the_targets(
    seed: int, k: int, ranker: str
) -> None:
    sessions = grouped_sessions(12, seed)
    model = export_model(random_network(Shape(dim=4, heads=1), seed), sessions.ids, {})
    for split in (HistorySplit.first(sessions, 3), HistorySplit.random(sessions, np.random.default_rng(seed), 3)):
        slates = on_policy_slates(model, split, k, ranker)
        assert len(slates) == len(sessions)
        outcomes = np.split(slates.outcome, slates.shown.offsets[1:-1])
        for seen, targets, shown, outcome in zip(split.history, split.targets, slates.shown, outcomes, strict=True):
            assert 1 <= len(shown) <= k
            assert not set(shown) & set(seen)
            np.testing.assert_array_equal(outcome, np.isin(shown, targets))
        np.testing.assert_array_equal(slates.history.values, split.history.values)


@pytest.mark.parametrize("seed", range(3))
def test_the_true_model_has_more_hits_than_a_random_one(seed: int) -> None:
    sessions = grouped_sessions(60, seed)
    network = random_network(Shape(dim=3, heads=1, base=True, sink=True, pooling="mean"), seed)
    random = export_model(network, sessions.ids, {})
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.items.correction.weight.copy_(torch.eye(3).repeat_interleave(ITEMS // 3, 0))
        for layer in (network.base, network.user_base):
            layer.weight.copy_(3 * torch.eye(3))
    true = export_model(network, sessions.ids, {})
    split = HistorySplit.first(sessions, 3)
    assert on_policy_slates(true, split, 3).outcome.mean() > on_policy_slates(random, split, 3).outcome.mean() + 0.05
