"""The fast Johnson–Lindenstrauss backend: its transform, its lemma and its additive guarantee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from proofs import fjlt as module
from proofs.fjlt import FJLT, Transform, walsh_hadamard

from retrieval.backends.test_backend_conformance import check
from setwise.retrieval.backends.brute_force import BruteForce

DENSE, SPARSE = 1023, 4095  # values this long are projected by a full and by a sparse Gaussian matrix


def spread_out(rng: np.random.Generator, n: int, d: int, cells: int = 1, low: float = -0.9, high: float = 0.6):
    """A user and vectors of many lengths whose products with it fill [low, high] of what is possible."""
    user = rng.normal(size=d)
    across = rng.normal(size=(n, d))
    across -= np.outer(across @ user, user) / (user @ user)
    share = rng.uniform(low, high, size=n)[:, None]
    vectors = share * user / np.linalg.norm(user)
    vectors += np.sqrt(1 - share**2) * across / np.linalg.norm(across, axis=1, keepdims=True)
    cell_of = rng.integers(cells, size=n).astype(np.int32)
    vectors *= (10.0 ** -np.arange(cells))[cell_of, None] * rng.uniform(0.8, 1, size=(n, 1))
    return vectors.astype(np.float32), cell_of, user.astype(np.float32)


def allowed_failures(trials: int, failure: float) -> float:
    """Three standard deviations above what the stated probability leads to."""
    return trials * failure + 3 * math.sqrt(trials * failure * (1 - failure))


def test_butterflies_are_the_walsh_hadamard_matrix() -> None:
    hadamard = np.ones((1, 1))
    for _ in range(5):
        np.testing.assert_allclose(walsh_hadamard(np.eye(len(hadamard))), hadamard, atol=1e-15)
        hadamard = np.kron([[1, 1], [1, -1]], hadamard) / math.sqrt(2)


def test_a_spike_is_spread_evenly() -> None:
    """Why H and D come before P: a sparse P alone would miss a vector that lives in one coordinate."""
    spike = np.zeros((1, 1024))
    spike[0, 17] = 1.0
    np.testing.assert_allclose(np.abs(walsh_hadamard(spike)), 1 / 32)


@pytest.mark.parametrize(("d", "density"), [(DENSE, 1.0), (SPARSE, 0.4)])
def test_the_projection_has_ailon_and_chazelles_density(d: int, density: float) -> None:
    transform = Transform.draw(300, d + 1, 0.5, 0.05, seed=0)
    assert transform is not None
    m, p = transform.projection.shape
    assert m < (d + 1) / 2
    assert p == d + 1
    share = (transform.projection != 0).mean()
    assert share == 1 if density == 1 else abs(share - density) < 0.05
    assert (transform.projection.astype(float) ** 2).sum() / p == pytest.approx(1, abs=0.02)  # E‖Φx‖² = ‖x‖²


@pytest.mark.parametrize("d", [DENSE, SPARSE])
def test_no_vector_is_stretched_beyond_the_lemma(d: int) -> None:
    """Spikes, flat and random vectors; the largest of them is not far below the bound."""
    rng = np.random.default_rng(0)
    x = np.vstack([np.eye(d + 1)[:100], np.ones((1, d + 1)), rng.normal(size=(100, d + 1))])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    largest = []
    for seed in range(5):
        transform = Transform.draw(len(x), d + 1, 0.5, 0.05, seed)
        assert transform is not None
        largest.append((transform(x) ** 2).sum(axis=1).max())
    assert 1.05 < np.median(largest) < max(largest) < 1.5


@pytest.mark.parametrize("eps", [0.5, 0.02])
def test_the_additive_guarantee(eps: float, count) -> None:
    """Fresh signs, a fresh user, two cells of different lengths: the j-th best is missed by ε v_max‖u‖ at most.

    The theorem holds for θ = 1/2 and any ε; a small one is where it is the second look that keeps the promise.
    """
    failure, trials, wrong, inexact = 0.05, count(400), 0, 0
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        vectors, cell_of, user = spread_out(rng, 200, DENSE, cells=2, high=rng.uniform(-0.5, 0.9))
        index = FJLT.build(vectors, cell_of, 2, eps=0.5, failure=failure, seed=seed)
        assert index.projected.shape[1] < 500
        index.eps = eps
        found = index.search(user[None], 5).scores[0]
        truth = BruteForce.build(vectors, cell_of, 2).search(user[None], 5).scores[0]
        missed = truth - found
        wrong += (missed > index.slack(user)[:, None]).any()
        inexact += (missed > 1e-3 * index.slack(user)[:, None]).any()
    assert wrong <= allowed_failures(trials, failure)
    assert inexact > trials / 10 or eps == 0.02  # the projection matters: otherwise nothing was tested


def test_only_what_may_matter_is_looked_up() -> None:
    """Once the worst of the nearest is known, items that cannot beat it by more than ε are left alone."""
    vectors, cell_of, user = spread_out(np.random.default_rng(1), 300, DENSE, high=0.6)
    index = FJLT.build(vectors, cell_of, 1, eps=0.5)
    seen = []

    class Watched(np.ndarray):
        def __getitem__(self, places):
            seen.append(len(places))
            return np.asarray(self)[places]

    index.vectors = index.vectors.view(Watched)
    index.search(user[None], 5)
    assert seen == [5, 5]
    index.eps = 1e-3  # to come closer with the same projection, more must be looked up
    index.search(user[None], 5)
    assert seen[-1] > 20


def test_complete_cells_and_true_scores_when_projected() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        vectors, cell_of, user = spread_out(rng, 120, DENSE, cells=4)
        eligible = rng.random(120) >= 0.5
        eligible[cell_of == 2] = False
        users = np.stack([user, rng.normal(size=DENSE).astype(np.float32)])
        index = FJLT.build(vectors, cell_of, 6, eps=0.6, seed=seed)
        assert index.transform is not None
        check(index.search(users, 7, eligible), vectors, cell_of, 6, users, 7, eligible)


def test_short_vectors_are_not_projected_and_exact() -> None:
    vectors, cell_of, user = spread_out(np.random.default_rng(0), 500, 64, cells=3)
    index = FJLT.build(vectors, cell_of, 3)
    assert index.transform is None
    assert (index.slack(user) == 0).all()
    truth = BruteForce.build(vectors, cell_of, 3).search(user[None], 10).scores
    np.testing.assert_allclose(index.search(user[None], 10).scores, truth, rtol=1e-5, atol=1e-5)


def test_on_the_unit_sphere_the_largest_products_are_nearest() -> None:
    vectors, cell_of, user = spread_out(np.random.default_rng(0), 50, 16)
    vectors *= 7
    index = FJLT.build(vectors, cell_of, 1)
    np.testing.assert_allclose(index.square, 1, rtol=1e-6)
    longest = np.linalg.norm(vectors, axis=1).max() * np.linalg.norm(user)
    np.testing.assert_allclose(vectors @ user, longest * (1 - index._distances(user) / 2), atol=1e-4)


def test_nobody_and_nothing() -> None:
    """A user or vectors of length 0 make every product 0, not NaN."""
    vectors, cell_of, user = spread_out(np.random.default_rng(0), 30, DENSE)
    zero, nothing = np.zeros_like(user)[None], np.zeros_like(vectors)
    assert (FJLT.build(vectors, cell_of, 1, eps=0.6).search(zero, 4).scores == 0).all()
    assert (FJLT.build(nothing, cell_of, 1, eps=0.6).search(user[None], 4).scores == 0).all()


def test_signs_are_random() -> None:
    """Without random signs a vector may be a row of H, and all of it falls on one coordinate."""
    transform = Transform.draw(300, 3000, 0.5, 0.05, seed=0)
    assert set(transform.signs.tolist()) == {-1, 1}
    assert abs(transform.signs.mean()) < 0.1


def test_vectors_are_projected_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, cell_of, _ = spread_out(np.random.default_rng(2), 20, 5, cells=2)
    whole = FJLT.build(vectors, cell_of, 2)
    monkeypatch.setattr(module, "_CHUNK", 7)
    pieces = FJLT.build(vectors, cell_of, 2)
    np.testing.assert_allclose(pieces.projected, whole.projected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(pieces.square, 1, rtol=1e-6)
