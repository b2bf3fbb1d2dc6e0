"""Base terms of a history: the parts of a user that base models compute from it, other than by pooling.

    fold_in      a vector that is appended to u⁰, next to the item factors in the catalogue's base (fold_in.py)
    two_tower    another such vector, of a network that knows the order of the history (two_tower.py)
    neighbours   scores of the items that are related to the history, added to their arguments (neighbours.py)
    new_user     scores (n,) that are added if the history is empty, where the others say nothing

A sum of them is again one base term: the dot product of longer vectors, plus added scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from setwise._display import short_repr
from setwise._types import Array, Floats, Ints, Mask, Rows
from setwise._validation import real_array
from setwise.model.added_scores import AddedScores
from setwise.model.fold_in import FoldIn
from setwise.model.neighbours import Neighbours
from setwise.model.two_tower import TwoTower
from setwise.storage.artifact import under


@dataclass(frozen=True, eq=False)
class BaseTerms:
    """A fold-in, any number of neighbour matrices, a two-tower network, and scores for users without a history."""

    fold_in: FoldIn | None = None
    neighbours: tuple[Neighbours, ...] = ()
    two_tower: TwoTower | None = None
    new_user: Array | None = None  # (n,)

    __repr__ = short_repr

    @property
    def vector_models(self) -> tuple[FoldIn | TwoTower, ...]:
        """The models whose scores are dot products of a vector of the history with vectors of the items."""
        return tuple(one for one in (self.fold_in, self.two_tower) if one is not None)

    @property
    def columns(self) -> int:
        """The columns of the catalogue's base that belong to these models: its last ones."""
        return sum(int(one.items.shape[1]) for one in self.vector_models)

    @property
    def items(self) -> Array | None:
        """Those columns (n, d); None without such a model."""
        models = self.vector_models
        return np.concatenate([one.items for one in models], axis=1) if models else None

    def vectors(self, rows: Ints, filled: Mask) -> Floats:
        """The vectors (B, d) of padded histories, next to ``items``."""
        return np.concatenate([np.zeros((len(rows), 0)), *(one.vectors(rows, filled) for one in self.vector_models)], 1)

    def checked(self, n: int) -> BaseTerms:
        """The same with all arrays checked, for a catalogue of ``n`` items."""
        neighbours = tuple(one.checked(n) for one in self.neighbours)
        fold_in, two_tower = self.fold_in and self.fold_in.checked(n), self.two_tower and self.two_tower.checked(n)
        new_user = self.new_user
        if new_user is not None:
            new_user = real_array("encoder's scores of new users", new_user, (n,), np.float32)
        return BaseTerms(fold_in, neighbours, two_tower, new_user)

    def taken(self, rows: Rows) -> BaseTerms:
        """The terms of these rows of the catalogue only, in this order."""
        neighbours = tuple(each.taken(rows) for each in self.neighbours)
        fold_in, two_tower = self.fold_in and self.fold_in.taken(rows), self.two_tower and self.two_tower.taken(rows)
        return BaseTerms(fold_in, neighbours, two_tower, None if self.new_user is None else self.new_user[rows])

    def scaled(self, factor: float) -> BaseTerms:
        """The same terms with all scores multiplied by ``factor``."""
        neighbours = tuple(replace(one, weights=one.weights * np.float32(factor)) for one in self.neighbours)
        fold_in = self.fold_in and replace(self.fold_in, scale=self.fold_in.scale * factor)
        two_tower = self.two_tower and replace(self.two_tower, scale=self.two_tower.scale * factor)
        new_user = None if self.new_user is None else self.new_user * np.float32(factor)
        return BaseTerms(fold_in, neighbours, two_tower, new_user)

    def added(self, rows: Ints, filled: Mask, n: int) -> list[AddedScores] | None:
        """The scores that are added for each padded history; None if these terms never add any."""
        parts = [[AddedScores(n, given, items) for items, given in one.scores(rows, filled)] for one in self.neighbours]
        if self.new_user is not None:
            nothing, popular = AddedScores(n, np.zeros(0), np.zeros(0, np.intp)), AddedScores.dense(self.new_user)
            parts.append([nothing if known.any() else popular for known in filled])
        return [reduce(AddedScores.plus, of_user) for of_user in zip(*parts, strict=True)] if parts else None

    # --- files ---

    def packed(self) -> dict[str, Array]:
        """The arrays by name, to be saved."""
        parts: dict[str, Array] = {}
        if self.fold_in is not None:
            one = self.fold_in
            parts |= {"fold_in.items": one.items, "fold_in.solved": one.solved}
            parts["fold_in.settings"] = np.array([one.confidence, one.decay, one.scale])
        if self.two_tower is not None:
            tower = self.two_tower
            arrays = {"items": tower.items, "seen": tower.seen, "last": tower.last, "bias": tower.bias}
            arrays["settings"] = np.array([tower.decay, tower.scale])
            parts |= {f"two_tower.{name}": array for name, array in arrays.items()}
        for number, each in enumerate(self.neighbours):
            arrays = {"offsets": each.offsets, "items": each.items, "weights": each.weights}
            arrays["settings"] = np.array([each.decay, each.power])
            parts |= {f"neighbours.{number}.{name}": array for name, array in arrays.items()}
        return parts if self.new_user is None else {**parts, "new_user.scores": self.new_user}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, Array]) -> BaseTerms:
        """The inverse of ``packed``; nothing is copied."""
        fold_in, two_tower, neighbours = None, None, list[Neighbours]()
        if "fold_in.items" in arrays:
            settings = arrays["fold_in.settings"].tolist()
            fold_in = FoldIn(arrays["fold_in.items"], arrays["fold_in.solved"], *settings)
        if tower := under("two_tower.", arrays):
            settings = tower["settings"].tolist()
            two_tower = TwoTower(tower["items"], tower["seen"], tower["last"], tower["bias"], *settings)
        while part := under(f"neighbours.{len(neighbours)}.", arrays):
            neighbours.append(Neighbours(part["offsets"], part["items"], part["weights"], *part["settings"].tolist()))
        return cls(fold_in, tuple(neighbours), two_tower, arrays.get("new_user.scores"))
