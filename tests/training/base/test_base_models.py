"""Base models against their definitions: EASE, item-kNN, and the fold-in of ALS."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.model.ragged import Ragged
from setwise.training.base import ease
from setwise.training.base.als import fit_als
from setwise.training.base.ease import Ease
from setwise.training.base.item_knn import Similarity, common_sessions, fit_item_knn, knn_scores
from setwise.training.base.session_matrix import cut, session_matrix

SHAPES = {"over items": (60, 14), "over sessions": (12, 25)}


def sessions(shape: tuple[int, int], seed: int = 0):
    holds = np.random.default_rng(seed).random(shape) < 0.3
    holds[:, 0] |= ~holds.any(axis=1)
    return session_matrix(Ragged.of([np.flatnonzero(row) for row in holds]), shape[1])


def ridge(matrix, regularization: float, dropout: float) -> np.ndarray:
    """B column by column: the regression of each item on all others."""
    x = matrix.toarray().astype(float)
    penalty = regularization + dropout / (1 - dropout) * x.sum(axis=0)
    result = np.zeros((x.shape[1], x.shape[1]))
    for item in range(x.shape[1]):
        others = np.delete(np.arange(x.shape[1]), item)
        left = x[:, others].T @ x[:, others] + np.diag(penalty[others])
        result[others, item] = np.linalg.solve(left, x[:, others].T @ x[:, item])
    return result


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_ease_is_a_regression_of_each_item_on_all_others(shape: tuple[int, int]) -> None:
    matrix = sessions(shape)
    model, wanted = Ease.fit(matrix, 2.0, 0.4), ridge(matrix, 2.0, 0.4)
    np.testing.assert_allclose(model.rows(np.arange(shape[1])), wanted, atol=2e-5)
    seen = matrix[:5]
    np.testing.assert_allclose(model.scores(seen), seen @ wanted, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_strongest_weights_are_kept(shape: tuple[int, int]) -> None:
    model = Ease.fit(sessions(shape), 2.0, 0.4)
    rows, kept = model.rows(np.arange(shape[1])), model.strongest(3).toarray()
    for row, few in zip(rows, kept, strict=True):
        positive = np.sort(row[row > 0])[::-1][:3]
        np.testing.assert_array_equal(np.sort(few[few > 0])[::-1], positive)
        np.testing.assert_array_equal(few[few > 0], row[few > 0])


def test_only_frequent_items_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ease, "MOST_EXACT", 6)
    matrix = sessions(SHAPES["over items"])
    frequent = np.sort(np.argsort(-matrix.toarray().sum(axis=0), kind="stable")[:6])
    wanted = np.zeros((14, 14))
    wanted[np.ix_(frequent, frequent)] = ridge(matrix[:, frequent], 2.0, 0.4)
    model = Ease.fit(matrix, 2.0, 0.4)
    np.testing.assert_allclose(model.strongest(14).toarray(), np.maximum(wanted, 0), atol=2e-5)
    np.testing.assert_allclose(model.scores(matrix[:4]), matrix[:4] @ wanted, atol=1e-4)


@pytest.mark.parametrize(
    "similarity", [Similarity(0.5, 0.5, 0.0), Similarity(0.7, 0.3), Similarity(0.6, 0.2, 1.0, 0.8)]
)
def test_item_knn_counts_sessions_in_common(similarity: Similarity) -> None:
    matrix = sessions((40, 12))
    x = matrix.toarray().astype(float)
    count = x.sum(axis=0)
    together = x.T @ (x * (x.sum(axis=1) ** -similarity.session)[:, None])
    np.fill_diagonal(together, 0)
    wanted = (together / np.outer(count**similarity.history, count**similarity.candidate)) ** similarity.whole
    common = common_sessions(matrix, similarity.session)
    found = fit_item_knn(common, count.astype(np.float32), similarity, 12)
    np.testing.assert_allclose(found.toarray(), wanted, rtol=1e-5)
    scores = knn_scores(matrix[:5], common, count.astype(np.float32), similarity)
    np.testing.assert_allclose(scores, x[:5] @ wanted, rtol=1e-5)


def test_cutting_keeps_the_largest_of_each_row() -> None:
    full = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    kept = cut(sessions((6, 8)).__class__(full), 2).toarray()
    for row, few in zip(full, kept, strict=True):
        np.testing.assert_array_equal(np.sort(few[few != 0])[::-1], np.sort(row[row > 0])[::-1][:2])


def test_the_fold_in_repeats_what_als_gives_a_session() -> None:
    matrix = sessions((80, 20))
    model = fit_als(matrix, 4, regularization=0.1, confidence=8.0, iterations=50)
    histories = Ragged.of([np.flatnonzero(row) for row in matrix[:10].toarray()])
    vectors = model.vectors(*histories.padded(int(histories.lengths.max())))
    y, x = model.items.astype(float), matrix[:10].toarray()
    for row in range(10):
        left = y.T @ y + 0.1 * np.eye(4) + 7 * (y.T * x[row]) @ y
        np.testing.assert_allclose(vectors[row], np.linalg.solve(left, 8 * y.T @ x[row]), atol=1e-4)
    ranks = np.argsort(-(vectors @ y.T), axis=1)
    own = np.mean([x[row, ranks[row, : int(x[row].sum())]].mean() for row in range(10)])
    assert own > 0.6  # a session's own items come first: 0.3 of all items are in it


def test_repeated_items_count_once() -> None:
    assert session_matrix(Ragged.of([[1, 1, 2]]), 3).toarray().tolist() == [[0, 1, 1]]
