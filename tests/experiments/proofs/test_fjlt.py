"""The fast Johnson–Lindenstrauss backend: its transform, its lemma and its additive guarantee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from proofs.fjlt import FJLT, Transform

from setwise.retrieval.backends.brute_force import BruteForce

pytestmark = pytest.mark.nightly

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
