"""Tree: exact when asked to be, and as good as it promises when not."""

from __future__ import annotations

import numpy as np
import pytest

from cells import agree, random_cells, trained_kind
from setwise.errors import InvalidInput
from setwise.retrieval.backends.oracle import Oracle
from setwise.retrieval.backends.tree import BLOCK, Tree, _search


def test_exact_mode_returns_what_the_oracle_returns(count) -> None:
    for seed in range(count(1000)):
        vectors, cell_of, cells, users, per_cell, barred = random_cells(5000 + seed)
        truth = Oracle.build(vectors, cell_of, cells).search(users, per_cell, barred)
        agree(Tree.build(vectors, cell_of, cells, recall=1.0).search(users, per_cell, barred), truth, vectors, users)


def recall(found, truth) -> float:
    last = np.min(np.where(np.isfinite(truth.scores), truth.scores, np.inf), axis=2, keepdims=True)
    return float((found.scores >= last - 1e-5 * np.abs(last)).sum() / np.isfinite(truth.scores).sum())


@pytest.mark.parametrize("wanted", [0.8, 0.95])
def test_approximate_mode_reaches_its_recall_with_a_part_of_the_blocks(wanted: float) -> None:
    vectors, cell_of, users = trained_kind(30_000, cells=8, seed=0)
    tree = Tree.build(vectors, cell_of, 8, recall=wanted)
    truth = Oracle.build(vectors, cell_of, 8).search(users, 10)
    hits, visited = _search(tree.arrays(), float(tree.arrays()["optimism"][0]), users, 10)
    assert recall(hits, truth) >= wanted
    assert visited < 0.6 * len(users) * (len(tree.arrays()["start"]) - 1)


def test_sample_users_set_the_optimism() -> None:
    vectors, cell_of, users = trained_kind(5000, cells=4, seed=1)
    easy = Tree.build(vectors, cell_of, 4, recall=0.5, sample_users=users)
    hard = Tree.build(vectors, cell_of, 4, recall=0.99, sample_users=users)
    assert easy.arrays()["optimism"][0] < hard.arrays()["optimism"][0]


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
