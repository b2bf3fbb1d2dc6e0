"""Rows of a table, gathered into sessions or slates: compact arrays while they arrive, put in order at the end."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._validation import frozen
from setwise.datasets.id_encoder import IdEncoder, as_int64, group_by_owner, windows
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.text_files import Skipped, parse_number
from setwise.datasets.timestamps import TimestampParser
from setwise.errors import InvalidInput, MalformedFile
from setwise.model.ragged import Ragged

_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Columns:
    """The names of the columns, in the order in which their cells arrive."""

    item: str
    session: Sequence[str]
    time: str | None
    slate: str | None
    outcome: str | None
    ordered: str | None
    attributes: Mapping[str, str]

    @property
    def wanted(self) -> list[str]:
        """All of them, one after another."""
        single = [name for name in (self.time, self.slate, self.outcome, self.ordered) if name is not None]
        return [self.item, *self.session, *single, *self.attributes.values()]


class RowCollector:
    """Rows of a table, as compact arrays: a number for every session, slate and item."""

    def __init__(self, file: Path, columns: Columns, clock: TimestampParser, skipped: Skipped) -> None:
        self._file, self._columns, self._clock, self._skipped = file, columns, clock, skipped
        self._items, self._session_of, self._slate_of = IdEncoder(file), dict[Any, int](), dict[Any, int]()
        self._item, self._session, self._slate = array("q"), array("q"), array("q")
        self._time, self._outcome, self._ordered = array("d"), array("d"), array("b")
        self._attributes: dict[str, list[Any]] = {name: [] for name in columns.attributes}

    def take(self, rows: Iterator[tuple[int, Sequence[Any]]]) -> None:
        """Gather all rows."""
        n_keys = len(self._columns.session)
        for line, (item, *cells) in rows:
            keys = cells[:n_keys] if n_keys != 1 else cells[0]
            if _missing(item):
                self._skipped["rows without an item"] += 1
            elif any(map(_missing, cells[:n_keys])):
                self._skipped["rows without a session"] += 1
            else:
                self._take_row(line, item, keys, iter(cells[n_keys:]))

    def _take_row(self, line: int, item: Any, keys: Any, rest: Iterator[Any]) -> None:
        session, items = self._session_row(line, item, keys), self._item_rows(line, item)
        self._item.extend(items)
        self._session.extend([session] * len(items))
        if self._columns.time is not None:
            self._time.extend([self._clock(line, next(rest))] * len(items))
        if self._columns.slate is not None:
            self._take_shown(line, session, next(rest), next(rest))
        if self._columns.ordered is not None:
            self._take_order(line, session, next(rest))
        if self._attributes:
            for column in self._attributes.values():
                column.extend([None] * (len(self._items) - len(column)))
            describe(self._file, line, self._attributes, items[0], list(rest))

    def _take_shown(self, line: int, session: int, slate: Any, outcome: Any) -> None:
        if _missing(slate) or isinstance(slate, (list, dict)):
            raise MalformedFile(self._file, line, f"a slate must have a name or number, got {slate!r:.60}")
        self._slate.append(self._slate_of.setdefault((session, slate), len(self._slate_of)))
        self._outcome.append(self._share(line, self._columns.outcome, outcome))

    def _take_order(self, line: int, session: int, cell: Any) -> None:
        """A session is ordered when all its rows say so."""
        ordered = self._share(line, self._columns.ordered, cell) > 0
        if session == len(self._ordered):
            self._ordered.append(ordered)
        self._ordered[session] &= ordered

    def _session_row(self, line: int, item: Any, keys: Any) -> int:
        """The number of a row's session."""
        if not self._columns.session:
            if type(item) is not list:
                got, todo = "None, with one item a row", "name the column of the session"
                raise InvalidInput("session", "the name of a column", got, todo)
            keys = line  # every row is a session of its own
        try:
            key = tuple(keys) if len(self._columns.session) > 1 else keys
            return self._session_of.setdefault(key, len(self._session_of))
        except TypeError:
            raise MalformedFile(self._file, line, f"a session must be text or a number, got {keys!r:.60}") from None

    def _item_rows(self, line: int, item: Any) -> list[int]:
        if type(item) is not list:
            return [self._items.row(line, item)]
        if self._columns.slate is not None or self._columns.attributes:
            must = "one a row where there are slates or attributes"
            raise MalformedFile(self._file, line, f"items must be {must}, got a list")
        return [self._items.row(line, one) for one in item]

    def _share(self, line: int, column: str | None, cell: Any) -> float:
        """A cell from 0 to 1, or true or false."""
        word = cell.strip().lower() if isinstance(cell, str) else cell
        number = _TRUTH[word] if isinstance(word, str) and word in _TRUTH else parse_number(word)
        if not 0 <= number <= 1:
            raise MalformedFile(self._file, line, f"'{column}' must be 0 to 1, or true or false, got {cell!r:.60}")
        return number

    def sessions(self) -> Sessions:
        """All rows, session by session."""
        time = self._clock.resolve(self._time) if self._columns.time is not None else None
        items = group_by_owner(self._session, self._item, len(self._session_of), time)
        ordered = frozen(np.array(self._ordered, bool)) if self._columns.ordered is not None else None
        return Sessions(items, self._items.ids, self._attributes, ordered)

    def slates(self) -> Slates:
        """All rows, slate by slate, with what came before."""
        count = len(self._slate_of)
        item, slate, outcome = self._distinct()
        shown = group_by_owner(slate, item, count)
        aligned = outcome[np.argsort(slate, kind="stable")]
        session = np.array([session for session, _ in self._slate_of], np.int64)
        history = _before(shown, aligned, session, self._begins(count))
        return Slates(history, shown, frozen(aligned.astype(np.float32)), self._items.ids, self._attributes)

    def _distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Item, slate and outcome of the rows, an item once a slate, with the best outcome it had there."""
        pairs = as_int64(self._slate) * max(len(self._items), 1) + as_int64(self._item)
        _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
        best = np.zeros(len(first))
        np.maximum.at(best, which.ravel(), np.asarray(self._outcome))
        if len(first) < len(pairs):
            self._skipped["rows that repeat an item of their slate"] += len(pairs) - len(first)
        order = np.argsort(first)
        kept = first[order]
        return as_int64(self._item)[kept], as_int64(self._slate)[kept], best[order]

    def _begins(self, count: int) -> NDArray[np.float64]:
        """When each slate began; all at once where there is no time."""
        begins = np.full(count, np.inf)
        time = self._clock.resolve(self._time) if self._columns.time is not None else np.zeros(len(self._item))
        np.minimum.at(begins, as_int64(self._slate), time)
        return begins


def _before(
    shown: Ragged, outcome: NDArray[np.float64], session: NDArray[np.int64], begins: NDArray[np.float64]
) -> Ragged:
    """For every slate what had a positive outcome in earlier slates of its session."""
    order = np.lexsort((begins, session))  # slates by session, then time, then first row
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    liked = outcome > 0
    when = place[shown.owner[liked]]
    events = np.argsort(when, kind="stable")
    first = np.searchsorted(session[order], session)  # the place of the first slate of the session
    starts, ends = np.searchsorted(when[events], first), np.searchsorted(when[events], place)
    return windows(shown.values[liked][events], starts, ends)


def describe(file: Path, line: int, columns: Mapping[str, list[Any]], row: int, cells: Sequence[Any]) -> None:
    """Set what is not yet known about an item."""
    for (name, column), cell in zip(columns.items(), cells, strict=True):
        if column[row] is None and not _missing(cell):
            if not isinstance(cell, (str, int, float)):
                raise MalformedFile(file, line, f"attribute '{name}' must be text or a number, got {ascii(cell)[:60]}")
            column[row] = cell


def _missing(cell: Any) -> bool:
    return cell is None or cell == "" or cell != cell
