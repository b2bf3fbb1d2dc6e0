"""Base terms of a history: the parts of a user that base models compute from it, other than by pooling.

    fold_in      a vector that is appended to u⁰, next to the item factors in the catalogue's base (fold_in.py)
    neighbours   scores of the items that are related to the history, added to their arguments (neighbours.py)

A sum of both is again one base term: the dot product of longer vectors, plus added scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from setwise._types import Array, Ints, Mask, Rows
from setwise.model.added_scores import AddedScores
from setwise.model.fold_in import FoldIn
from setwise.model.neighbours import Neighbours
from setwise.storage.artifact import under


@dataclass(frozen=True, eq=False)
class BaseTerms:
    """A fold-in, or None, and any number of neighbour matrices."""

    fold_in: FoldIn | None = None
    neighbours: tuple[Neighbours, ...] = ()

    @property
    def columns(self) -> int:
        """The columns of the catalogue's base that belong to the fold-in: its last ones."""
        return 0 if self.fold_in is None else int(self.fold_in.items.shape[1])

    def checked(self, n: int) -> BaseTerms:
        """The same with all arrays checked, for a catalogue of ``n`` items."""
        return BaseTerms(self.fold_in and self.fold_in.checked(n), tuple(one.checked(n) for one in self.neighbours))

    def taken(self, rows: Rows) -> BaseTerms:
        """The terms of these rows of the catalogue only, in this order."""
        one = self.fold_in
        fold_in = one and replace(one, items=one.items[rows], solved=one.solved[rows])
        return BaseTerms(fold_in, tuple(each.taken(rows) for each in self.neighbours))

    def scaled(self, factor: float) -> BaseTerms:
        """The same terms with all scores multiplied by ``factor``."""
        fold_in = self.fold_in and replace(self.fold_in, scale=self.fold_in.scale * factor)
        return BaseTerms(
            fold_in, tuple(replace(one, weights=one.weights * np.float32(factor)) for one in self.neighbours)
        )

    def added(self, rows: Ints, filled: Mask, n: int) -> list[AddedScores] | None:
        """The scores that the neighbours add for each padded history; None without neighbours."""
        parts = [[AddedScores(n, given, items) for items, given in one.scores(rows, filled)] for one in self.neighbours]
        return [reduce(AddedScores.plus, of_user) for of_user in zip(*parts, strict=True)] if parts else None

    # --- files ---

    def packed(self) -> dict[str, Array]:
        """The arrays by name, to be saved."""
        parts: dict[str, Array] = {}
        if self.fold_in is not None:
            one = self.fold_in
            parts |= {"fold_in.items": one.items, "fold_in.solved": one.solved}
            parts["fold_in.settings"] = np.array([one.confidence, one.decay, one.scale])
        for number, each in enumerate(self.neighbours):
            arrays = {"offsets": each.offsets, "items": each.items, "weights": each.weights}
            arrays["settings"] = np.array([each.decay, each.power])
            parts |= {f"neighbours.{number}.{name}": array for name, array in arrays.items()}
        return parts

    @classmethod
    def unpacked(cls, arrays: Mapping[str, Array]) -> BaseTerms:
        """The inverse of ``packed``; nothing is copied."""
        fold_in, neighbours = None, list[Neighbours]()
        if "fold_in.items" in arrays:
            settings = arrays["fold_in.settings"].tolist()
            fold_in = FoldIn(arrays["fold_in.items"], arrays["fold_in.solved"], *settings)
        while part := under(f"neighbours.{len(neighbours)}.", arrays):
            neighbours.append(Neighbours(part["offsets"], part["items"], part["weights"], *part["settings"].tolist()))
        return cls(fold_in, tuple(neighbours))
