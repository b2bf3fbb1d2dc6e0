"""Baselines: what each can and cannot learn from planted data, invariance to order, errors."""

from __future__ import annotations

import sys

import baselines
import numpy as np
import pytest
from baselines import FEATURES, MODELS, FlatModel

from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput, MissingDependency
from setwise.model.ragged import Ragged

pytestmark = pytest.mark.nightly

LEARNERS = [name for name in MODELS if name != "random guess"]


def planted(seed: int, slates: int = 600, task: str = "set") -> tuple[Slates, np.ndarray]:
    """Two genres on the first axis: a slate (or, for ``item``, an item) is positive if its genre is that of the history."""
    vectors = np.random.default_rng(7).normal(size=(200, 5)).astype(np.float32)
    genre = np.arange(200) < 100
    vectors[:, 0] = np.where(genre, 2, -2)
    rng = np.random.default_rng(seed)
    taste = rng.random(slates) < 0.5
    true = rng.random((slates, 4 if task == "item" else 1)) < 0.5
    history = rng.integers(100, size=(slates, 6)) + np.where(taste, 0, 100)[:, None]
    shown = rng.integers(100, size=(slates, 4)) + np.where(taste[:, None] == true, 0, 100)
    outcome = np.broadcast_to(true, shown.shape).astype(np.float32).ravel()
    lists = (Ragged.cut(array.ravel(), [array.shape[1]] * slates) for array in (history, shown))
    return Slates(*lists, outcome, list(range(200))), vectors


def accuracy(model: FlatModel, slates: Slates) -> float:
    truth = slates.outcome if model.task == "item" else slates.outcome[slates.shown.offsets[:-1]]
    return float(((model.predict(slates) > 0.5) == (truth > 0.5)).mean())


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("model", LEARNERS)
@pytest.mark.parametrize("task", ["set", "item"])
def test_a_planted_genre_is_learned(model: str, features: str, task: str) -> None:
    train, vectors = planted(0, task=task)
    fitted = FlatModel(model, vectors, features, task).fit(train)
    test, _ = planted(1, task=task)
    found = accuracy(fitted, test)
    if features == "bag" and task == "item":
        assert found < 0.65  # the item without the history is not informative
    elif model == "logistic regression" and features != "similarities":
        assert found < 0.65  # the label is a product of history and slate, not a linear function of them
    else:
        assert found > 0.8
    predicted = fitted.predict(test)
    assert predicted.shape == ((len(test.shown.values),) if task == "item" else (len(test),))
    assert ((predicted >= 0) & (predicted <= 1)).all()


def test_a_random_guess_has_accuracy_one_half() -> None:
    train, vectors = planted(0)
    test, _ = planted(1, slates=4000)
    assert abs(accuracy(FlatModel("random guess", vectors).fit(train), test) - 0.5) < 0.05


@pytest.mark.parametrize("features", ["means", "similarities"])
@pytest.mark.parametrize("task", ["set", "item"])
def test_order_within_slate_and_history_has_no_effect(features: str, task: str) -> None:
    train, vectors = planted(0, task=task)
    fitted = FlatModel("logistic regression", vectors, features, task).fit(train)
    reversed_ = Slates(
        Ragged.of([one[::-1] for one in train.history]),
        Ragged.of([one[::-1] for one in train.shown]),
        train.outcome,
        train.ids,
    )
    expected, other = fitted.predict(train), fitted.predict(reversed_)
    other = other.reshape(-1, 4)[:, ::-1].ravel() if task == "item" else other
    np.testing.assert_allclose(other, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("features", FEATURES)
def test_lists_of_any_length(features: str) -> None:
    _, vectors = planted(0)
    slates = Slates(
        Ragged.of([[], [1, 2, 3], [4]]), Ragged.of([[5], [6, 7, 8], [9, 10]]), np.array([1, 0, 0, 0, 1, 1.0]), range(200)
    )  # fmt: skip
    for task, rows in (("set", 3), ("item", 6)):
        for model in MODELS:
            predicted = FlatModel(model, vectors, features, task).fit(slates).predict(slates)
            assert np.isfinite(predicted).all()
            assert len(predicted) == rows


def test_similarities_are_cosines() -> None:
    vectors = np.array([[1, 0], [0, 2], [3, 3], [0, 0]], np.float32)
    slates = Slates(Ragged.of([[0, 0]]), Ragged.of([[1, 2]]), np.ones(2, np.float32), range(4))
    rows = baselines._item_rows(slates, vectors, "similarities", reach=15)
    half = np.sqrt(0.5)
    lengths = np.log1p([2, np.sqrt(18)])
    np.testing.assert_allclose(rows, [[0, 0, half, lengths[0]], [half, half, half, lengths[1]]], atol=1e-6)


def test_invalid_arguments_and_missing_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.ones((200, 2), np.float32)
    with pytest.raises(InvalidInput, match="model must be one of random guess, logistic regression"):
        FlatModel("unknown", vectors)
    with pytest.raises(InvalidInput, match="features must be one of bag, vectors, means, similarities"):
        FlatModel("random forest", vectors, "magic")
    with pytest.raises(InvalidInput, match="task must be one of set, item"):
        FlatModel("random forest", vectors, task="both")
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingDependency, match=r"scikit-learn.*setwise\[train\]"):
        FlatModel("random forest", vectors).fit(planted(0, 4)[0].taken([0]))
