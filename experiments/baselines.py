"""Baselines without attention, trained on the same slates as the simple transformer.

**Flat models** (scikit-learn: logistic regression, random forest, support vector machine, nearest neighbours, random
guess) represent a slate as one row of features made from item vectors x. There are four sets of features, because a
comparison is only as strong as the features of the baseline:

* ``bag``: the mean of history and items shown together. The paper's baselines disregard sequence; we read this as not
  distinguishing the history from the slate.
* ``vectors``: the vectors of the last ``reach`` items of the history and of the items shown, concatenated; relations
  between them are left to the model.
* ``means``: the mean of the history and the mean of the items shown.
* ``similarities``: cosines between the items shown and the history and among the items shown, and the lengths of the
  vectors, which for word2vec indicate popularity; minimum, mean and maximum over the slate. Hand-made for this task.

With ``task="item"`` the rows are items instead of slates: ``bag`` is the item's vector, ``vectors`` the mean of the
history, the item and the mean of the slate, ``means`` the history's and the item's, ``similarities`` as above for one
item.

**The pointwise network** is the simple transformer without attention: a_i = base_i · u⁰ + bias_i, whatever else the
slate holds.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor, nn

from setwise._types import Floats, Floats32
from setwise._validation import whole_number
from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput, MissingDependency
from setwise.model.ragged import Ragged
from setwise.training.embeddings import unit
from setwise.training.network import CORRECTION_DECAY, HistoryPooling, Items, Shape

FEATURES = ("bag", "vectors", "means", "similarities")
TASKS = ("set", "item")


class FlatModel:
    """A scikit-learn classifier over features of slates: ``fit``, then ``predict`` probabilities of outcome 1.

    ``task="set"``: one probability per slate (all its outcomes are equal); ``"item"``: one per item shown.
    A support vector machine has no probabilities: ``predict`` gives the logistic function of its margin, which is on
    the right side of ½, but not calibrated.
    """

    def __init__(
        self,
        model: str,
        embeddings: Floats32,
        features: str = "means",
        task: str = "set",
        reach: int = 15,
        seed: int = 0,
    ) -> None:
        for name, value, allowed in (
            ("model", model, MODELS),
            ("features", features, FEATURES),
            ("task", task, TASKS),
        ):
            if value not in allowed:
                raise InvalidInput(name, f"one of {', '.join(allowed)}", repr(value), "choose one of them")
        self.model, self.embeddings, self.features, self.task = model, embeddings, features, task
        self.reach, self.seed = whole_number("reach", reach), whole_number("seed", seed, least=0)
        self.estimator: Any = None
        self.width = 0  # of the slates

    def fit(self, slates: Slates) -> FlatModel:
        """Train on these slates; returns self."""
        self.width = int(slates.shown.lengths.max())
        outcome = slates.outcome if self.task == "item" else slates.outcome[slates.shown.offsets[:-1]]
        rows = self._rows(slates)
        self.estimator = MODELS[self.model](self.seed, len(rows)).fit(rows, outcome > 0.5)
        return self

    def predict(self, slates: Slates) -> Floats:
        """The probability of outcome 1 for each slate, or, with ``task="item"``, for each of ``shown.values``."""
        rows = self._rows(slates)
        if hasattr(self.estimator, "predict_proba"):
            return np.asarray(self.estimator.predict_proba(rows)[:, 1])
        return np.asarray(1 / (1 + np.exp(-self.estimator.decision_function(rows))))

    def _rows(self, slates: Slates) -> Floats:
        if self.task == "item":
            return _item_rows(slates, self.embeddings, self.features, self.reach)
        return _slate_rows(slates, self.embeddings, self.features, self.reach, self.width)


class PointwiseNetwork(nn.Module):
    """a_i = base_i · u⁰ + bias_i: the user's score of an item, independent of the rest of the slate."""

    def __init__(self, n_items: int, dim: int = 32, embeddings: Floats32 | None = None) -> None:
        super().__init__()
        self.items = Items(n_items, whole_number("dim", dim), embeddings)
        self.pool = HistoryPooling(Shape(dim=dim))
        self.base, self.user = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim)
        self.bias = nn.Embedding(n_items, 1)
        nn.init.zeros_(self.bias.weight)
        if embeddings is not None:
            self.decays = {"items.correction.weight": CORRECTION_DECAY}

    def forward(self, history: Tensor, history_mask: Tensor, shown: Tensor, shown_mask: Tensor) -> Tensor:
        """The arguments (B, L) of the items shown; ``shown_mask`` is not used, because items do not interact."""
        user = self.user(self.pool(self.items(history), history_mask))
        liking = (self.base(self.items(shown)) @ user.unsqueeze(-1)).squeeze(-1)
        argument: Tensor = liking + self.bias(shown).squeeze(-1)
        return argument


