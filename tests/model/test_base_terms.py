"""Base terms of a history: fold-in, two-tower and neighbours against their definitions, and in an encoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.model.base_terms import BaseTerms
from setwise.model.encoder import Encoder
from setwise.model.fold_in import FoldIn
from setwise.model.neighbours import Neighbours
from setwise.model.ragged import Ragged
from setwise.model.two_tower import TwoTower

N, D = 30, 4
HISTORIES = Ragged.of([[3, 5, 7], [], [1], [8, 2, 0, 9, 4]])


def factors(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


def dense(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((N, N)) < 0.3, rng.random((N, N)), 0.0).astype(np.float32)


def neighbours(weights: np.ndarray, **settings: float) -> Neighbours:
    counts = (weights != 0).sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Neighbours(offsets, np.nonzero(weights)[1].astype(np.int32), weights[weights != 0], **settings)


def two_tower(**settings: float) -> TwoTower:
    with_bias = np.column_stack([factors(6), factors(7)[:, 0]])
    return TwoTower(with_bias, factors(8), factors(9), factors(10)[0], **settings)


def terms() -> BaseTerms:
    fold_in = replace(FoldIn.of(factors(), 5.0, 0.3, decay=0.8), scale=2.0)
    related = (neighbours(dense(1)), neighbours(dense(2), decay=0.5, power=0.5))
    return BaseTerms(fold_in, related, two_tower(decay=0.7, scale=0.5), factors(11)[:, 0])


def encoder(base_terms: BaseTerms) -> tuple[sw.Catalog, Encoder]:
    rng = np.random.default_rng(5)
    catalog = sw.Catalog(
        *rng.normal(size=(3, N, 2)), base=rng.normal(size=(N, base_terms.columns)) if base_terms.columns else None
    )
    return catalog, Encoder(
        rng.normal(size=(N, 3)), rng.normal(size=(1, 2, 3)), rng.normal(size=(1, 2)), base_terms=base_terms
    ).fitted_to(catalog)


@pytest.mark.parametrize("decay", [1.0, 0.7])
def test_the_fold_in_is_the_least_squares_solution(decay: float) -> None:
    y, confidence, regularization = factors().astype(float), 7.0, 0.4
    found = FoldIn.of(factors(), confidence, regularization, decay).vectors(*HISTORIES.padded(6))
    for row, history in enumerate(HISTORIES):
        r = decay ** np.arange(len(history) - 1, -1, -1.0)
        left = y.T @ y + regularization * np.eye(D) + (confidence - 1) * (y[history].T * r) @ y[history]
        np.testing.assert_allclose(found[row], np.linalg.solve(left, confidence * y[history].T @ r), atol=1e-5)


@pytest.mark.parametrize("decay", [1.0, 0.7])
def test_the_two_tower_vector_is_that_of_its_definition(decay: float) -> None:
    model = two_tower(decay=decay, scale=3.0)
    found = model.vectors(*HISTORIES.padded(6))
    for row, history in enumerate(HISTORIES):
        total = model.bias.astype(float)
        if len(history):
            r = decay ** np.arange(len(history) - 1, -1, -1.0)
            total = total + (r / np.linalg.norm(r)) @ model.seen[history] + model.last[history[-1]]
        np.testing.assert_allclose(found[row], 3 * np.append(np.tanh(total), 1.0), rtol=1e-6)


@pytest.mark.parametrize(("decay", "power"), [(1.0, 0.0), (0.6, 0.0), (0.6, 1.0)])
def test_neighbours_add_the_weights_of_the_history(decay: float, power: float) -> None:
    weights = dense()
    found = neighbours(weights, decay=decay, power=power).scores(*HISTORIES.padded(5))
    for history, (items, scores) in zip(HISTORIES, found, strict=True):
        r = decay ** np.arange(len(history) - 1, -1, -1.0)
        wanted = r @ weights[history].astype(float) / max(r.sum(), 1e-300) ** power
        full = np.zeros(N)
        full[items] = scores
        np.testing.assert_allclose(full, wanted, rtol=1e-6)
        assert (np.diff(items) > 0).all()


def test_users_have_the_vector_and_the_scores() -> None:
    base_terms = terms()
    catalog, one = encoder(base_terms)
    rows, filled = HISTORIES.padded(5)
    for row, user in enumerate(one.users(HISTORIES)):
        np.testing.assert_allclose(user.base[:D], base_terms.fold_in.vectors(rows, filled)[row], rtol=1e-5)
        np.testing.assert_allclose(user.base[D:], base_terms.two_tower.vectors(rows, filled)[row], rtol=1e-5)
        parts = [part.scores(rows, filled)[row] for part in base_terms.neighbours]
        wanted = sum(np.bincount(items, given, minlength=N) for items, given in parts)
        if not filled[row].any():
            wanted = wanted + base_terms.new_user
        np.testing.assert_allclose(user.scores.whole(), wanted, rtol=1e-5)
        assert np.isfinite(sw.set_value(catalog, user, [0, 1, 2]))


def test_a_recommender_with_base_terms_finds_the_best_set() -> None:
    catalog, one = encoder(terms())
    recommender = sw.Recommender(sw.Index.build(catalog, cells=3, progress=False), encoder=one)
    slate = recommender.recommend(history=[3, 5, 7], k=3)
    user = one.users(Ragged.of([[3, 5, 7]]))[0]
    free = np.setdiff1d(np.arange(N), [3, 5, 7])
    best = sw.rank(sw.Instance.from_catalog(catalog, user, free), 3, "exhaustive").value
    assert slate.value == pytest.approx(sw.set_value(catalog, user, slate.indices))
    assert slate.value <= best * (1 + 1e-9) <= slate.upper_bound * (1 + 1e-9)
    assert slate.value == pytest.approx(best, rel=0.02)


def test_packing_keeps_every_bit() -> None:
    _, one = encoder(terms())
    again = Encoder.unpacked(one.packed())
    for mine, theirs in zip(one.users(HISTORIES), again.users(HISTORIES), strict=True):
        np.testing.assert_array_equal(mine.base, theirs.base)
        np.testing.assert_array_equal(mine.scores.whole(), theirs.scores.whole())
    assert not Encoder.unpacked(encoder(BaseTerms())[1].packed()).base_terms.neighbours


def test_rows_taken_have_the_scores_among_themselves() -> None:
    _, one = encoder(terms())
    rows = np.array([9, 3, 5, 20, 7])
    few = one.taken(rows)
    whole, part = one.users(Ragged.of([[3, 5]]))[0], few.users(Ragged.of([[1, 2]]))[0]
    np.testing.assert_allclose(part.scores.whole(), whole.scores.whole()[rows], rtol=1e-6)
    np.testing.assert_allclose(part.base, whole.base, rtol=1e-6)
    new_users = one.users(Ragged.of([[]]))[0], few.users(Ragged.of([[]]))[0]
    np.testing.assert_array_equal(new_users[1].scores.whole(), new_users[0].scores.whole()[rows])


def test_scaling_multiplies_all_scores() -> None:
    rows, filled = HISTORIES.padded(5)
    one, twice = terms(), terms().scaled(2.0)
    np.testing.assert_allclose(twice.vectors(rows, filled), 2 * one.vectors(rows, filled))
    for mine, theirs in zip(one.added(rows, filled, N), twice.added(rows, filled, N), strict=True):
        np.testing.assert_allclose(theirs.whole(), 2 * mine.whole(), rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (BaseTerms(FoldIn(np.zeros((N + 1, D)), np.zeros((N + 1, D)))), "encoder's fold-in items must be"),
        (BaseTerms(FoldIn(np.zeros((N, D)), np.zeros((N, 2)))), "encoder's fold-in solved must be"),
        (BaseTerms(FoldIn(factors(), factors(), decay=np.nan)), "encoder's fold-in decay must be"),
        (BaseTerms(None, (neighbours(np.ones((N + 1, N + 1))),)), "encoder's neighbours must be"),
        (BaseTerms(None, (Neighbours(np.zeros(N + 1, int), np.zeros(1, int), np.ones(1)),)), "encoder's neighbours"),
        (BaseTerms(None, (neighbours(np.full((N, N), np.nan)),)), "encoder's neighbour weights must be"),
        (BaseTerms(new_user=np.zeros(N + 1)), "encoder's scores of new users must be"),
    ],
)
def test_arrays_are_checked(changed: BaseTerms, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        encoder(changed)
