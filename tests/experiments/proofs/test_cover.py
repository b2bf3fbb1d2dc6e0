"""The δ-cover: its cells, and Proposition "phase one" with the constants of cover.py."""

from __future__ import annotations

import numpy as np
import pytest
from proofs.cover import cover
from proofs.pure_embedding import item_vectors, user_vector

import setwise as sw
from setwise.retrieval.backends.brute_force import BruteForce
from setwise.retrieval.partition import Partition
from worlds import REWARDS, random_catalog

pytestmark = pytest.mark.nightly

LIPSCHITZ = (sw.Logistic(0.7, -0.3), sw.Linear(0.6, 0.2), sw.ReLU(0.5, 0.4), sw.Tanh(0.8, 0.1))  # g = 0, any sign
POSITIVE = (sw.Exp(0.5, -0.2), sw.Softplus(0.6, 0.1), sw.Exp(0.2))  # g > 0, so no reward may be negative


def clustered(
    seed: int, n: int, delta: float, heads: int = 1, base: bool = False, sink: bool = False, positions: int = 0,
    rewards=LIPSCHITZ, clusters: int = 2, d: int = 2, free: float = 1.0,
) -> tuple[sw.Catalog, sw.User]:  # fmt: skip
    """Items in a few clusters of diameter δ/2, in all that a cover looks at; values of the first head are spread wider."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(clusters, size=n)

    def near(*shape: int) -> np.ndarray:
        jitter = rng.normal(size=(n, *shape))
        jitter *= delta / 4 / np.linalg.norm(jitter, axis=-1, keepdims=True)
        return rng.normal(size=(clusters, *shape))[cluster] + jitter

    first_head = rng.normal(size=(clusters, 1, d))[cluster] + free * rng.normal(size=(n, 1, d))
    value = np.concatenate([first_head, near(heads - 1, d)], axis=1)
    catalog = sw.Catalog(
        near(heads, d), near(heads, d), value, reward=(list(rewards), rng.integers(len(rewards), size=n)),
        base=near(3) if base else None,
        sink=sw.Sink(rng.normal(size=(heads, d)), rng.normal(size=(heads, d))) if sink else None,
        positions=sw.Positions(*(rng.normal(size=(positions, heads, d)) for _ in range(3))) if positions else None,
    )  # fmt: skip
    return catalog, sw.User(rng.normal(size=(heads, d)), rng.normal(size=3) if base else None)


def of_every_kind(seed: int, delta: float) -> tuple[sw.Catalog, sw.User]:
    """One or two heads, with and without base, sink and places, one to four rewards of either kind."""
    return clustered(
        seed, n=16, delta=delta, free=0.03, heads=1 + seed % 2, base=seed // 2 % 2 == 0, sink=seed // 4 % 2 == 0,
        positions=3 if seed % 7 == 0 else 0, rewards=POSITIVE[: 1 + seed % 3] if seed % 5 == 0 else LIPSCHITZ[: 1 + seed % 4],
    )  # fmt: skip


def retrieved(catalog: sw.Catalog, user: sw.User, partition: Partition, k: int) -> np.ndarray:
    """I: the k best of every cell."""
    brute = BruteForce.build(item_vectors(catalog), partition.cell_of, partition.n_cells)
    rows = brute.search(user_vector(user)[None], k).rows
    return np.sort(rows[rows >= 0])


def optimum(catalog: sw.Catalog, user: sw.User, rows: np.ndarray, k: int) -> float:
    return sw.rank(sw.Instance.from_catalog(catalog, user, rows), k, "exhaustive").value


def parts_of(catalog: sw.Catalog) -> list[np.ndarray]:
    """All that items of a cell must agree in, one array (n, d) each."""
    parts = [vectors[:, h] for vectors in (catalog.query, catalog.key) for h in range(catalog.heads)]
    parts += [catalog.value[:, h] for h in range(1, catalog.heads)]
    return [part.astype(float) for part in parts + ([] if catalog.base is None else [catalog.base])]


def farthest(parts: list[np.ndarray]) -> np.ndarray:
    """The largest distance over the parts, for every pair: (n, n)."""
    return np.max([np.linalg.norm(part[:, None] - part, axis=2) for part in parts], axis=0)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("delta", [2.0, 3.0, 5.0])
def test_cells_are_delta_wide_and_of_one_class_and_centres_far_apart(heads: int, base: bool, delta: float) -> None:
    catalog, _ = random_catalog(1, n=400, heads=heads, d=2, base=base, rewards=REWARDS[:3])
    partition = cover(catalog, delta).partition
    distance = farthest(parts_of(catalog))
    together = partition.cell_of[:, None] == partition.cell_of
    alike = catalog.reward_class[:, None] == catalog.reward_class
    assert (distance[together] <= delta).all()
    assert alike[together].all()
    assert (partition.sizes > 0).all()
    assert 1 < partition.n_cells < 400
    centres = np.unique(partition.cell_of, return_index=True)[1]  # each cell's first item
    apart = distance[np.ix_(centres, centres)]
    assert (apart[alike[np.ix_(centres, centres)] & ~np.eye(len(centres), dtype=bool)] > delta / 2 * (1 - 1e-9)).all()


def test_phase_one_keeps_its_promise() -> None:
    """OPT over the best k of every cell against OPT over everything, 200 times: that takes a second, so always."""
    trials, delta, reduced, lost, share = 200, 0.05, 0, 0, []
    for seed in range(trials):
        catalog, user = of_every_kind(seed, delta)
        k, found = 1 + seed % 3, cover(catalog, delta)
        rows = retrieved(catalog, user, found.partition, k)
        assert len(rows) == found.candidates(k) <= found.most_candidates(k)
        best = optimum(catalog, user, np.arange(len(catalog)), k)
        kept, promised = optimum(catalog, user, rows, k), found.guaranteed(best, user, k)
        assert kept >= promised - 1e-6 * (1 + abs(best))
        reduced += len(rows) < len(catalog)
        lost += kept < best - 1e-6
        share.append((best - promised) / abs(best))
    assert reduced > trials / 2  # the cells held more than k items,
    assert lost > trials / 20  # leaving the others out did cost something,
    assert np.median(share) < 0.4  # and the promise was worth something


def test_every_item_keeps_its_share(count) -> None:
    """The lemma inside: exchange a random set, cell by cell, for approximate neighbours; no a_i falls by more than ε."""
    nearest_miss, eta = 0.0, 0.05
    for seed in range(count(4000, 20)):  # the nearest miss of fewer is too far away
        rng = np.random.default_rng(seed)
        catalog, user = clustered(
            seed, n=30, delta=0.2, heads=1 + seed % 2, base=seed % 4 > 1, sink=seed % 3 == 0, rewards=[sw.Linear()], free=0.02,
        )  # fmt: skip
        found = cover(catalog, 0.2)
        score = item_vectors(catalog).astype(float) @ user_vector(user)
        noisy = score + rng.uniform(-eta / 2, eta / 2, size=30)  # the r-th by this is at most η below the r-th best
        before = rng.choice(30, size=4, replace=False)
        after = before.copy()
        for cell in np.unique(found.partition.cell_of[before]):
            mine = np.flatnonzero(found.partition.cell_of[before] == cell)
            members = np.flatnonzero(found.partition.cell_of == cell)
            after[mine[np.argsort(-score[before[mine]])]] = members[np.argsort(-noisy[members])][: len(mine)]
        fall = sw.item_rewards(catalog, user, before) - sw.item_rewards(catalog, user, after)
        nearest_miss = max(nearest_miss, float(fall.max()) / found.eps(user, eta))
    assert 0.1 < nearest_miss <= 1


def test_with_two_heads_queries_and_keys_are_not_enough() -> None:
    """Cells of identical queries and keys; the best by total score are the wrong ones, and no δ helps.

    A follower attends to a leader in head 1 and to itself in head 2. The leader to take is the one of highest score
    in head 1, whose total is the lowest.
    """
    follower, leader = [[[9.0], [9.0]]], [[[0.0], [0.0]]]
    query = np.array(4 * leader + follower)
    key = np.array(4 * [[[1.0], [-1.0]]] + [[[-1.0], [1.0]]])
    value = np.array([[[5.0], [-9.0]], *3 * [[[-5.0], [5.0]]], [[0.0], [0.0]]])
    rewards = ([sw.Constant(0.0), sw.Logistic()], [0, 0, 0, 0, 1])
    catalog, user, k = sw.Catalog(query, key, value, reward=rewards), sw.User(np.ones((2, 1))), 2
    everything = optimum(catalog, user, np.arange(5), k)
    same_attention = Partition.of(catalog, np.array([0, 0, 0, 0, 1], np.int32), 2)
    kept = optimum(catalog, user, retrieved(catalog, user, same_attention, k), k)
    assert everything > 0.99
    assert kept < 0.51
    assert cover(catalog, 1.0).partition.cell_of.tolist() == [0, 1, 1, 1, 2]  # the second head's values tell them apart
    assert optimum(catalog, user, retrieved(catalog, user, cover(catalog, 1.0).partition, k), k) == everything


def test_a_greedy_packing_may_need_more_than_the_papers_count() -> None:
    """Five points on a circle of radius R, R a little less than δ/2: five cells, and ⌈4R/δ⌉² = 4."""
    delta = 2.1
    angle = 2 * np.pi * np.arange(5) / 5
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    catalog = sw.Catalog(circle, np.zeros((5, 1, 2)), np.ones((5, 1)))
    found = cover(catalog, delta)
    assert found.partition.n_cells == 5 > np.ceil(4 / delta) ** 2
    assert found.most_candidates(1) == 3**2
