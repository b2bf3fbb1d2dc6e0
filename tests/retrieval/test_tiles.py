"""Tiles: the vector code gives the scores it says, on this machine's instructions and on plain ones, within its margin."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import binding
from numba import njit

from setwise.retrieval import tiles
from setwise.retrieval.backends.scan import Scan, tiled


def scores_by(intrinsic, users: int, vectors: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Approximate scores (users, tiles · 16), compiled afresh."""

    @njit
    def run(packed, query, width, scale, out, peak, count):
        for tile in range(count):
            intrinsic(packed, tile * width * 16, query, 0, width, scale, tile * 16, out, tile * 16, peak, tile)

    parts = tiled(vectors, np.array([0, len(vectors)]))
    width = 2 * ((vectors.shape[1] + 1) // 2)
    query, steps = np.zeros((users, width), np.int16), np.empty(users)
    for b in range(users):
        steps[b] = tiles.quantise_user(asked[b], query[b])[0]
    out = np.zeros((users, tiles.SEGMENT), np.float32)
    peak = np.zeros((users, tiles.SEGMENT // tiles.LANES), np.float32)
    count = int(parts["tile_start"][-1])
    run(parts["tiles"], query.reshape(-1), width, parts["scale"], out.reshape(-1), peak.reshape(-1), count)
    np.testing.assert_array_equal(peak[:, :count], out[:, : count * 16].reshape(users, count, 16).max(axis=2))
    return out[:, : len(vectors)] * steps[:, None]


@pytest.mark.parametrize("features", ["the machine's own", "avx2", "none"])
@pytest.mark.parametrize("users", [1, 8])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (16, 2), (40, 7), (100, 64), (33, 600)])
def test_scores_within_the_margin(features: str, users: int, n: int, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if features == "avx2" and not binding.get_host_cpu_features().get("avx2"):
        pytest.skip("this machine has no AVX2")
    if features != "the machine's own":
        monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {features: True})
    rng = np.random.default_rng(d)
    vectors = (rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1))).astype(np.float32)
    vectors[n // 2] = 0.0
    asked = (100 * rng.normal(size=(users, d))).astype(np.float32)
    got = scores_by(tiles._tile_scores(users), users, vectors, asked)
    truth = asked.astype(float) @ vectors.astype(float).T
    spread = tiled(vectors, np.array([0, n]))["spread"][0]
    for b in range(users):
        _, length, rest = tiles.quantise_user(asked[b], np.zeros(2 * ((d + 1) // 2), np.int16))
        assert np.abs(got[b] - truth[b]).max() <= tiles.error_bound(spread, length, rest)


def test_extremes_do_not_overflow() -> None:
    """All coordinates at their largest: 127 · p summed over 2,000 of them still fits in 32 bits."""
    vectors, asked = np.full((16, 2000), -3.0, np.float32), np.full((1, 2000), 5.0, np.float32)
    got = scores_by(tiles._tile_scores(1), 1, vectors, asked)
    np.testing.assert_allclose(got, -30_000.0, rtol=1e-3)


def test_a_user_without_taste() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, 4)).astype(np.float32)
    hits = Scan.build(vectors, np.zeros(50, np.int32), 1).search(np.zeros((1, 4), np.float32), 3)
    assert (hits.scores == 0).all()
    assert len(set(hits.rows.ravel().tolist())) == 3
