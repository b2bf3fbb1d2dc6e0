"""Interaction data in two forms: sessions and slates.

* ``Sessions``: the items of every session, in order (a playlist, a basket, a user's sequence).
* ``Slates``: for every slate the history of its user, the items shown, and the outcome of each of them.

Items are row numbers of a list of ids, which both forms hold, with attributes such as titles. Lists of different
lengths are stored as one array and the offset of each list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Ints
from setwise._validation import frozen, whole_number
from setwise.errors import InvalidInput
from setwise.model.ragged import Ragged

BY_SLATE = ("session", "explored", "propensity")  # what a log may say of a slate


@dataclass(frozen=True, eq=False)
class Sessions:
    """Ordered items of many sessions; ``items`` holds row numbers of ``ids``.

    ``ordered`` has one truth value per session: False if the order of its items has no meaning (such as in a file of
    sorted ids). None: all sessions are ordered. ``starts`` has the time of each session's first item, a number that
    sorts like the times of the file; None if there are no times.
    """

    items: Ragged
    ids: Sequence[Any]
    attributes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ordered: NDArray[np.bool_] | None = None
    starts: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        _refuse_rows_outside("session items", self.items, len(self.ids))
        _refuse_misaligned(self.attributes, len(self.ids))
        if self.ordered is not None and len(self.ordered) != len(self.items):
            must = f"{len(self.items)} truth values, one per session"
            raise InvalidInput("ordered", must, f"{len(self.ordered)}", "align it with the sessions")
        _refuse_other_starts(self.starts, len(self.items))

    @classmethod
    def of(
        cls, sessions: Iterable[Sequence[Any]], attributes: Mapping[str, Mapping[Any, Any]] | None = None
    ) -> Sessions:
        """From lists of ids: ids are numbered in the order they appear. ``attributes``: {name: {id: value}}."""
        row_of: dict[Any, int] = {}
        items = Ragged.of([[row_of.setdefault(id_, len(row_of)) for id_ in session] for session in sessions])
        columns = {name: [column.get(id_) for id_ in row_of] for name, column in (attributes or {}).items()}
        return cls(items, list(row_of), columns)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def n_items(self) -> int:
        """The number of ids, including those that no session holds."""
        return len(self.ids)

    @property
    def popularity(self) -> Ints:
        """The number of occurrences of each item."""
        return np.bincount(self.items.values, minlength=self.n_items)

    def taken(self, rows: ArrayLike) -> Sessions:
        """The sessions at these positions, over the same ids."""
        chosen = np.asarray(rows, np.int64)
        ordered = None if self.ordered is None else self.ordered[chosen]
        return replace(self, items=self.items.taken(chosen), ordered=ordered, starts=_taken(self.starts, chosen))

    def distinct(self) -> Sessions:
        """The sessions without repeated items: the first occurrence of each stays."""
        pairs = self.items.owner * max(self.n_items, 1) + self.items.values
        first = np.zeros(len(pairs), bool)
        first[np.unique(pairs, return_index=True)[1]] = True
        return replace(self, items=self.items.kept(first))

    def shuffled_where_unordered(self, seed: int = 0) -> Sessions:
        """Unordered sessions in random order, so that their first items are not those of the smallest ids."""
        if self.ordered is None or self.ordered.all():
            return self
        rng = np.random.default_rng(whole_number("seed", seed, least=0))
        owner = self.items.owner
        within = np.arange(len(owner), dtype=np.float64)
        shuffled = ~self.ordered[owner]
        within[shuffled] = rng.random(np.count_nonzero(shuffled))
        return replace(self, items=Ragged.cut(self.items.values[np.lexsort((within, owner))], self.items.lengths))

    def trimmed(self, least_sessions: int = 1, least_items: int = 1) -> Sessions:
        """Items of at least ``least_sessions`` sessions, then sessions of at least ``least_items`` such items."""
        distinct = self.distinct()
        common = distinct.popularity >= whole_number("least_sessions", least_sessions)
        items = self.items.kept(common[self.items.values])
        long = np.flatnonzero(items.lengths >= whole_number("least_items", least_items))
        return replace(self, items=items).taken(long).renumbered(np.flatnonzero(common))

    def renumbered(self, rows: ArrayLike) -> Sessions:
        """The sessions over the ids of these rows only, in this order; no session may hold other ids."""
        kept = np.asarray(rows, np.int64)
        place = np.full(self.n_items, -1)
        place[kept] = np.arange(len(kept))
        return replace(
            self,
            items=Ragged(frozen(place[self.items.values]), self.items.offsets),
            ids=_select(self.ids, kept),
            attributes={name: _select(column, kept) for name, column in self.attributes.items()},
        )


@dataclass(frozen=True, eq=False)
class Slates:
    """Histories, slates shown, and outcomes: ``outcome`` (0 to 1) is aligned with ``shown.values``.

    ``starts`` has the time of each slate, as in ``Sessions``. What else a log may say, for each slate but for the
    places: ``place`` (0, 1, … of every item shown), ``session`` (the number of the session or user that the slate
    belongs to), ``explored`` (whether its items were drawn at random) and ``propensity`` (with which probability the
    policy showed this slate).
    """

    history: Ragged
    shown: Ragged
    outcome: NDArray[np.float32]
    ids: Sequence[Any]
    attributes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    starts: NDArray[np.float64] | None = None
    place: NDArray[np.int64] | None = None
    session: NDArray[np.int64] | None = None
    explored: NDArray[np.bool_] | None = None
    propensity: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        _refuse_other_starts(self.starts, len(self.shown))
        for name in ("place", *BY_SLATE):
            count = len(self.shown.values) if name == "place" else len(self.shown)
            column = getattr(self, name)
            if column is not None and np.shape(column) != (count,):
                must = f"{count} values, one per {'item shown' if name == 'place' else 'slate'}"
                raise InvalidInput(name, must, f"shape {np.shape(column)}", "align them, or leave them out")
        _refuse_rows_outside("history", self.history, len(self.ids))
        _refuse_rows_outside("shown", self.shown, len(self.ids))
        _refuse_misaligned(self.attributes, len(self.ids))
        if len(self.history) != len(self.shown):
            raise InvalidInput(
                "history", f"{len(self.shown)} lists, one per slate", f"{len(self.history)}", "align them"
            )
        if not self.shown.lengths.all():
            raise InvalidInput("shown", "slates of an item or more", "an empty one", "leave empty slates out")
        outcome = np.asarray(self.outcome)
        must = f"{len(self.shown.values)} numbers from 0 to 1, one per item shown"
        if outcome.shape != self.shown.values.shape:
            raise InvalidInput("outcome", must, f"shape {outcome.shape}", "align outcomes with the items shown")
        outside = ~((outcome >= 0) & (outcome <= 1))  # NaN too
        if outside.any():
            at = int(np.argmax(outside))
            raise InvalidInput("outcome", must, f"{outcome[at]:g} at position {at}", "map outcomes to 0 … 1")

    def __len__(self) -> int:
        return len(self.shown)

    @property
    def n_items(self) -> int:
        """The number of ids."""
        return len(self.ids)

    def taken(self, rows: ArrayLike) -> Slates:
        """The slates at these positions, over the same ids."""
        chosen = np.asarray(rows, np.int64)
        cells = self.shown.places(chosen)
        history, shown = self.history.taken(chosen), self.shown.taken(chosen)
        by_slate: dict[str, Any] = {name: _taken(getattr(self, name), chosen) for name in ("starts", *BY_SLATE)}
        outcome, place = frozen(self.outcome[cells]), _taken(self.place, cells)
        return replace(self, history=history, shown=shown, outcome=outcome, place=place, **by_slate)

    def joined(self, others: Slates) -> Slates:
        """These slates followed by the others, which are over the same ids."""
        if list(self.ids) != list(others.ids):
            raise InvalidInput("slates", "over the same ids", "different ids", "build both from one list of ids")
        columns = ("place", "explored", "propensity")
        more: dict[str, Any] = {name: _joined(getattr(self, name), getattr(others, name)) for name in columns}
        return replace(
            self,
            history=self.history.joined(others.history),
            shown=self.shown.joined(others.shown),
            outcome=frozen(np.concatenate([self.outcome, others.outcome])),
            starts=None,  # of two sources: their clocks may differ, and so may their sessions
            session=None,
            **more,
        )


def _taken(column: NDArray[Any] | None, rows: Ints) -> NDArray[Any] | None:
    return None if column is None else column[rows]


def _joined(column: NDArray[Any] | None, others: NDArray[Any] | None) -> NDArray[Any] | None:
    """Both columns; None where one of them is missing."""
    return None if column is None or others is None else np.concatenate([column, others])


def _refuse_other_starts(starts: NDArray[np.float64] | None, count: int) -> None:
    if starts is not None and len(starts) != count:
        raise InvalidInput("starts", f"{count} times, one for each", f"{len(starts)}", "align it, or leave it out")


def _select(column: Sequence[Any], rows: Ints) -> Sequence[Any]:
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]


def _refuse_rows_outside(name: str, lists: Ragged, n: int) -> None:
    if len(lists.values) and not (lists.values.min() >= 0 and lists.values.max() < n):
        worst = lists.values[(lists.values < 0) | (lists.values >= n)][0]
        raise InvalidInput(name, f"rows of the {n} ids", f"row {worst}", "number items by their place among ids")


def _refuse_misaligned(attributes: Mapping[str, Sequence[Any]], n: int) -> None:
    for name, column in attributes.items():
        if len(column) != n:
            raise InvalidInput(f"attribute '{name}'", f"{n} values, one per id", f"{len(column)}", "align it with ids")
