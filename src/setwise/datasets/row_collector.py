"""Collection of the rows of a table into sessions or slates: compact arrays first, one sort at the end."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._validation import frozen
from setwise.datasets.attribute_values import AttributeValues
from setwise.datasets.grouping import as_int64, group_by_owner, windows
from setwise.datasets.id_encoder import IdEncoder
from setwise.datasets.missing import is_missing
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.text_files import OnMalformed, Skipped, is_negative, parse_number, stop
from setwise.datasets.timestamps import TimestampParser
from setwise.errors import InvalidInput, MalformedFile
from setwise.model.ragged import Ragged

MORE = ("position", "explored", "propensity")  # numbers that a row of a slate may have
_SHARE = "0 to 1, or true or false (1 for a hit, 0 for none)"
_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Columns:
    """The names of the columns, in the order of the cells of a row."""

    item: str
    session: Sequence[str]
    time: str | None
    slate: str | None
    outcome: str | None
    ordered: str | None
    quantity: str | None
    position: str | None
    explored: str | None
    propensity: str | None
    attributes: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """All names, in that order."""
        return [self.item, *self.session, *self.single.values(), *self.attributes.values()]

    @property
    def required(self) -> dict[str, Sequence[str]]:
        """The names by role, without those of attributes, which rows of JSON may lack."""
        return {"item": [self.item], "session": self.session, **{role: [name] for role, name in self.single.items()}}

    @property
    def single(self) -> dict[str, str]:
        """The names of the columns that may be absent, by role; the quantity is the last of them."""
        optional = ("time", "slate", "outcome", "position", "explored", "propensity", "ordered", "quantity")
        return {role: name for role in optional if (name := getattr(self, role)) is not None}


class RowCollector:
    """The rows of a table as compact arrays: numbers of session, slate and item."""

    def __init__(
        self,
        file: Path,
        columns: Columns,
        timestamps: TimestampParser,
        skipped: Skipped,
        malformed: OnMalformed = stop,
    ) -> None:
        self._malformed, self._quantity_at = malformed, len(columns.single) - 1
        self._file, self._columns, self._timestamps, self._skipped = file, columns, timestamps, skipped
        self._items, self._session_of, self._slate_of = IdEncoder(file), dict[Any, int](), dict[Any, int]()
        self._item, self._session, self._slate = array("q"), array("q"), array("q")
        self._time, self._outcome, self._ordered = array("d"), array("d"), array("b")
        self._more = {role: array("d") for role in MORE if getattr(columns, role) is not None}
        self._attributes = AttributeValues(file, columns.attributes)

    def add_rows(self, rows: Iterator[tuple[int, Sequence[Any]]]) -> None:
        """Add all rows."""
        n_keys = len(self._columns.session)
        for line, (item, *cells) in rows:
            keys, further = cells[:n_keys], cells[n_keys:]
            reason = self._reason_to_skip(item, keys, further)
            if reason is not None:
                self._skipped[reason] += 1
                continue
            try:
                self._add_row(line, item, keys if n_keys != 1 else keys[0], iter(further))
            except MalformedFile as error:
                self._malformed(error)

    def _reason_to_skip(self, item: Any, keys: Sequence[Any], further: Sequence[Any]) -> str | None:
        """Why a row is no part of a session, if it is none; ``further`` are its cells after those of the session."""
        if is_missing(item):
            return "rows without an item"
        if any(map(is_missing, keys)):
            return "rows without a session"
        if self._columns.time is not None and is_missing(further[0]):
            return f"rows without a time in '{self._columns.time}' (--no-time would keep them)"
        if self._columns.quantity is not None and is_negative(further[self._quantity_at]):
            return f"rows of returns or cancellations, where '{self._columns.quantity}' is negative"
        return None

    def _add_row(self, line: int, item: Any, keys: Any, further: Iterator[Any]) -> None:
        """Parse every cell first, then add: a malformed row leaves nothing behind but its ids."""
        if type(item) is list and (self._columns.slate is not None or self._columns.attributes):
            must = "one per row where there are slates or attributes"
            raise MalformedFile(self._file, line, f"items must be {must}, got a list")
        time = self._timestamps(line, next(further)) if self._columns.time is not None else 0.0
        shown = self._shown(line, next(further), next(further)) if self._columns.slate is not None else None
        more = {role: self._number(line, role, next(further)) for role in self._more}
        ordered = self._columns.ordered and self._fraction(line, self._columns.ordered, next(further)) > 0
        if self._columns.quantity is not None:
            next(further)  # how many there are does not count
        attributes = list(further)
        self._attributes.require(line, attributes)
        items = self._item_rows(line, item)
        session = self._session_row(line, item, keys)
        self._item.extend(items)
        self._session.extend([session] * len(items))
        if self._columns.time is not None:
            self._time.extend([time] * len(items))
        if shown is not None:
            slate, outcome = shown
            self._slate.append(self._slate_of.setdefault((session, slate), len(self._slate_of)))
            self._outcome.append(outcome)
            for role, number in more.items():
                self._more[role].append(number)
        if self._columns.ordered is not None:
            self._add_order(session, bool(ordered))
        if attributes:
            self._attributes.add(items[0], attributes)

    def _shown(self, line: int, slate: Any, outcome: Any) -> tuple[Any, float]:
        """The name of the slate and the outcome of its item."""
        if is_missing(slate) or isinstance(slate, (list, dict)):
            raise MalformedFile(self._file, line, f"a slate must have a name or number, got {slate!r:.60}")
        return slate, self._fraction(line, self._columns.outcome, outcome)

    def _add_order(self, session: int, ordered: bool) -> None:
        """A session is ordered if the cell is true in all its rows."""
        if session == len(self._ordered):
            self._ordered.append(ordered)
        self._ordered[session] &= ordered

    def _session_row(self, line: int, item: Any, keys: Any) -> int:
        """The number of the session of a row."""
        if not self._columns.session:
            if type(item) is not list:
                got, todo = "None, with one item a row", "name the column of the session"
                raise InvalidInput("session", "the name of a column", got, todo)
            keys = line  # every row is one session
        try:
            key = tuple(keys) if len(self._columns.session) > 1 else keys
            return self._session_of.setdefault(key, len(self._session_of))
        except TypeError:
            raise MalformedFile(self._file, line, f"a session must be text or a number, got {keys!r:.60}") from None

    def _item_rows(self, line: int, item: Any) -> list[int]:
        if type(item) is not list:
            return [self._items.row(line, item)]
        return [self._items.row(line, id_) for id_ in item]

    def _fraction(self, line: int, column: str | None, cell: Any) -> float:
        """A cell as a number from 0 to 1; true and false count as 1 and 0."""
        word = cell.strip().lower() if isinstance(cell, str) else cell
        number = _TRUTH[word] if isinstance(word, str) and word in _TRUTH else parse_number(word)
        if not 0 <= number <= 1:
            raise MalformedFile(self._file, line, f"'{column}' must be {_SHARE}, got {cell!r:.60}")
        return number

    def _number(self, line: int, role: str, cell: Any) -> float:
        """A cell of the position, of whether the slate was explored, or of its propensity."""
        column = getattr(self._columns, role)
        if role == "explored":
            return self._fraction(line, column, cell)
        number = parse_number(cell)
        if not np.isfinite(number) or (role == "propensity" and not 0 < number <= 1):
            must = "a number" if role == "position" else "above 0 and at most 1"
            raise MalformedFile(self._file, line, f"'{column}' must be {must}, got {cell!r:.60}")
        return number

    def sessions(self) -> Sessions:
        """The rows, grouped into sessions."""
        time = self._timestamps.resolve(self._time) if self._columns.time is not None else None
        items = group_by_owner(self._session, self._item, len(self._session_of), time)
        ordered = frozen(np.array(self._ordered, bool)) if self._columns.ordered is not None else None
        starts = None if time is None else self._earliest(self._session, len(self._session_of), time)
        return Sessions(items, self._items.ids, self._columns_of_items(), ordered, starts)

    def slates(self) -> Slates:
        """The rows, grouped into slates, each with the history of its session."""
        count = len(self._slate_of)
        kept, outcome = self._distinct()
        item, slate = as_int64(self._item)[kept], as_int64(self._slate)[kept]
        shown = group_by_owner(slate, item, count)
        order = np.argsort(slate, kind="stable")
        aligned = outcome[order]
        more = {role: np.asarray(numbers)[kept][order] for role, numbers in self._more.items()}
        session = np.array([session for session, _ in self._slate_of], np.int64)
        timed = self._columns.time is not None
        time = self._timestamps.resolve(self._time) if timed else np.zeros(len(self._item))
        starts = self._earliest(self._slate, count, time)
        history = _histories(shown, aligned, session, starts)
        outcomes, columns = frozen(aligned.astype(np.float32)), self._columns_of_items()
        return Slates(
            history,
            shown,
            outcomes,
            self._items.ids,
            columns,
            starts if timed else None,
            place=_ranks(more.get("position")),
            session=frozen(session),
            explored=_by_slate(more.get("explored"), shown, "explored"),
            propensity=_by_slate(more.get("propensity"), shown, "propensity"),
        )

    def _columns_of_items(self) -> dict[str, Sequence[Any]]:
        return self._attributes.columns(len(self._items), self._skipped)

    def _distinct(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The rows that count, and their outcomes; a repeated item of a slate counts once, with its largest outcome."""
        pairs = as_int64(self._slate) * max(len(self._items), 1) + as_int64(self._item)
        _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
        best = np.zeros(len(first))
        np.maximum.at(best, which.ravel(), np.asarray(self._outcome))
        if len(first) < len(pairs):
            self._skipped["rows that repeat an item of their slate"] += len(pairs) - len(first)
        order = np.argsort(first)
        return first[order], best[order]

    @staticmethod
    def _earliest(owner: array[int], count: int, time: NDArray[np.float64]) -> NDArray[np.float64]:
        """The earliest time of each of ``count`` sessions or slates."""
        starts_at = np.full(count, np.inf)
        np.minimum.at(starts_at, as_int64(owner), time)
        return starts_at


