"""Catalogues without attention: the answer is exact, proven, and the same as by brute force."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.recommend import independent

N, D = 40, 3


def catalog(reward, seed: int = 0, n: int = N) -> sw.Catalog:
    rng = np.random.default_rng(seed)
    zeros = np.zeros((n, 2))
    return sw.Catalog(
        rng.normal(size=(n, 2)), rng.normal(size=(n, 2)), zeros, reward=reward, base=rng.normal(size=(n, D))
    )


def recommender(one: sw.Catalog, **options) -> sw.Recommender:
    return sw.Recommender(sw.Index.build(one, cells=4, progress=False), **options)


REWARDS = {
    "one": sw.Logistic(2.0, -1.0),
    "constant": sw.Logistic(0.0, 0.3),
    "several": ([sw.Logistic(), sw.Linear(0.5), sw.Exp()], np.arange(N) % 3),
    "none positive": sw.Linear(1.0, -50.0),
}


@pytest.mark.parametrize("screened", [False, True])
@pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize("with_scores", [False, True])
def test_the_best_set_is_proven(reward, screened: bool, with_scores: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(independent, "SCREENED_FROM", 0 if screened else 10**9)
    one, rng = catalog(reward), np.random.default_rng(1)
    user = sw.User(rng.normal(size=(1, 2)), rng.normal(size=D), rng.normal(size=N) if with_scores else None)
    excluded = [3, 7, 9]
    slate = recommender(one).recommend(user, k=4, exclude=excluded)
    single = np.array([sw.set_value(one, user, [row]) for row in range(N)])
    single[excluded] = -np.inf
    best = np.sort(single)[::-1][:4]
    wanted = best[best > 0].sum() if (best > 0).any() else best[0]
    assert slate.value == pytest.approx(wanted, rel=1e-12)
    assert slate.proven
    assert slate.upper_bound == slate.value


def test_users_without_head_vectors_do_not_interact_either() -> None:
    rng = np.random.default_rng(2)
    one = sw.Catalog(*rng.normal(size=(3, N, 2)), base=rng.normal(size=(N, D)))
    user = sw.User(np.zeros((1, 2)), rng.normal(size=D))
    slate = recommender(one).recommend(user, k=5)
    assert slate.proven
    assert set(slate.indices) == set(np.argsort(-(one.base.astype(float) @ user.base))[:5])


@pytest.mark.parametrize("limits", [{"include": [0]}, {"ranker": "greedy"}])
def test_other_queries_take_the_general_way_to_the_same_value(limits) -> None:
    one, user = catalog(sw.Logistic()), sw.User(np.ones((1, 2)), np.ones(D))
    made = recommender(one)
    general, exact = made.recommend(user, k=4, **limits), made.recommend(user, k=4)
    assert general.value <= exact.value + 1e-12
    if "include" not in limits:
        assert general.value == pytest.approx(exact.value)


def test_many_at_once_and_without_a_bound() -> None:
    one = catalog(sw.Logistic())
    users = [sw.User(np.ones((1, 2)), base) for base in np.random.default_rng(3).normal(size=(5, D))]
    made = recommender(one)
    for user, slate in zip(users, made.recommend_many(users, k=3), strict=True):
        np.testing.assert_array_equal(slate.indices, made.recommend(user, k=3).indices)
    free = made.recommend(users[0], k=3, certify=False)
    assert free.upper_bound == np.inf
    assert not free.proven
    assert set(made.recommend(users[0], k=3).timings) == {"retrieve", "rank", "certify"}


def test_a_batch_of_users_with_and_without_head_vectors() -> None:
    rng = np.random.default_rng(4)
    made = recommender(sw.Catalog(*rng.normal(size=(3, N, 2)), base=rng.normal(size=(N, D))))
    heads = [np.zeros((1, 2)), np.ones((1, 2)), np.zeros((1, 2)), -np.ones((1, 2))]
    users = [sw.User(each, base) for each, base in zip(heads, rng.normal(size=(4, D)), strict=True)]
    for user, slate in zip(users, made.recommend_many(users, k=3), strict=True):
        np.testing.assert_array_equal(slate.indices, made.recommend(user, k=3).indices)


@pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize("sink", [False, True])
def test_a_slate_of_one_is_exact(reward, sink: bool) -> None:
    """No item has company, so the largest reward alone is the best, with attention and a sink too."""
    rng = np.random.default_rng(3)
    parts = {"sink": sw.Sink(rng.normal(size=(2, 2)), rng.normal(size=(2, 2)))} if sink else {}
    one = sw.Catalog(*rng.normal(size=(3, N, 2, 2)), reward=reward, base=rng.normal(size=(N, D)), **parts)
    user = sw.User(rng.normal(size=(2, 2)), rng.normal(size=D))
    slate = recommender(one).recommend(user, k=1, exclude=[5])
    single = [sw.set_value(one, user, [row]) for row in range(N) if row != 5]
    assert slate.value == pytest.approx(max(single), rel=1e-12)
    assert slate.proven
    assert "certify" in slate.timings


@pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize(
    "options", [{"at_most": {"kind": 1}}, {"include": [2, 5]}, {"include": [2], "at_most": {"kind": 2}}]
)
def test_limits_of_one_attribute_and_pinned_items(reward, options) -> None:
    """The greedy set is the optimum of exhaustive search over the feasible sets."""
    small = 9
    for seed in range(6):
        rng = np.random.default_rng(seed)
        kind = np.where(rng.random(small) < 0.2, np.nan, rng.integers(0, 3, small))
        chosen = (reward[0], reward[1][:small]) if isinstance(reward, tuple) else reward
        one = sw.Catalog(
            *rng.normal(size=(2, small, 2)), np.zeros((small, 2)), chosen, base=rng.normal(size=(small, D)),
            attributes={"kind": kind},
        )  # fmt: skip
        user = sw.User(rng.normal(size=(1, 2)), rng.normal(size=D))
        slate = recommender(one).recommend(user, k=4, **options)
        labels = np.where(np.isnan(kind), -1, np.nan_to_num(kind)).astype(int)
        instance = sw.Instance.from_catalog(one, user, np.arange(small))
        instance = sw.Instance(instance.logit, instance.score, chosen, instance.base, groups={"kind": labels})
        best = sw.rank(instance, 4, "exhaustive", **options)
        assert slate.proven
        assert slate.value == pytest.approx(best.value, rel=1e-9)


def test_limits_of_two_attributes_are_searched() -> None:
    rng = np.random.default_rng(3)
    kinds = {"kind": rng.integers(0, 5, N), "year": rng.integers(0, 5, N)}
    one = sw.Catalog(*rng.normal(size=(2, N, 2)), np.zeros((N, 2)), base=rng.normal(size=(N, D)), attributes=kinds)
    slate = recommender(one).recommend(sw.User(np.ones((1, 2)), np.ones(D)), k=4, at_most={"kind": 1, "year": 1})
    assert all(len(set(kinds[name][slate.indices])) == len(slate.indices) for name in kinds)
