"""One suite that every retrieval backend passes: it is parametrised over the registry.

Exact backends agree with brute force, ties aside. Approximate ones return complete cells of true scores; their recall
is tested in their own files.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

from cells import agree, random_cells
from setwise.errors import InvalidInput, MissingDependency
from setwise.retrieval.backends import protocol as neighbors
from setwise.retrieval.backends.brute_force import BruteForce
from setwise.retrieval.backends.protocol import BACKENDS, Backend

EXACT = [name for name, entry in BACKENDS.items() if entry.exact]


def built(name: str, vectors, cell_of, n_cells, **options):
    if not BACKENDS[name].available:
        pytest.skip(f"{BACKENDS[name].library} is not installed")
    return BACKENDS[name].load().build(vectors, cell_of, n_cells, **options)


def check(hits, vectors, cell_of, cells, users, per_cell, eligible) -> None:
    """Right shape, right cells, no ineligible row, no row twice, true scores, best first, and no row missing."""
    assert hits.rows.shape == hits.scores.shape == (len(users), cells, per_cell)
    allowed = np.ones(len(vectors), bool) if eligible is None else eligible
    for b, user in enumerate(users):
        truth = vectors.astype(np.float64) @ user
        size = np.abs(vectors.astype(np.float64)) @ np.abs(user)
        for c in range(cells):
            rows = hits.rows[b, c][hits.rows[b, c] >= 0]
            assert (cell_of[rows] == c).all()
            assert allowed[rows].all()
            assert len(set(rows.tolist())) == len(rows) == min(per_cell, int((allowed & (cell_of == c)).sum()))
            scores = hits.scores[b, c]
            np.testing.assert_allclose(scores[: len(rows)], truth[rows], atol=1e-5 * (1e-9 + size[rows].max(initial=0)))
            assert np.isneginf(scores[len(rows) :]).all()
            assert (np.diff(scores[: len(rows)]) <= 0).all()


@pytest.mark.parametrize("name", BACKENDS)
def test_complete_cells_and_true_scores(name: str) -> None:
    for seed in range(3 if name == "pgvector" else 25):
        vectors, cell_of, cells, users, per_cell, eligible = random_cells(seed)
        hits = built(name, vectors, cell_of, cells).search(users, per_cell, eligible)
        check(hits, vectors, cell_of, cells, users, per_cell, eligible)


@pytest.mark.parametrize("name", EXACT)
def test_exact_backends_agree_with_brute_force(name: str, count) -> None:
    for seed in range(5 if name == "pgvector" else count(1000)):
        vectors, cell_of, cells, users, per_cell, eligible = random_cells(1000 + seed)
        truth = BruteForce.build(vectors, cell_of, cells).search(users, per_cell, eligible)
        agree(built(name, vectors, cell_of, cells).search(users, per_cell, eligible), truth, vectors, cell_of, users)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_thousand_exclusions_and_a_filter_that_empties_a_cell(name: str) -> None:
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(3000, 16)).astype(np.float32)
    cell_of = (np.arange(3000) % 5).astype(np.int32)
    eligible = np.ones(3000, bool)
    eligible[np.argsort(-vectors @ vectors[0])[:1000]] = False
    eligible[cell_of == 3] = False
    hits = built(name, vectors, cell_of, 5).search(vectors[:2], 10, eligible)
    check(hits, vectors, cell_of, 5, vectors[:2], 10, eligible)
    assert (hits.rows[:, 3] == -1).all()


@pytest.mark.parametrize("name", ["numpy", "scan", "tree"])
def test_a_score_of_minus_infinity_is_not_an_ineligible_row(name: str) -> None:
    vectors = np.full((20, 4), -1e38, np.float32)
    vectors[3] = 0.0
    users, eligible = np.full((1, 4), 100, np.float32), np.arange(20) != 5
    with np.errstate(over="ignore", invalid="ignore"):
        hits = built(name, vectors, np.zeros(20, np.int32), 1).search(users, 20, eligible)
    assert hits.rows[0, 0, 0] == 3
    assert sorted(hits.rows[0, 0, :19]) == [row for row in range(20) if row != 5]
    assert hits.rows[0, 0, 19] == -1


@pytest.mark.parametrize("name", ["scan", "tree"])
def test_arguments_are_checked_before_compiled_code_runs(name: str) -> None:
    index = built(name, np.ones((30, 4), np.float32), np.zeros(30, np.int32), 1)
    for width in (3, 5):
        with pytest.raises(InvalidInput, match=r"users must be an array of shape \(count, 4\)"):
            index.search(np.ones((2, width), np.float32), 1)
    with pytest.raises(InvalidInput, match=r"eligible must be an array of shape \(30,\)"):
        index.search(np.ones((1, 4), np.float32), 1, np.zeros(29, bool))
    with pytest.raises(InvalidInput, match="per_cell must be a whole number of at least 1"):
        index.search(np.ones((1, 4), np.float32), 0)


@pytest.mark.parametrize("name", BACKENDS)
def test_saved_and_restored(name: str) -> None:
    vectors, cell_of, cells, users, per_cell, eligible = random_cells(5)
    one = built(name, vectors, cell_of, cells)
    arrays = {key: np.array(array) for key, array in one.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    other = type(one).from_arrays(arrays)
    first, second = one.search(users, per_cell, eligible), other.search(users, per_cell, eligible)
    np.testing.assert_array_equal(first.rows, second.rows)
    np.testing.assert_array_equal(first.scores, second.scores)


@pytest.mark.parametrize("name", BACKENDS)
def test_many_threads_get_the_same_rows(name: str) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2000, 8)).astype(np.float32)
    index = built(name, vectors, (np.arange(2000) % 7).astype(np.int32), 7)
    users = rng.normal(size=(20, 8)).astype(np.float32)
    alone = [index.search(user[None], 5).rows for user in users]
    wrong: list[int] = []

    def ask(number: int) -> None:
        if not np.array_equal(index.search(users[number % 20][None], 5).rows, alone[number % 20]):
            wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(40 if name == "pgvector" else 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_registry() -> None:
    assert neighbors.resolved("auto") == ("scan", BACKENDS["scan"].load())
    with pytest.raises(InvalidInput, match="backend must be 'auto' or one of numpy, scan, tree"):
        neighbors.resolved("annoy")
    missing = Backend("x", "x", "X", exact=True, library="no_such_library", extra="x")
    assert not missing.available
    with pytest.raises(MissingDependency, match="the retrieval backend 'x' needs no_such_library"):
        missing.load()
