"""ChoiceLog: the items offered in each choice, and the item chosen.

    offered  (N, n)   the alternatives of each choice
    chosen   (N,)     the row of the chosen item, or −1: none of them (the outside option)
    context  (N, n)   the items whose presence exerts the halo: the offered ones unless given otherwise

In a basket the two differ: the context is the rest of the basket, and every item outside that rest is an alternative.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._validation import require_shape, whole_number
from setwise.errors import InvalidInput
from setwise.model.ids import IdChoice, Ids

Sets = Sequence[Collection[Any]]  # of ids


@dataclass(frozen=True, eq=False)
class ChoiceLog:
    """N choices among n items."""

    ids: Ids
    offered: NDArray[np.bool_]
    chosen: NDArray[np.intp]
    context: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if not len(self.chosen):
            raise InvalidInput("log", "a list of at least one choice", "none", "check the source of the log")
        for name in ("offered", "context"):
            object.__setattr__(self, name, _flags(name, getattr(self, name), (len(self.chosen), len(self.ids))))
        object.__setattr__(self, "chosen", _rows_or_none(self.chosen, len(self.ids)))
        taken = np.flatnonzero(self.chosen >= 0)
        bad = taken[~self.offered[taken, self.chosen[taken]]]
        if bad.size:
            got = f"{self.ids[self.chosen[bad[0]]]!s} in choice {bad[0]}, where it was not"
            raise InvalidInput("chosen", "among the offered items", got, "correct the log")

    @classmethod
    def of(cls, offered: Sets, chosen: Sequence[Any], items: int | IdChoice, context: Sets | None = None) -> ChoiceLog:
        """From offered sets of ids and the item chosen from each, None for no item.

        ``items`` are all ids, or their number n; then the ids are 0 … n − 1.
        """
        for name, others in (("chosen", chosen), ("context", context)):
            if others is not None and len(others) != len(offered):
                raise InvalidInput(name, f"one for each of {len(offered)} offers", len(others), "align the lists")
        ids = _ids(items)
        has_choice = np.array([id_ is not None for id_ in chosen], bool)
        taken = np.full(len(offered), -1, np.intp)
        taken[has_choice] = ids.rows_of([id_ for id_ in chosen if id_ is not None])
        shown = membership(offered, ids)
        return cls(ids, shown, taken, shown if context is None else membership(context, ids))

    @classmethod
    def from_slates(cls, slates: Sets, hits: Sets, items: int | IdChoice) -> ChoiceLog:
        """From shown slates and the items chosen from each: a hit is one choice, a slate without hits one of None."""
        if len(hits) != len(slates):
            raise InvalidInput("hits", f"one set for each of {len(slates)} slates", len(hits), "align the lists")
        pairs = [(slate, hit) for slate, taken in zip(slates, hits, strict=True) for hit in (taken or (None,))]
        return cls.of([slate for slate, _ in pairs], [hit for _, hit in pairs], items)

    @classmethod
    def from_baskets(cls, baskets: Sets, items: int | IdChoice) -> ChoiceLog:
        """From baskets: each member was chosen given the others, among all items that are not one of these others.

        Baskets of one item are left out: they have no context.
        """
        ids = _ids(items)
        members = membership(baskets, ids)
        basket, chosen = np.nonzero(members & (members.sum(axis=1) > 1)[:, None])
        context = members[basket]
        context[np.arange(len(chosen)), chosen] = False
        return cls(ids, ~context, chosen, context)

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def outside_option(self) -> bool:
        """Whether some choice is of no item; otherwise the log does not identify an outside option."""
        return bool((self.chosen < 0).any())


def membership(sets: Sets, ids: Ids) -> NDArray[np.bool_]:
    """Which item is in which set: (len(sets), n)."""
    result = np.zeros((len(sets), len(ids)), bool)
    number = np.repeat(np.arange(len(sets)), [len(members) for members in sets])
    result[number, ids.rows_of([item for members in sets for item in members])] = True
    return result


def _ids(items: int | IdChoice) -> Ids:
    if isinstance(items, (int, np.integer)):
        return Ids.numbered(whole_number("items", items))
    return Ids.of(items, len(items))


def _flags(parameter: str, flags: Any, shape: tuple[int, int]) -> NDArray[np.bool_]:
    array = np.asarray(flags)
    require_shape(parameter, array, shape)
    if array.dtype != bool:
        raise InvalidInput(parameter, "an array of booleans", f"dtype {array.dtype}", "compare it with 0")
    return array


def _rows_or_none(rows: Any, n: int) -> NDArray[np.intp]:
    array = np.asarray(rows)
    require_shape("chosen", array, ("choices",))
    must = f"row numbers, 0 to {n - 1}, or -1 for nothing"
    if array.dtype.kind not in "iu":
        raise InvalidInput("chosen", must, f"dtype {array.dtype}", "pass row numbers")
    outside = (array < -1) | (array >= n)
    if outside.any():
        raise InvalidInput("chosen", must, int(array[outside][0]), "correct the log")
    return array.astype(np.intp, copy=False)
