"""Retrieval with added scores: the best of every cell by total score, whatever the form and the backend."""

from __future__ import annotations

import numpy as np
import pytest
from proofs.cover import cover
from proofs.pure_embedding import PureEmbedding

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model import objective
from setwise.model.added_scores import AddedScores
from setwise.retrieval.backends.protocol import BACKENDS
from worlds import random_catalog

EXACT = [name for name, backend in BACKENDS.items() if backend.exact and backend.available and name != "pgvector"]


def totals(catalog: sw.Catalog, user: sw.User) -> np.ndarray:
    rows = np.arange(len(catalog))
    return objective.scores(catalog, user, rows, None)[0].sum(axis=0) + objective.base_scores(catalog, user, rows)


def best_of_cells(index: sw.Index, user: sw.User, per_cell: int, shown: np.ndarray) -> np.ndarray:
    """By definition: every cell sorted by total score."""
    total, found = totals(index.catalog, user), []
    for cell in range(index.partition.n_cells):
        rows = np.flatnonzero((index.cell_of == cell) & shown)
        found += rows[np.argsort(-total[rows], kind="stable")[:per_cell]].tolist()
    return np.sort(found)


def some_scores(rng: np.random.Generator, n: int) -> AddedScores:
    """Dense; or sparse with few or many rows, of either sign or above the rest."""
    added = 2 * rng.normal(size=n)
    kind = rng.integers(4)
    if kind == 0:
        return AddedScores.dense(added)
    rows = rng.permutation(n)[: rng.integers(0, n // 2 if kind == 1 else n // 8)]
    values = np.abs(added[rows]) if kind == 2 else added[rows]
    return AddedScores.sparse(n, rows, values, rest=0.0 if kind == 2 else float(rng.normal()))


@pytest.mark.parametrize("backend", EXACT)
def test_the_best_of_every_cell(backend: str, count) -> None:
    for seed in range(count(200)):
        rng = np.random.default_rng(seed)
        n, heads = int(rng.integers(20, 300)), 1 + seed % 2
        catalog, user = random_catalog(seed, n=n, heads=heads, base=bool(rng.integers(2)))
        index = sw.Index.build(catalog, cells=int(rng.integers(1, 9)), backend=backend, progress=False)
        exclude = rng.permutation(n)[: rng.integers(0, 6)]
        shown = ~np.isin(np.arange(n), exclude)
        users = [user.with_scores(some_scores(rng, n)), user, user.with_scores(some_scores(rng, n))]
        per_cell = int(rng.integers(1, 6))
        for one, found in zip(users, index.candidates_many(users, per_cell, [exclude] * 3), strict=True):
            expected = best_of_cells(index, one, per_cell, shown)
            np.testing.assert_array_equal(found, expected, str(seed))
            np.testing.assert_array_equal(index.candidates(one, per_cell, exclude), expected, str(seed))


def test_items_added_and_removed_later() -> None:
    catalog, user = random_catalog(3, n=80, ids=list(range(80)))
    more, _ = random_catalog(4, n=20, ids=list(range(80, 100)))
    index = sw.Index.build(catalog, cells=4, progress=False)
    index.add(more)
    index.remove([3, 90])
    shown = np.ones(100, bool)
    shown[[3, 90]] = False
    rng = np.random.default_rng(0)
    for scores in (AddedScores.dense(rng.normal(size=100)), AddedScores.sparse(100, [5, 85, 90], [3.0, 2.0, 9.0])):
        one = user.with_scores(scores)
        np.testing.assert_array_equal(index.candidates(one, 3), best_of_cells(index, one, 3, shown))


def test_the_reserve_follows_the_best() -> None:
    catalog, user = random_catalog(5, n=400, heads=2)
    index, rng = sw.Index.build(catalog, cells=5, progress=False), np.random.default_rng(0)
    for scores in (AddedScores.dense(rng.normal(size=400)), AddedScores.sparse(400, [5, 85], [3.0, -2.0])):
        one = user.with_scores(scores)
        found = index.retrieve(one, 3, reserve=4)
        every = best_of_cells(index, one, 7, np.ones(400, bool))
        np.testing.assert_array_equal(found.best, best_of_cells(index, one, 3, np.ones(400, bool)))
        np.testing.assert_array_equal(found.reserve, np.setdiff1d(every, found.best))


def test_propositions_about_vectors_refuse_them() -> None:
    catalog, user = random_catalog(0)
    scored = user.with_scores(AddedScores.dense(np.zeros(12)))
    for call in (
        lambda: PureEmbedding.build(catalog, "numpy").recommend(scored, 2),
        lambda: cover(catalog, 0.5).eps(scored),
    ):
        with pytest.raises(InvalidInput, match="user must be without added scores here"):
            call()