def _means(lists: Ragged, vectors: Floats32) -> Floats32:
    """The mean vector of each list, zero for an empty one."""
    total = np.zeros((len(lists), vectors.shape[1]), np.float64)
    np.add.at(total, lists.owner, vectors[lists.values])
    return np.asarray(total / np.maximum(lists.lengths, 1)[:, None], np.float32)


def _slate_rows(slates: Slates, vectors: Floats32, features: str, reach: int, width: int) -> Floats:
    if features == "bag":
        seen, shown = slates.history.lengths[:, None], slates.shown.lengths[:, None]
        total = seen * _means(slates.history, vectors) + shown * _means(slates.shown, vectors)
        return np.asarray(total / (seen + shown), np.float64)
    if features == "vectors":
        blocks = [
            _concatenated(lists, vectors, size) for lists, size in ((slates.history, reach), (slates.shown, width))
        ]
        return np.concatenate(blocks, axis=1)
    if features == "means":
        return np.concatenate([_means(slates.history, vectors), _means(slates.shown, vectors)], axis=1)
    rows = _item_rows(slates, vectors, "similarities", reach)
    return np.concatenate([_summaries(slates.shown, column) for column in rows.T], axis=1)


def _concatenated(lists: Ragged, vectors: Floats32, width: int) -> Floats:
    rows, filled = lists.padded(width)
    return np.asarray((vectors[rows] * filled[..., None]).reshape(len(lists), -1))


def _summaries(lists: Ragged, column: Floats) -> Floats:
    """Minimum, mean and maximum of each list's numbers (B, 3)."""
    starts = lists.offsets[:-1]
    mean = np.add.reduceat(column, starts) / lists.lengths
    return np.stack([np.minimum.reduceat(column, starts), mean, np.maximum.reduceat(column, starts)], axis=1)


def _item_rows(slates: Slates, vectors: Floats32, features: str, reach: int) -> Floats:
    owner, items = slates.shown.owner, vectors[slates.shown.values]
    if features == "bag":
        return np.asarray(items, np.float64)
    history, slate = _means(slates.history, vectors)[owner], _means(slates.shown, vectors)[owner]
    if features == "vectors":
        return np.concatenate([history, items, slate], axis=1)
    if features == "means":
        return np.concatenate([history, items], axis=1)
    direction = unit(items)
    others = unit(slate * slates.shown.lengths[owner, None] - items)  # the rest of the slate
    columns = (
        (direction * unit(history)).sum(1),
        _largest_cosine(slates, vectors, reach),
        (direction * others).sum(1),
        np.log1p(np.linalg.norm(items, axis=1)),
    )
    return np.stack(columns, axis=1).astype(np.float64)


def _largest_cosine(slates: Slates, vectors: Floats32, reach: int) -> Floats:
    """The largest cosine of each item shown with an item of the history; −1 if the history is empty."""
    history, seen = slates.history.padded(reach)
    shown, filled = slates.shown.padded(int(slates.shown.lengths.max()))
    cosine = unit(vectors[shown]) @ unit(vectors[history]).transpose(0, 2, 1)
    return np.asarray(np.where(seen[:, None, :], cosine, -1).max(2)[filled])


def _sklearn(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(f"sklearn.{module}"), name)
    except ImportError:
        raise MissingDependency("scikit-learn", "a baseline", "train") from None


def _standardised(estimator: Any) -> Any:
    pipeline = _sklearn("pipeline", "make_pipeline")
    return pipeline(_sklearn("preprocessing", "StandardScaler")(), estimator)


def _random_guess(seed: int, rows: int) -> Any:
    return _sklearn("dummy", "DummyClassifier")(strategy="uniform", random_state=seed)


def _logistic(seed: int, rows: int) -> Any:
    return _standardised(_sklearn("linear_model", "LogisticRegression")(C=0.1, max_iter=1000, random_state=seed))


def _random_forest(seed: int, rows: int) -> Any:
    # Trees do not depend on the scale of a column, so columns are not standardised.
    return _sklearn("ensemble", "RandomForestClassifier")(100, min_samples_leaf=2, random_state=seed)


def _support_vectors(seed: int, rows: int) -> Any:
    return _standardised(_sklearn("svm", "SVC")(random_state=seed))  # radial kernel


def _neighbours(seed: int, rows: int) -> Any:
    return _standardised(_sklearn("neighbors", "KNeighborsClassifier")(min(25, rows)))


MODELS: dict[str, Callable[[int, int], Any]] = {  # from a seed and the number of rows
    "random guess": _random_guess,
    "logistic regression": _logistic,
    "random forest": _random_forest,
    "support vector machine": _support_vectors,
    "nearest neighbours": _neighbours,
}
