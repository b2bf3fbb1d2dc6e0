"""Surrogates W' = A Bᵀ: γ as measured holds for every entry, and is what the theory says where it says something."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proofs.nonnegative_rank import (
    SURROGATES,
    query_clusters,
    row_stochastic,
)

from counts import examples

every_surrogate = pytest.mark.parametrize("name", sorted(SURROGATES))


def random_logits(seed: int, m: int = 9, d: int = 2, sharpness: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return sharpness * rng.normal(size=(m, d)), rng.normal(size=(m, d))


@every_surrogate
@examples(30)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 12),
    rank=st.integers(1, 5),
    sharpness=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_gamma_bounds_every_entry(name: str, seed: int, m: int, rank: int, sharpness: float) -> None:
    query, key = random_logits(seed, m, sharpness=sharpness)
    logit = query @ key.T + np.random.default_rng(seed).normal(size=(m, 1))
    surrogate, weight = SURROGATES[name](logit, rank), row_stochastic(logit)
    np.testing.assert_allclose(weight.sum(axis=1), 1.0)
    ratio = weight / surrogate.weight
    assert (np.abs(ratio - 1) <= surrogate.gamma).all()
    assert surrogate.gamma < 1 + 1e-12
    assert surrogate.rank <= min(rank, m)
    assert (surrogate.a >= 0).all()
    assert (surrogate.b >= 0).all()
    # Observation "scale", with 1/(1 − γ) where the paper has 1 + γ
    np.testing.assert_allclose(surrogate.b.sum(axis=0), 1.0)
    np.testing.assert_allclose(surrogate.a.sum(axis=1), surrogate.weight.sum(axis=1))
    assert surrogate.a.sum(axis=1).max() * (1 - surrogate.gamma) <= 1 + 1e-9 or surrogate.gamma > 0.999


def test_row_sums_exceed_one_plus_gamma() -> None:
    """1 − γ ≤ W/W' bounds W' by W/(1 − γ): the paper's 1 + γ is too small, and not by rounding."""
    beyond = 0
    for seed in range(20):
        query, key = random_logits(seed)
        surrogate = query_clusters(query @ key.T, 2)
        beyond += surrogate.a.sum(axis=1).max() > 1 + surrogate.gamma + 0.1
    assert beyond > 0


def test_true_clusters_are_found() -> None:
    """Rows that are copies of three, up to a constant each, in any order."""
    rng = np.random.default_rng(5)
    logit = rng.normal(size=(3, 12))[rng.permutation(np.arange(12) % 3)] + rng.normal(size=(12, 1))
    assert query_clusters(logit, 3).gamma < 1e-12
    assert query_clusters(logit, 2).gamma > 0.1
    assert query_clusters(logit, 12).rank == 3


@examples(50)
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 6), sharpness=st.floats(0.01, 1.0))
def test_query_clusters_obey_the_bound_of_queries_and_keys(seed: int, rank: int, sharpness: float) -> None:
    """γ ≤ tanh(δ_q ‖K‖) ≤ exp(δ_q ‖K‖) − 1, δ_q being the radius of the clusters in query space."""
    query, key = random_logits(seed, m=12, d=3, sharpness=sharpness)
    surrogate = query_clusters(query @ key.T, rank)
    labels = surrogate.a.argmax(axis=1)
    radius = max(
        np.linalg.norm(query[labels == label] - query[labels == label].mean(axis=0), axis=1).max()
        for label in np.unique(labels)
    )
    reach = radius * np.linalg.norm(key, axis=1).max()
    assert surrogate.gamma <= np.tanh(reach) + 1e-12
    assert surrogate.gamma <= np.expm1(reach) + 1e-12


def test_unordered_pairs_of_clusters_leave_zeros() -> None:
    """The paper's factorisation (Appendix D) with one item a cluster: half of W' is missing."""
    query, key = random_logits(2, m=3)
    weight = row_stochastic(query @ key.T)
    pairs = [(i, j) for i in range(3) for j in range(3) if i <= j]
    a, b = np.zeros((3, len(pairs))), np.zeros((3, len(pairs)))
    for place, (i, j) in enumerate(pairs):
        a[i, place] = b[j, place] = np.sqrt(weight[i, j])
    np.testing.assert_allclose(np.triu(a @ b.T), np.triu(weight))
    assert (np.tril(a @ b.T, -1) == 0).all()
