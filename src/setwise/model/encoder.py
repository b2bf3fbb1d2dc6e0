"""Encoder: computes a user from a history of items, in plain numpy.

The history is pooled into one vector, of which the user's vectors are linear functions:

    x̄ = Σ_j w_j x_j        over the history: w_j = 1/T, or the softmax of g · x_j
    x̄ ← P (x̄, 1) / ‖·‖     where there is a P: only its direction counts
    u^h = A^h x̄ + c^h      and   u⁰ = B x̄ + d

Base models that are not of this form have base terms (base_terms.py): the vectors of a fold-in and of a two-tower
network are appended to u⁰, and neighbours of the history give added scores (added_scores.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from setwise._display import short_repr
from setwise._types import Array, Floats, Ints, Mask, Rows
from setwise._validation import real_array
from setwise.errors import InvalidInput
from setwise.model.base_terms import BaseTerms
from setwise.model.catalog import Catalog
from setwise.model.ragged import Ragged
from setwise.model.users import Users

HISTORY = 100  # the latest items of a history that are used, at most
_TOGETHER = 4096  # histories
_ARRAYS = ("items", "heads_weight", "heads_bias", "base_weight", "base_bias", "attend", "project")


@dataclass(frozen=True, eq=False)
class Encoder:
    """How a history becomes a user: x (n, dim) of every item, and the linear maps to heads and base."""

    items: Array  # (n, dim)
    heads_weight: Array  # (H, d_v, dim)
    heads_bias: Array  # (H, d_v)
    base_weight: Array | None = None  # (d_0, dim)
    base_bias: Array | None = None  # (d_0,)
    attend: Array | None = None  # (dim,): g, for attention over the history
    project: Array | None = None  # (dim, dim + 1): P, whose last column is added
    base_terms: BaseTerms = field(default_factory=BaseTerms)  # of base models that are not of the pooled form

    __repr__ = short_repr

    def fitted_to(self, catalog: Catalog) -> Encoder:
        """The encoder, its arrays checked against the shapes of the catalogue."""
        n, heads, d_v = catalog.value.shape
        dim = np.shape(self.items)[-1] if np.ndim(self.items) == 2 else "dim"
        terms = self.base_terms.checked(n)
        pooled = (0 if catalog.base is None else catalog.base.shape[1]) - terms.columns
        shapes: dict[str, tuple[int | str, ...]] = {
            "items": (n, "dim"),
            "heads_weight": (heads, d_v, dim),
            "heads_bias": (heads, d_v),
            "base_weight": (pooled, dim),
            "base_bias": (pooled,),
            "attend": (dim,),
            "project": (dim, dim + 1 if isinstance(dim, int) else "dim + 1"),
        }
        arrays: dict[str, Any] = {}
        for name, shape in shapes.items():
            given = getattr(self, name)
            if name.startswith("base") and (given is None) != (pooled == 0):
                must = "given if and only if the catalogue has a base for it, beside the columns of its base terms"
                raise InvalidInput(f"encoder's {name}", must, "one without the other", "give both or neither")
            arrays[name] = None if given is None else real_array(f"encoder's {name}", given, shape, np.float32)
        return Encoder(**arrays, base_terms=terms)

    @property
    def is_constant(self) -> bool:
        """Whether the user is the same whatever the history."""
        terms, weights = self.base_terms, (self.heads_weight, self.base_weight)
        if terms.vector_models or terms.neighbours or terms.new_user is not None:
            return False
        return not any(part is not None and np.any(part) for part in weights)

    def users(self, history: Ragged) -> Users:
        """The users of these histories (rows of the catalogue, oldest first)."""
        width = min(HISTORY, max(1, int(history.lengths.max(initial=0))))
        rows, filled = history.padded(width)
        mean = np.zeros((len(rows), self.items.shape[1]))
        vectors = np.zeros((len(rows), self.base_terms.columns))
        for start in range(0, len(rows), _TOGETHER):  # the x of a hundred thousand histories would not fit in memory
            some = slice(start, start + _TOGETHER)
            mean[some] = self._mean(rows[some], filled[some])
            vectors[some] = self.base_terms.vectors(rows[some], filled[some])
        heads = np.einsum("bd,hvd->bhv", mean, self.heads_weight, dtype=np.float64) + self.heads_bias
        added = self.base_terms.added(rows, filled, len(self.items))
        if self.base_weight is None or self.base_bias is None:
            return Users(heads, vectors if vectors.shape[1] else None, added)
        pooled = mean @ self.base_weight.T.astype(np.float64) + self.base_bias
        return Users(heads, np.concatenate([pooled, vectors], axis=1), added)

    def _mean(self, rows: Ints, filled: Mask) -> Floats:
        x = self.items[rows].astype(np.float64)
        logit = np.zeros(rows.shape) if self.attend is None else x @ self.attend
        logit = np.where(filled, logit, -np.inf)
        top = np.max(logit, axis=1, keepdims=True, initial=-1e300)
        weight = np.exp(logit - top)
        weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        mean: Floats = np.einsum("bt,btd->bd", weight, x)
        if self.project is None:
            return mean
        projected = mean @ self.project[:, :-1].T.astype(np.float64) + self.project[:, -1]
        return np.asarray(projected / (np.linalg.norm(projected, axis=1, keepdims=True) + 1e-6))

    def packed(self) -> dict[str, Array]:
        """The arrays by name, to be saved."""
        own = {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}
        return own | self.base_terms.packed()

    @classmethod
    def unpacked(cls, arrays: Mapping[str, Array]) -> Encoder:
        """The inverse of ``packed``; nothing is copied. Arrays of other names are refused."""
        own = {name: array for name, array in arrays.items() if "." not in name}
        return cls(**own, base_terms=BaseTerms.unpacked(arrays))

    def taken(self, rows: Rows) -> Encoder:
        """The encoder of these rows of the catalogue only, in this order."""
        return replace(self, items=self.items[rows], base_terms=self.base_terms.taken(rows))
