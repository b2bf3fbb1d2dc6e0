"""Lists of integers of different lengths, stored as one array and the offset of each list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Ints
from setwise._validation import frozen
from setwise.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Ragged:
    """Lists of integers of different lengths: list r is values[offsets[r] : offsets[r + 1]]."""

    values: Ints
    offsets: Ints

    @classmethod
    def of(cls, lists: Iterable[ArrayLike]) -> Ragged:
        """From any iterable of integer lists."""
        arrays = [np.asarray(one).ravel() for one in lists]
        if any(len(one) and one.dtype.kind not in "iu" for one in arrays):
            raise InvalidInput("lists", "of whole numbers", "other values", "number the items, or use Sessions.of(ids)")
        return cls.cut(np.concatenate([np.empty(0, np.int64), *arrays]), [len(one) for one in arrays])

    @classmethod
    def cut(cls, values: ArrayLike, lengths: ArrayLike) -> Ragged:
        """From the concatenated lists and their lengths."""
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(frozen(np.array(values, np.int64)), frozen(offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ints:
        row = range(len(self))[row]
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[Ints]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> Ints:
        """The length of each list."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> Ints:
        """The list that each of ``values`` belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def places(self, lists: ArrayLike) -> Ints:
        """The positions in ``values`` of the entries of these lists, list after list."""
        chosen = np.asarray(lists, np.int64)
        lengths = self.lengths[chosen]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(np.repeat(self.offsets[chosen], lengths) + within)

    def taken(self, lists: ArrayLike) -> Ragged:
        """The lists with these numbers, in this order."""
        chosen = np.asarray(lists, np.int64)
        return Ragged.cut(self.values[self.places(chosen)], self.lengths[chosen])

    def kept(self, mask: NDArray[np.bool_]) -> Ragged:
        """The entries where ``mask`` (aligned with ``values``) is true; lists may become empty."""
        return Ragged.cut(self.values[mask], np.bincount(self.owner[mask], minlength=len(self)))

    def holds(self, lists: Ints, values: Ints) -> NDArray[np.bool_]:
        """Whether list ``lists[i]`` contains ``values[i]``, for each i."""
        n = 1 + max(self.values.max(initial=0), values.max(initial=0))
        held, asked = np.sort(self.owner * n + self.values), lists * n + values
        place = np.searchsorted(held, asked)  # np.isin hashes; such regular keys collide, and it took 20 times as long
        return np.asarray(np.append(held, -1)[place] == asked)

    def joined(self, others: Ragged) -> Ragged:
        """The lists of both, these first."""
        return Ragged.cut(np.concatenate([self.values, others.values]), np.concatenate([self.lengths, others.lengths]))

    def padded(self, width: int) -> tuple[Ints, NDArray[np.bool_]]:
        """The last ``width`` entries of every list as a rectangle, and a mask of its filled places (the first)."""
        lengths = np.minimum(self.lengths, width)
        filled = np.arange(width) < lengths[:, None]
        places = self.offsets[1:, None] - lengths[:, None] + np.arange(width)
        return np.where(filled, self.values[np.where(filled, places, 0)] if len(self.values) else 0, 0), filled