def _ranks(position: NDArray[np.float64] | None) -> NDArray[np.int64] | None:
    """Places 0, 1, … in the order of the positions."""
    return None if position is None else np.unique(position, return_inverse=True)[1].astype(np.int64)


def _by_slate(numbers: NDArray[np.float64] | None, shown: Ragged, role: str) -> NDArray[Any] | None:
    """One value a slate: explored if all rows say so; the propensity that all rows have, else their product."""
    if numbers is None:
        return None
    starts = shown.offsets[:-1]
    least, most = np.minimum.reduceat(numbers, starts), np.maximum.reduceat(numbers, starts)
    if role == "explored":
        return np.asarray(least > 0)
    return np.where(least == most, most, np.multiply.reduceat(numbers, starts))


def _histories(
    shown: Ragged, outcome: NDArray[np.float64], session: NDArray[np.int64], starts_at: NDArray[np.float64]
) -> Ragged:
    """For every slate the items with a positive outcome in earlier slates of its session."""
    order = np.lexsort((starts_at, session))  # slates by session, then time, then first row
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    positive = outcome > 0
    when = position[shown.owner[positive]]
    events = np.argsort(when, kind="stable")
    first = np.searchsorted(session[order], session)  # the position of the first slate of the session
    starts, ends = np.searchsorted(when[events], first), np.searchsorted(when[events], position)
    return windows(shown.values[positive][events], starts, ends)
