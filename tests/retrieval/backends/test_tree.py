"""Tree: exact when asked to be, and as good as it promises when not."""

from __future__ import annotations

import numpy as np
import pytest

from cells import agree, random_cells, trained_kind
from setwise.errors import InvalidInput
from setwise.retrieval.backends.brute_force import BruteForce
from setwise.retrieval.backends.tree import BLOCK, Tree, _search


def test_exact_mode_returns_what_the_oracle_returns(count) -> None:
    for seed in range(count(1000)):
        vectors, cell_of, cells, users, per_cell, eligible = random_cells(5000 + seed)
        truth = BruteForce.build(vectors, cell_of, cells).search(users, per_cell, eligible)
        hits = Tree.build(vectors, cell_of, cells, recall=1.0).search(users, per_cell, eligible)
        agree(hits, truth, vectors, cell_of, users)


@pytest.mark.parametrize(
    ("scale", "user_scale"), [(1e-25, 1e5), (1e5, 1e-25), (1e-25, 1e25), (1e18, 1e-30), (1e15, 1e18)]
)
def test_exact_mode_at_any_scale(scale: float, user_scale: float) -> None:
    """Squares of such numbers are no float32: a reach or a user of zero or infinite length would prune wrongly."""
    vectors, cell_of, users = trained_kind(4000, cells=2, seed=4)
    rng = np.random.default_rng(0)
    vectors, users = (
        (scale * vectors).astype(np.float32),
        (user_scale * (users + rng.normal(size=users.shape))).astype(np.float32),
    )
    truth = BruteForce.build(vectors, cell_of, 2).search(users, 5)
    tree = Tree.build(vectors, cell_of, 2, recall=1.0)
    agree(tree.search(users, 5), truth, vectors, cell_of, users)
    assert _search(tree.arrays(), 0.0, users, 1)[1] < 0.95 * len(users) * (len(tree.arrays()["start"]) - 1)


def recall(found, truth) -> float:
    last = np.min(np.where(truth.rows >= 0, truth.scores, np.inf), axis=2, keepdims=True)
    return float((found.scores >= last - 1e-5 * np.abs(last)).sum() / (truth.rows >= 0).sum())


@pytest.mark.parametrize("wanted", [0.8, 0.95])
def test_approximate_mode_reaches_its_recall_with_a_part_of_the_blocks(wanted: float) -> None:
    vectors, cell_of, users = trained_kind(30_000, cells=8, seed=0)
    tree = Tree.build(vectors, cell_of, 8, recall=wanted)
    truth = BruteForce.build(vectors, cell_of, 8).search(users, 10)
    hits, visited = _search(tree.arrays(), tree.optimism(10), users, 10)
    assert recall(hits, truth) >= wanted
    assert visited < 0.6 * len(users) * (len(tree.arrays()["start"]) - 1)


@pytest.mark.parametrize("depth", [1, 10])
def test_recall_where_every_group_varies_along_a_direction_of_its_own(depth: int) -> None:
    """No few directions describe these blocks, so that deviations are guessed far too small: optimism makes up for it."""
    rng = np.random.default_rng(1)
    centre, along = rng.normal(size=(2, 150, 256))
    group = rng.integers(150, size=15_000)
    vectors = 0.06 * centre[group] + 0.06 * rng.normal(size=(15_000, 1)) * along[group]
    vectors = (vectors + 0.001 * rng.normal(size=vectors.shape)).astype(np.float32)
    cell_of, users = (group % 4).astype(np.int32), vectors[rng.integers(15_000, size=100)]
    truth = BruteForce.build(vectors, cell_of, 4).search(users, depth)
    assert recall(Tree.build(vectors, cell_of, 4, recall=0.9).search(users, depth), truth) >= 0.9


def test_sample_users_set_the_optimism() -> None:
    vectors, cell_of, users = trained_kind(5000, cells=4, seed=1)
    easy = Tree.build(vectors, cell_of, 4, recall=0.5, sample_users=users)
    hard = Tree.build(vectors, cell_of, 4, recall=0.99, sample_users=users)
    assert easy.arrays()["optimism"][0] < hard.arrays()["optimism"][0]


def test_the_search_for_an_optimism_ends_where_any_will_do() -> None:
    """One block a cell: all is found at once, and 0, which stands for the exact bound, is not an answer."""
    vectors, cell_of, _ = trained_kind(60, cells=2, seed=5)
    assert (Tree.build(vectors, cell_of, 2).arrays()["optimism"] == 1 / 16).all()


def test_blocks_are_full_but_for_the_last_of_a_cell() -> None:
    vectors, cell_of, _ = trained_kind(3000, cells=3, seed=2)
    arrays = Tree.build(vectors, cell_of, 3).arrays()
    sizes = np.diff(arrays["start"])
    assert sizes.max() <= BLOCK
    for first, last in zip(arrays["first_block"][:-1], arrays["first_block"][1:], strict=True):
        assert (sizes[first:last] < BLOCK).sum() <= 1
    assert sorted(arrays["order"].tolist()) == list(range(3000))


def test_recall_is_a_share() -> None:
    vectors, cell_of, _ = trained_kind(100, cells=2, seed=3)
    for wrong in (0.0, 1.5):
        with pytest.raises(InvalidInput, match="recall must be greater than 0 and at most 1"):
            Tree.build(vectors, cell_of, 2, recall=wrong)
