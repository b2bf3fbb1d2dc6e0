"""FeatureEncoder: computes a user from features (of a problem, a context, a segment), in plain numpy.

Each tree of a forest sorts the features into one of its leaves, and a leaf has a vector of the user's parameters: the
average over the training cases in it. The user is the average over trees,

    u(x) = (1/T) Σ_t ℓ_t(x),        ℓ_t(x) (H·d_v,) the vector of the leaf of tree t,

or, where that is zero, ``otherwise`` times 10^−9: every set is worth nothing then, and the best one of the average case
is still preferred. A missing feature is replaced by ``fill``, its training median, and said to be
missing by a further column. Leaf vectors are sparse: only the cases in a leaf have a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from setwise._display import short_repr
from setwise._types import Array, Floats
from setwise._validation import whole_number
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.storage import saved_arrays

LEAF = -1  # of ``feature``: a node without children
NEARLY_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class FeatureEncoder:
    """The trees as arrays over all nodes, and the sparse vectors of the leaves."""

    names: tuple[str, ...]
    fill: Array  # (d,) for missing features
    flagged: Array  # columns that have a further column, 1 where the feature is missing
    root: Array  # (T,) nodes
    feature: Array  # (nodes,) the column that a node compares, LEAF in a leaf
    threshold: Array  # (nodes,) left if the feature is at most this
    left: Array  # (nodes,)
    right: Array  # (nodes,)
    start: Array  # (nodes + 1,) of the entries of each node
    column: Array  # (entries,)
    weight: Array  # (entries,)
    otherwise: Array  # (H, d_v)
    size: int = 0  # of the sets whose value the catalogue states; 0 where it states that of sets of any size

    __repr__ = short_repr

    def fitted_to(self, catalog: Catalog) -> FeatureEncoder:
        """The encoder, its shape checked against that of the catalogue."""
        if self.otherwise.shape != catalog.value.shape[1:] or catalog.base is not None:
            must, got = f"for heads of shape {catalog.value.shape[1:]} and no base", f"{self.otherwise.shape}"
            raise InvalidInput("features", must, got, "pass the encoder of this catalogue")
        return self

    def user(self, features: Mapping[str, Any] | Sequence[Any], size: int | None = None) -> User:
        """The user of these features: {name: number}, or numbers in the order of ``names``; None is missing.

        With ``size`` the user is scaled, so that the value of sets of so many items is stated.
        """
        x, vector = self._completed(features), np.zeros(self.otherwise.size)
        for node in self.root.tolist():
            while self.feature[node] != LEAF:
                below = x[self.feature[node]] <= self.threshold[node]
                node = int((self.left if below else self.right)[node])
            entries = slice(int(self.start[node]), int(self.start[node + 1]))
            vector[self.column[entries]] += self.weight[entries]
        heads = vector.reshape(self.otherwise.shape) / len(self.root)
        if not heads.any():
            heads = NEARLY_NOTHING * np.asarray(self.otherwise, np.float64)
        return User(heads if not (size and self.size) else heads * (self.size / size))

    def _completed(self, features: Mapping[str, Any] | Sequence[Any]) -> Floats:
        """The columns that the trees read, in the single precision in which they were built."""
        numbers = np.array([_number(name, cell) for name, cell in zip(self.names, self._cells(features), strict=True)])
        missing = np.isnan(numbers)
        whole = np.concatenate([np.where(missing, self.fill, numbers), missing[self.flagged]])
        with np.errstate(over="ignore"):  # a number beyond single precision is beyond every threshold
            return np.asarray(whole.astype(np.float32), np.float64)

    def _cells(self, features: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        known = f"{len(self.names)} features ({', '.join(self.names)})"[:200]
        if isinstance(features, Mapping):
            for name in features:
                if name not in self.names:
                    raise InvalidInput("features", f"among {known}", repr(name), "check its spelling")
            return [features.get(name) for name in self.names]
        if isinstance(features, str) or len(features) != len(self.names):
            got = "a text" if isinstance(features, str) else f"{len(features)} numbers"
            raise InvalidInput("features", f"{known}, by name or in this order", got, "pass {name: number}")
        return list(features)

    def packed(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The arrays by name, and the names as metadata, to be saved."""
        arrays = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("names", "size")}
        return arrays, {"names": list(self.names), "size": self.size}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> FeatureEncoder:
        """The inverse of ``packed``, checked: every path through a tree ends in a leaf."""
        names, (nodes,), (entries,) = tuple(map(str, meta["names"])), arrays["feature"].shape, arrays["weight"].shape
        whole = {"flagged": None, "root": None, "feature": nodes, "left": nodes, "right": nodes, "column": entries}
        for name, length in whole.items():
            saved_arrays.typed(name, arrays[name], np.int64, (length,))
        saved_arrays.typed("otherwise", arrays["otherwise"], np.float64, (None, None))
        for name, length in {"fill": len(names), "threshold": nodes, "weight": entries}.items():
            saved_arrays.typed(name, arrays[name], np.float64, (length,))
        for name in ("fill", "weight", "otherwise"):
            saved_arrays.finite(name, arrays[name])
        saved_arrays.offsets("start", arrays["start"], nodes, entries)
        saved_arrays.ranged("root", arrays["root"], 0, nodes - 1)
        saved_arrays.ranged("flagged", arrays["flagged"], 0, len(names) - 1)
        saved_arrays.ranged("feature", arrays["feature"], LEAF, len(names) + len(arrays["flagged"]) - 1)
        saved_arrays.ranged("column", arrays["column"], 0, arrays["otherwise"].size - 1)
        inner = np.flatnonzero(arrays["feature"] != LEAF)
        for name in ("left", "right"):  # children come after their node, so that no path returns
            child = arrays[name][inner]
            if (child <= inner).any() or (child >= nodes).any():
                raise InvalidInput(f"array '{name}'", "nodes after their parents", "others", "save it again")
        size = meta.get("size", 0)  # older files do not have it
        return cls(names, **arrays, size=size if size == 0 else whole_number("size", size))


def _number(name: str, cell: Any) -> float:
    if cell is None:
        return np.nan
    try:
        if not isinstance(cell, bool) and isinstance(cell, (int, float, np.number)) and not np.isinf(float(cell)):
            return float(cell)
    except OverflowError:  # a whole number that no float can hold
        pass
    got = repr(cell)
    raise InvalidInput(f"features['{name}']", "a finite number, or None", got, "encode it as a number")
