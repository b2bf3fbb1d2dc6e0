"""The Main Algorithm end to end: Theorem 1, repaired, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from proofs.main_algorithm import MainAlgorithm

import setwise as sw

pytestmark = pytest.mark.nightly

POSITIVE = (sw.Logistic(1.5, -0.5), sw.ReLU(0.5, 0.4), sw.Softplus(0.6, 0.1), sw.Exp(0.4, -0.3))  # at least 0


def catalogue(seed: int, delta: float, n: int = 14, base: bool = False, rewards=POSITIVE) -> tuple[sw.Catalog, sw.User]:
    """Items in two or three clusters of diameter δ/2 in queries, keys and base terms; the values vary freely."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(2, 4)
    cluster = rng.integers(clusters, size=n)

    def near(d: int) -> np.ndarray:
        jitter = rng.normal(size=(n, d))
        return rng.normal(size=(clusters, d))[cluster] + delta / 4 * jitter / np.linalg.norm(jitter, axis=1)[:, None]

    reward = (list(rewards), rng.integers(len(rewards), size=n))
    catalog = sw.Catalog(
        near(2), near(2), rng.normal(size=(n, 2)), reward=reward, base=near(2) if base else None, dtype=np.float64
    )
    return catalog, sw.User(rng.normal(size=(1, 2)), rng.normal(size=2) if base else None)


def everything(catalog: sw.Catalog, user: sw.User) -> sw.Instance:
    return sw.Instance.from_catalog(catalog, user, np.arange(len(catalog)))


def random_sets(instance: sw.Instance, k: int, seed: int) -> float:
    """The mean value of 200 random sets of k items."""
    rng = np.random.default_rng(seed)
    return float(np.mean([instance.value(rng.choice(instance.m, k, replace=False)) for _ in range(200)]))


def test_two_hundred_instances_meet_the_joint_guarantee() -> None:
    """One or several rewards, with and without base; the guarantee also exceeds the mean of random sets of k items."""
    informative = fewer = lossy = 0
    for seed in range(200):
        delta, k = (0.005, 0.02, 0.1, 0.5)[seed % 4], 2 + seed % 3
        catalog, user = catalogue(seed, delta, base=seed % 5 == 0, rewards=POSITIVE[: 1 + seed % 2 * (seed % 3)])
        instance = everything(catalog, user)
        best = sw.rank(instance, k, "exhaustive").value
        answer = MainAlgorithm.build(catalog, delta).recommend(user, k)
        assert answer.value == pytest.approx(sw.set_value(catalog, user, answer.indices))
        assert answer.guarantee(best) - 1e-9 <= answer.value <= best + 1e-9
        informative += answer.guarantee(best) > random_sets(instance, k, seed)
        fewer += len(answer.candidates) < len(catalog)
        lossy += answer.value < best - 1e-9
    assert informative >= 20
    assert fewer >= 100
    assert lossy >= 5


def test_the_joint_guarantee_is_both_phases_one_after_the_other() -> None:
    """By hand: Phase One's loss first, then Phase Two's bound with what is left."""
    catalog, user = catalogue(3, 0.02, rewards=POSITIVE[1:2])
    algorithm = MainAlgorithm.build(catalog, 0.02)
    answer = algorithm.recommend(user, 3)
    assert answer.retrieval_loss == pytest.approx(algorithm.cover.eps(user))
    left = 7.0 - 3 * 0.5 * answer.retrieval_loss  # h(e) = e/2 for this reward
    assert answer.guarantee(7.0) == pytest.approx(answer.ranking.guarantee(left))
    assert answer.guarantee(7.0) < answer.ranking.guarantee(7.0)


def test_candidates_are_the_k_best_of_every_cell() -> None:
    catalog, user = catalogue(1, 0.05)
    algorithm = MainAlgorithm.build(catalog, 0.05)
    score = (catalog.value[:, 0] @ user.heads[0]).astype(float)
    cells = algorithm.cover.partition.cell_of
    expected = [row for cell in np.unique(cells) for row in _best(np.flatnonzero(cells == cell), score, 2)]
    assert algorithm.candidates(user, 2).tolist() == sorted(expected)


def _best(rows: np.ndarray, score: np.ndarray, k: int) -> list[int]:
    return rows[np.argsort(-score[rows], kind="stable")][:k].tolist()


def test_linear_programs_after_a_cover() -> None:
    """λ and λ' by hand: programs run on the retrieved items, and the joint bound still holds."""
    programs = 0
    for seed in range(6):
        catalog, user = catalogue(seed, 0.02, n=12, rewards=POSITIVE[:1])
        best = sw.rank(everything(catalog, user), 4, "exhaustive").value
        answer = MainAlgorithm.build(catalog, 0.02).recommend(user, 4, lam=1, lam_prime=1, epsilon=0.4, rank_delta=9.0)
        assert answer.ranking.rank == 1
        assert answer.guarantee(best) - 1e-9 <= answer.value <= best + 1e-9
        programs += answer.ranking.programs
    assert programs > 50
