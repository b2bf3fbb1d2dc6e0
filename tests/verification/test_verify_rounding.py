"""Huge logits and steep rewards: rounding decides values there, so nothing is proven."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import whole_catalog_bound
from setwise.model.added_scores import AddedScores
from setwise.recommend.slate import proves
from setwise.verification.rounding import largest_logits, rounding_error
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog

pytestmark = pytest.mark.promise("bounds")

SIZES = (1.0, 80.0, 1e4, 1e6, 1e9, 1e12, 1e15, 1e30)
STEEP = (
    sw.PiecewiseLinear((-1.0, 0.0, 1e-6, 2.0), (-0.5, 0.0, 1000.0, 1000.2)),
    sw.PiecewiseLinear((-1.0, 0.0, 1e-3, 2.0), (-0.5, 0.0, 50.0, 50.2)),
)


def drawn(seed: int, n: int) -> tuple[sw.Catalog, sw.User]:
    """A catalogue of n items with logits of any size; some rewards are steep."""
    rng = np.random.default_rng(seed)
    rewards = STEEP[seed % 2 :][:1] if rng.random() < 0.4 else [REWARDS[i] for i in rng.permutation(len(REWARDS))[:2]]
    shape = {"n": n, "heads": int(rng.integers(1, 3)), "d": int(rng.integers(1, 4)), "sink": bool(rng.random() < 0.3)}
    return random_catalog(seed, **shape, sharpness=float(rng.choice(SIZES)), rewards=rewards, dtype=np.float64)


def exact_arguments(catalog: sw.Catalog, user: sw.User, rows: list[int]) -> list[float]:
    """The averages in extended precision, from products of double precision that are added exactly enough."""
    wide, result = np.longdouble, []
    for i in rows:
        total = wide(0)
        for h in range(catalog.heads):
            logit = [(catalog.query[i, h].astype(wide) * catalog.key[j, h].astype(wide)).sum() for j in rows]
            score = [(catalog.value[j, h].astype(wide) * user.heads[h].astype(wide)).sum() for j in rows]
            if catalog.sink is not None:
                logit.append((catalog.query[i, h].astype(wide) * catalog.sink.key[h].astype(wide)).sum())
                score.append((catalog.sink.value[h].astype(wide) * user.heads[h].astype(wide)).sum())
            weight = np.exp(np.array(logit) - max(logit))
            total += (weight * np.array(score)).sum() / weight.sum()
        result.append(float(total))
    return result


def test_no_value_is_further_from_extended_precision(count) -> None:
    """And the estimate is small at ordinary logits, unless a reward is steep."""
    for seed in range(count(3000, 150)):
        catalog, user = drawn(seed, 4)
        rows = [0, 1, 3]
        value = sw.set_value(catalog, user, rows)
        arguments = exact_arguments(catalog, user, rows)
        rewards = [float(catalog.rewards[c](a)) for c, a in zip(catalog.reward_class[rows], arguments, strict=True)]
        size = float(np.abs(rewards).sum())
        error = rounding_error(catalog, user, 3, size)
        assert abs(value - sum(rewards)) <= error + 1e-12 * (1 + size), seed
        assert largest_logits(catalog).max() > 100 or catalog.rewards[0] in STEEP or error < 1e-6


def test_a_proof_is_never_wrong(count) -> None:
    """The set of a proof has the largest value of all, however large logits are and however steep rewards."""
    proven = 0
    for seed in range(count(20_000, 150)):
        rng = np.random.default_rng([seed, 1])
        n, k = int(rng.integers(3, 8)), int(rng.integers(2, 5))
        catalog, user = drawn(seed, n)
        optimum = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(n)), k, "exhaustive").value
        found = whole_catalog_bound(CellBounds.build(catalog, cells=3, seed=seed), user, k, budget_ms=1e5)
        assert found.upper_bound >= optimum, seed
        if found.proven:
            proven += 1
            assert found.value == pytest.approx(optimum, rel=1e-6, abs=1e-6), seed
    assert proven


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1e-3, 1.0])
def test_logits_hundreds_apart(scale: float) -> None:
    """A member whose own logit is 3,000 below another: weights beyond e^300 were clipped on both sides of a ratio."""
    drawn_catalog, user = drawn(1038, 6)
    query = scale * drawn_catalog.query
    catalog = sw.Catalog(query, drawn_catalog.key, drawn_catalog.value, drawn_catalog.rewards[0], dtype=np.float64)
    optimum = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(6)), 4, "exhaustive").value
    found = whole_catalog_bound(CellBounds.build(catalog, cells=3, seed=1038), user, 4, budget_ms=1e5)
    assert found.upper_bound >= optimum
    assert not found.proven or found.value == pytest.approx(optimum, rel=1e-9)


@pytest.mark.parametrize(("sharpness", "ok"), [(1.0, True), (1e3, True), (1e12, False), (1e15, False)])
def test_verify_says_where_rounding_decides(tmp_path: Path, sharpness: float, ok: bool) -> None:
    catalog, user = random_catalog(1, n=6, sharpness=sharpness, dtype=np.float64)
    slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, k=3)
    slate.save(tmp_path / "slate.json")
    check = verify(tmp_path / "slate.json", catalog, user).checks[-1]
    assert check.name == "bound"
    assert check.ok is ok
    assert ok or "inner products of queries and keys up to" in check.sentence


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_tiny_rewards_excuse_no_rounding(tmp_path: Path, scale: float) -> None:
    """What counts is the change beside the rewards, whatever their unit."""
    for sharpness, ok in ((1.0, True), (1e15, False)):
        catalog, user = random_catalog(1, n=6, sharpness=sharpness, rewards=[sw.Linear(scale)], dtype=np.float64)
        slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, k=3)
        slate.save(tmp_path / "slate.json")
        assert verify(tmp_path / "slate.json", catalog, user).checks[-1].ok is ok


def test_a_bound_of_zero_is_proven(tmp_path: Path) -> None:
    """All rewards are 0, so rounding is compared with what attention can change."""
    catalog, user = random_catalog(2, n=6, rewards=[sw.ReLU(1.0, -1000.0)], dtype=np.float64)
    slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, k=3)
    assert (slate.value, slate.upper_bound) == (0.0, 0.0)
    slate.save(tmp_path / "slate.json")
    assert verify(tmp_path / "slate.json", catalog, user).ok


@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0])
def test_rewards_of_zero_at_a_bend_are_proven(tmp_path: Path, size: float) -> None:
    """Opposite scores cancel where the reward bends, so that rounding alone is above it."""
    bend = sw.PiecewiseLinear((-1.0, 0.0, 0.5), (-0.5, 0.0, 1.0))
    value = np.array([[[1.0]], [[-1.0]]])
    catalog = sw.Catalog(np.zeros((2, 1, 1)), np.zeros((2, 1, 1)), value, bend, dtype=np.float64)
    user = sw.User([[size]])
    user = user.with_scores(AddedScores.dense([-size, -size]))
    found = whole_catalog_bound(CellBounds.build(catalog, cells=2), user, 1, budget_ms=1e5)
    assert found.value == 0
    assert found.proven
    assert found.gap == 0
    slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, k=1)
    assert slate.value == 0
    assert slate.proven
    for bound, ok in ((slate.upper_bound, True), (1e-9 * size, True), (1e-7 * size + 1e-100, False)):
        replace(slate, upper_bound=bound, proven=True).save(tmp_path / "slate.json")
        checks = {check.name: check.ok for check in verify(tmp_path / "slate.json", catalog, user).checks}
        assert checks["proven"] is ok
    assert proves(slate.query, slate.indices, slate.rewards, 1e-9 * size)
    assert not proves(slate.query, slate.indices, slate.rewards, 1e-7 * size + 1e-100)


def table_of_pairs(
    seed: int, sink_logit: float, reward: sw.Linear | sw.Logistic | sw.Exp
) -> tuple[sw.Catalog, sw.User]:
    """As models of pairs are: scores of e^sink_logit, behind weights that a sink holds down.

    In the last head it is the other way round, as a constant is: a sink with such a score, of a weight as small.
    """
    rng = np.random.default_rng(seed)
    n, heads = 7, int(rng.integers(1, 3))
    own = rng.normal(size=(n, heads, n)) * rng.choice([0.0, 1.0])
    logit, hidden = np.full((n, heads, 1), sink_logit), np.zeros((heads, 1))
    if seed % 3:
        logit[:, -1], own[:, -1], hidden[-1] = -sink_logit, own[:, -1] * rng.choice([0.0, 1.0]), np.exp(sink_logit)
    query = np.concatenate([own, logit], axis=2)
    key = np.concatenate([np.tile(np.eye(n)[:, None], (1, heads, 1)), np.zeros((n, heads, 1))], axis=2)
    sink = sw.Sink(np.tile(np.eye(n + 1)[-1], (heads, 1)), rng.normal(size=(heads, 1)) * hidden)
    value = rng.normal(size=(n, heads, 1)) * np.exp(np.abs(sink_logit) * (hidden == 0))
    return sw.Catalog(query, key, value, reward, sink=sink, dtype=np.float64), sw.User(rng.normal(size=(heads, 1)))


@pytest.mark.parametrize("reward", [sw.Linear(), sw.Logistic(bias=-1.0), sw.Exp(scale=0.3)])
def test_bounds_of_models_of_pairs_are_proven_and_no_others(
    tmp_path: Path, reward: sw.Linear | sw.Logistic | sw.Exp, count
) -> None:
    """The slate of the tutorial was rejected: rounding was said to change its value by 3.1 of 7.7."""
    file = tmp_path / "slate.json"
    for seed in range(count(200, 12)):
        catalog, user = table_of_pairs(seed, (10.0, 20.0, 28.0, 34.0)[seed % 4], reward)
        rows = [0, 2, 5]
        value, arguments = sw.set_value(catalog, user, rows), exact_arguments(catalog, user, rows)
        rewards = [float(reward(a)) for a in arguments]
        error = rounding_error(catalog, user, 3, float(np.abs(rewards).sum()))
        assert abs(value - sum(rewards)) <= error + 1e-12 * np.abs(rewards).sum(), seed
        recommender = sw.Recommender(sw.Index.build(catalog, cells=2))
        slate = recommender.recommend(user, k=3, budget_ms=1000)
        slate.save(file)
        assert verify(file, catalog, user).ok, seed
        worse = recommender.recommend(user, k=3, ranker="top-k", certify=False)
        for less in (1e-2, 1e-5, 1e-7):
            bound = max(worse.value, slate.value - less * abs(slate.value))
            if bound < slate.value:
                replace(worse, upper_bound=bound).save(file)
                assert not verify(file, catalog, user).ok, (seed, less)


def cancelling(seed: int, size: float, where: str) -> tuple[sw.Catalog, sw.User]:
    """Six items with equal weights, whose arguments are small sums of terms of the given size."""
    rng = np.random.default_rng(seed)
    flat, value, base = np.zeros((6, 2, 1)), rng.uniform(0.5, 2.0, (6, 2, 1)), rng.uniform(0.5, 2.0, (6, 3))
    added, reward = rng.uniform(0.5, 2.0, 6), sw.Linear()
    if where == "heads":
        value += np.array([[size], [-size]])
    elif where == "base":
        base[:, 0] += size
        base[:, 2] -= size
    elif where == "scores":
        value[:, 0] += size
        added -= size
    else:
        added += size
        reward = sw.Linear(bias=-size)
    catalog = sw.Catalog(flat, flat, value, reward, base=base, dtype=np.float64)
    return catalog, sw.User([[1.0], [1.0]], base=[1.0, 1.0, 1.0], scores=added)


def exact_value(catalog: sw.Catalog, user: sw.User, rows: list[int]) -> Fraction:
    """The value of a set with equal weights and linear rewards, in rational numbers."""
    assert user.base is not None
    assert user.scores is not None
    reward = catalog.rewards[0]
    assert isinstance(reward, sw.Linear)
    exact = np.vectorize(Fraction, otypes=[object])
    average = exact(catalog.value[rows]).sum() / len(rows)
    own = exact(catalog.base[rows]).sum() + exact(user.scores.of(np.array(rows))).sum()
    return Fraction(own + len(rows) * (average + Fraction(reward.bias)))


@pytest.mark.parametrize("where", ["heads", "base", "scores", "bias"])
@pytest.mark.parametrize(("size", "ok"), [(1.0, True), (1e4, True), (1e12, False), (1e14, False)])
def test_terms_that_cancel_leave_their_rounding(tmp_path: Path, where: str, size: float, ok: bool, count) -> None:
    """Bounds of such catalogues were accepted, though the values themselves were wrong by a part in 10,000."""
    for seed in range(count(100, 5)):
        catalog, user = cancelling(seed, size, where)
        rows = [0, 2, 5]
        error = rounding_error(catalog, user, 3, abs(sw.set_value(catalog, user, rows)))
        assert abs(Fraction(sw.set_value(catalog, user, rows)) - exact_value(catalog, user, rows)) <= error, seed
        slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, k=3)
        slate.save(tmp_path / "slate.json")
        check = verify(tmp_path / "slate.json", catalog, user).checks[-1]
        assert check.ok is ok, (seed, check.sentence)
        assert ok or "rounding may change it by" in check.sentence


@pytest.mark.parametrize("reward", [sw.Linear(), sw.Logistic()])
def test_added_scores_that_exclude_items_are_no_rounding(tmp_path: Path, reward: sw.Linear | sw.Logistic) -> None:
    """Nothing cancels with them, so that bounds are proven, whether such items may still be attended to or not."""
    catalog, user = random_catalog(3, n=8, rewards=[reward], dtype=np.float64)
    user = user.with_scores(AddedScores.dense([0.0, -1e12] * 4))
    slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, k=3)
    slate.save(tmp_path / "slate.json")
    assert verify(tmp_path / "slate.json", catalog, user).ok


@pytest.mark.parametrize("reward", [sw.Logistic(bias=-30.0), sw.Softplus(bias=-30.0)])
def test_tiny_probabilities_are_proven(tmp_path: Path, reward: sw.Logistic | sw.Softplus) -> None:
    """Rounding changes them by a part in 10^14, not by 10^-14."""
    catalog, user = random_catalog(4, n=8, rewards=[reward], dtype=np.float64)
    slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, k=3)
    assert slate.value < 1e-10
    slate.save(tmp_path / "slate.json")
    assert verify(tmp_path / "slate.json", catalog, user).ok
    replace(slate, upper_bound=slate.value * (1 - 1e-7), proven=False).save(tmp_path / "slate.json")
    assert not verify(tmp_path / "slate.json", catalog, user).ok


@pytest.mark.parametrize("reward", [sw.Logistic(scale=1000.0), sw.Softplus(scale=1000.0), sw.Exp(scale=1000.0)])
def test_rewards_that_underflow_excuse_no_rounding(tmp_path: Path, reward: sw.Logistic | sw.Softplus | sw.Exp) -> None:
    """A forged bound of 0 above a set whose rewards are 0, where rounding of huge logits decides about all others."""
    catalog, user = random_catalog(5, n=8, sharpness=1e15, rewards=[reward], dtype=np.float64)
    user = user.with_scores(AddedScores.dense([-1000.0] * 8))
    slate = sw.Recommender(sw.Index.build(catalog, cells=2)).recommend(user, k=3, certify=False)
    assert slate.value == 0
    replace(slate, upper_bound=0.0).save(tmp_path / "slate.json")
    assert not verify(tmp_path / "slate.json", catalog, user).checks[-1].ok
    assert rounding_error(catalog, user, 3, 0.0) > 0
