"""Learn which k items to combine so that at least one succeeds, for users with features: portfolios of solvers.

Known cases have features and say which items succeeded on them. The value of a set for a new case is ``AtLeastOne``
over the known cases, weighted by a random forest: the weight of a known case is the average share it has of the leaf of
the new one. So the forest turns features into a user (model/feature_encoder.py), and everything else is a catalogue.

**Redundancy.** It is 1 unless another of ``REDUNDANCIES`` succeeds on more known cases, by more than two standard
errors, with the weights of the trees that did not see them. Without features cases repeat as far as the model can know:
it is 0.01, nearly pure coverage.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._display import short_repr
from setwise._types import Floats, Rows
from setwise._validation import real_number
from setwise.errors import InvalidInput, MissingDependency
from setwise.model.catalog import Catalog
from setwise.model.feature_encoder import LEAF, FeatureEncoder
from setwise.model.ids import IdChoice
from setwise.preferences.at_least_one import AtLeastOne
from setwise.ranking import rank
from setwise.storage import artifact

REDUNDANCIES = (1.0, 0.01, 0.1, 0.3, 3.0)  # the first is the default
REPEATED = 0.01  # without features
TREES, COLUMNS = 100, 0.33  # of the forest: the share of the columns that a split looks at
KIND = "feature model"  # of the saved artifact


@dataclass(frozen=True, eq=False)
class PortfolioModel:
    """A catalogue of the items for sets of k, and the encoder of features."""

    catalog: Catalog
    encoder: FeatureEncoder
    redundancy: float

    __repr__ = short_repr

    @classmethod
    def fit(
        cls,
        outcomes: Floats,
        k: int,
        features: Floats | None = None,
        names: Sequence[str] = (),
        *,
        ids: IdChoice | None = None,
        trees: int = TREES,
        seed: int = 0,
    ) -> PortfolioModel:
        """Fit to ``outcomes`` (cases, n) of 0 and 1 and ``features`` (cases, d), NaN where missing."""
        if features is None or not len(names):
            model = AtLeastOne(outcomes, REPEATED)
            forest = _Forest.of_one_leaf(len(outcomes))
            fill, flagged = np.zeros(0), np.zeros(0, np.intp)
        else:
            if features.shape != (len(outcomes), len(names)):
                must = f"of shape {(len(outcomes), len(names))}: a row a case, a column a name"
                raise InvalidInput("features", must, str(features.shape), "align them with the outcomes")
            x, fill, flagged = completed(features)
            grown = grow_forest(x, outcomes, trees, seed)
            _, unseen = forest_weights(grown, x, x[:0])
            model = AtLeastOne(outcomes, best_redundancy(unseen, outcomes, k))
            forest = _Forest.of(grown, x)
        users = model.user(np.full(len(outcomes), 1 / len(outcomes)))
        leaves = forest.vectors(model.head_of_case)
        encoder = FeatureEncoder(tuple(names), fill, flagged, **forest.nodes, **leaves, otherwise=users.heads, size=k)
        catalog = model.to_catalog(k, ids)
        return cls(catalog, encoder.fitted_to(catalog), model.redundancy)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to the folder ``path``, for ``setwise index``."""
        arrays, meta = self.catalog.packed()
        trees, names = self.encoder.packed()
        parts = {f"catalog.{name}": array for name, array in arrays.items()}
        parts |= {f"features.{name}": array for name, array in trees.items()}
        artifact.write(path, KIND, parts, {"catalog": meta, "features": names, "redundancy": self.redundancy})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PortfolioModel:
        """Open a saved model."""
        saved = artifact.read(path, KIND)
        with artifact.restoring(path):
            catalog = Catalog.unpacked(artifact.under("catalog.", saved.arrays), saved.meta["catalog"])
            encoder = FeatureEncoder.unpacked(artifact.under("features.", saved.arrays), saved.meta["features"])
            return cls(catalog, encoder.fitted_to(catalog), real_number("redundancy", saved.meta["redundancy"]))


# --- forests ---


