"""Tiles: the vector code gives the scores it says, on this machine's instructions and on plain ones, within its margin."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from llvmlite import binding
from numba import njit

from cells import agree
from setwise.retrieval import int8_tiles as tiles
from setwise.retrieval.backends.brute_force import BruteForce
from setwise.retrieval.backends.scan import Scan, tiled


@functools.cache
def compiled_for(features: str, users: int):
    """The loop over tiles, compiled for the features that ``binding`` reports now, which ``features`` names."""
    intrinsic = tiles._tile_scores(users)

    @njit
    def run(packed, query, width, scale, out, peak, count):
        for tile in range(count):
            intrinsic(packed, tile * width * 16, query, 0, width, scale, tile * 16, out, tile * 16, peak, tile)

    return run


def scores_by(run, users: int, vectors: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Approximate scores (users, tiles · 16)."""
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
    got = scores_by(compiled_for(features, users), users, vectors, asked)
    truth = asked.astype(float) @ vectors.astype(float).T
    spread = tiled(vectors, np.array([0, n]))["spread"]
    for b in range(users):
        step, alpha, beta, gamma = tiles.quantise_user(asked[b], np.zeros(2 * ((d + 1) // 2), np.int16))
        margin = step * (spread @ [alpha, beta] + gamma)
        assert (np.abs(got[b] - truth[b]) <= margin[np.arange(n) // tiles.LANES]).all()


def test_extremes_do_not_overflow() -> None:
    """All coordinates at their largest: 127 · p summed over 2,000 of them still fits in 32 bits."""
    vectors, asked = np.full((16, 2000), -3.0, np.float32), np.full((1, 2000), 5.0, np.float32)
    got = scores_by(compiled_for("the machine's own", 1), 1, vectors, asked)
    np.testing.assert_allclose(got, -30_000.0, rtol=1e-3)


def test_a_user_without_taste() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, 4)).astype(np.float32)
    hits = Scan.build(vectors, np.zeros(50, np.int32), 1).search(np.zeros((1, 4), np.float32), 3)
    assert (hits.scores == 0).all()
    assert len(set(hits.rows.ravel().tolist())) == 3


@pytest.mark.parametrize("scale", [1e-45, 1e-42, 1e-38, 1e-36, 1e18, 1e30, 1e36])
def test_vectors_at_both_ends_of_float32(scale: float) -> None:
    """Steps that are no normal numbers, or scores in units of t that overflow: such items are looked up."""
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(500, 24)) * scale * 10 ** rng.uniform(0, 1, size=(500, 1))).astype(np.float32)
    users = (rng.normal(size=(9, 24)) * min(1 / scale, 1e38)).astype(np.float32)
    cell_of = (np.arange(500) % 2).astype(np.int32)
    truth = BruteForce.build(vectors, cell_of, 2).search(users, 5)
    agree(Scan.build(vectors, cell_of, 2).search(users, 5), truth, vectors, cell_of, users)


def test_a_long_item_costs_its_tile_precision_and_nobody_else() -> None:
    """An item that is looked up shows its true vector: here that of all but the long one's tile and the best is a lie."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4000, 32)).astype(np.float32)
    user = rng.normal(size=(1, 32)).astype(np.float32)
    vectors[70] = -1e5 * user[0]
    arrays = Scan.build(vectors, np.zeros(4000, np.int32), 1).arrays()
    score = (vectors @ user[0])[arrays["order"]]
    honest = score > np.sort(score)[-10] - 0.1 * np.linalg.norm(user) * np.linalg.norm(vectors[0])
    honest |= np.arange(4000) // tiles.LANES == 70 // tiles.LANES
    assert honest.sum() < 200
    lies = np.where(honest[:, None], arrays["vectors"], 1e6 * user).astype(np.float32)
    hits = Scan.from_arrays({**arrays, "vectors": lies}).search(user, 10)
    np.testing.assert_array_equal(hits.rows[0, 0], np.argsort(-(vectors @ user[0]))[:10])


@pytest.mark.parametrize("eligible", [None, np.arange(640) % 16 != 15])
def test_errors_that_all_point_one_way(eligible: np.ndarray | None) -> None:
    """The worst case of the margin: the best items lose by rounding all that they can, the others gain as much."""
    rng = np.random.default_rng(0)
    user = np.append(0.0, rng.choice([-1.0, 1.0], size=32))
    best = np.arange(640) % 80 == 7
    whole = [np.append(127, np.bincount(rng.integers(32, size=10 if good else 36), minlength=32)) for good in best]
    vectors = (np.array(whole) + 0.45 * np.where(best, 1, -1)[:, None]) * np.append(1, user[1:])
    vectors[:, 0] = 127  # so that the step is 1: approximate scores are 10 and 36, true ones 24.4 and 21.6
    index = Scan.build(vectors.astype(np.float32), np.zeros(640, np.int32), 1)
    hits = index.search(user[None].astype(np.float32), 8, eligible)
    assert sorted(hits.rows[0, 0]) == np.flatnonzero(best).tolist()