def completed(features: Floats) -> tuple[Floats, Floats, Rows]:
    """Columns for a forest: medians in place of missing values, then columns that say where they were; and both."""
    missing = np.isnan(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any value
        median = np.nan_to_num(np.nanmedian(features, axis=0))
    flagged = np.flatnonzero(missing.any(axis=0))
    return np.concatenate([np.where(missing, median, features), missing[:, flagged]], axis=1), median, flagged


def grow_forest(x: Floats, outcomes: Floats, trees: int, seed: int) -> Any:
    """A forest that predicts the outcomes of all items at once."""
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        raise MissingDependency("scikit-learn", "learning from features of users", "train") from None
    return RandomForestRegressor(trees, max_features=COLUMNS, random_state=seed).fit(x, outcomes)


def forest_weights(forest: Any, x: Floats, new: Floats) -> tuple[Floats, Floats]:
    """Weights of the known cases for ``new`` ones, and for themselves by the trees that did not see them."""
    leaf = forest.apply(x)
    other = forest.apply(new) if len(new) else np.zeros((0, leaf.shape[1]))
    n, trees = len(x), leaf.shape[1]
    weights, unseen = np.zeros((len(new), n)), np.zeros((n, n))
    for tree, drawn in enumerate(forest.estimators_samples_):
        count = np.bincount(drawn, minlength=n)
        out = np.flatnonzero(count == 0)
        for target, leaves, rows in ((weights, other, np.arange(len(new))), (unseen, leaf, out)):
            same = (leaves[rows, tree][:, None] == leaf[:, tree]) * count
            target[rows] += same / np.maximum(same.sum(axis=1, keepdims=True), 1)
    return weights / trees, unseen / np.maximum(unseen.sum(axis=1, keepdims=True), 1e-12)


@dataclass(frozen=True, eq=False)
class _Forest:
    """``nodes``: root, feature, threshold, left and right; (leaf, case, weight) of every case in every leaf."""

    nodes: dict[str, Any]
    leaf: Rows
    case: Rows
    weight: Floats

    @classmethod
    def of_one_leaf(cls, cases: int) -> _Forest:
        """A single leaf, with all cases."""
        zero = np.zeros(1, np.int64)
        nodes = {"root": zero, "feature": zero + LEAF, "threshold": zero.astype(float), "left": zero, "right": zero}
        return cls(nodes, np.zeros(cases, np.intp), np.arange(cases), np.full(cases, 1 / cases))

    @classmethod
    def of(cls, forest: Any, x: Floats) -> _Forest:
        """The trees of a grown forest, one after the other."""
        sizes = [tree.tree_.node_count for tree in forest.estimators_]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        parts = [tree.tree_ for tree in forest.estimators_]
        feature = np.concatenate([np.where(part.children_left < 0, LEAF, part.feature) for part in parts])
        threshold = np.concatenate([part.threshold for part in parts])
        left, right = (
            np.concatenate([np.maximum(getattr(part, side), 0) + at for part, at in zip(parts, first, strict=True)])
            for side in ("children_left", "children_right")
        )
        own, entries = forest.apply(x), []
        for tree, drawn in enumerate(forest.estimators_samples_):
            count = np.bincount(drawn, minlength=len(x))
            case = np.flatnonzero(count)
            total = np.bincount(own[case, tree], weights=count[case])
            entries.append((own[case, tree] + first[tree], case, count[case] / total[own[case, tree]]))
        leaf, case, weight = (np.concatenate(part) for part in zip(*entries, strict=True))
        nodes = {"root": first, "feature": feature.astype(np.int64), "threshold": threshold, "left": left}
        return cls(nodes | {"right": right}, leaf, case, weight)

    def vectors(self, head_of_case: NDArray[np.int64]) -> dict[str, Any]:
        """start, column and weight of the sparse leaf vectors, the cases of one head added up."""
        head = head_of_case[self.case]
        used = head >= 0
        heads = int(head_of_case.max()) + 1
        code, place = np.unique(self.leaf[used].astype(np.int64) * heads + head[used], return_inverse=True)
        weight = np.bincount(place, weights=self.weight[used], minlength=len(code))
        count = np.bincount(code // heads, minlength=len(self.nodes["feature"]))
        start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        return {"start": start, "column": code % heads, "weight": weight}


# --- sets ---


def greedy_sets(weights: Floats, outcomes: Floats, k: int, redundancy: float) -> Rows:
    """The greedy sets of ``AtLeastOne`` for many users at once: (users, k)."""
    users = np.arange(len(weights))
    count, chosen = np.zeros(weights.shape), np.zeros((len(weights), k), np.intp)
    for place in range(k):
        slope = redundancy / ((redundancy + count) * (redundancy + count + 1))  # g(m + 1) − g(m), but for 1 + ρ
        gain = (weights * slope) @ outcomes
        gain[users[:, None], chosen[:, :place]] = -1.0
        chosen[:, place] = gain.argmax(axis=1)
        count += outcomes.T[chosen[:, place]]
    return chosen


def hits(outcomes: Floats, chosen: Rows) -> Floats:
    """Whether one of the chosen items succeeds, for each case."""
    return np.asarray(outcomes[np.arange(len(outcomes))[:, None], chosen].max(axis=1))


def best_redundancy(unseen: Floats, outcomes: Floats, k: int) -> float:
    """The default, or one that is better on the known cases by more than two standard errors."""
    default = hits(outcomes, greedy_sets(unseen, outcomes, k, REDUNDANCIES[0]))
    best, chosen = 0.0, REDUNDANCIES[0]
    for redundancy in REDUNDANCIES[1:]:
        gain = hits(outcomes, greedy_sets(unseen, outcomes, k, redundancy)) - default
        if gain.mean() > max(best, 2 * gain.std() / len(gain) ** 0.5):
            best, chosen = float(gain.mean()), redundancy
    return chosen


def ranked_sets(model: AtLeastOne, weights: Floats, k: int) -> Rows:
    """The sets that ``rank`` finds; users with equal weights have one.

    Where no item succeeded on any similar case, all known cases count the same.
    """
    hopeless = weights @ model.outcomes.any(axis=1) == 0
    weights = np.where(hopeless[:, None], 1 / weights.shape[1], weights)
    distinct, of_user = np.unique(weights, axis=0, return_inverse=True)
    ranked = [rank(model.instance(of_case, k), k, evaluations=20 * k * model.n_items).indices for of_case in distinct]
    return np.array(ranked)[of_user.ravel()]
