"""The RecSys Challenge 2019 of trivago: what visitors did, step by step, and the hotels they were shown.

``train.csv`` has a row a step. A step is about a hotel when its action says "item" and its reference is a number;
searches, filters and sort orders are not. A ``clickout item`` carries the list of hotels that was on the screen
(``impressions``) and their ``prices``, aligned and parted by "|".

Steps of a session (the same user and session) are put in order, wherever their rows stand. Steps that follow one
another about the same hotel count once: leafing through its pictures is one look at it.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._validation import frozen
from setwise.datasets.id_encoder import IdEncoder, as_int64, windows
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.text_files import Skipped, Source, cell_rows, column_positions, existing_file, report_skipped
from setwise.errors import MalformedFile
from setwise.model.ragged import Ragged

COLUMNS = ("user_id", "session_id", "timestamp", "step", "action_type", "reference", "impressions", "prices")
CLICKOUT = "clickout item"

_WHOLE = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
_WHOLES = re.compile(r"(?:0|[1-9]\d{0,17})(?:\|(?:0|[1-9]\d{0,17}))*", re.ASCII)


def read_trivago(
    path: Source, metadata: Source | None = None, progress: bool = True, skipped: Skipped | None = None
) -> Slates:
    """A slate for every clickout: before it the hotels of its session, shown the impressions, 1 for the hotel clicked.

    Clickouts that say nothing about a slate are left out and counted in ``skipped``. The attribute ``price`` is the
    latest one seen (NaN for a hotel that was never shown), ``properties`` (with ``metadata``) their "|"-parted text.
    """
    file, counts = existing_file(path), Skipped() if skipped is None else skipped
    items, steps, shown = IdEncoder(file), _Steps(), _Shown()
    for row in _rows(file, progress):
        item = items.row(row.line, int(row.reference)) if _is_about_item(row) else None
        if item is not None:
            steps.add(row, item)
        if row.action == CLICKOUT and _is_slate(row, counts):
            hotels, prices = _impressions(file, row.line, row.impressions, row.prices)
            shown.add([items.row(row.line, hotel) for hotel in hotels], prices, row.time, item, len(steps) - 1)
    report_skipped(counts, file, progress)
    attributes: dict[str, Any] = {"price": shown.latest_prices(len(items))}
    if metadata is not None:
        known = read_item_metadata(metadata, progress)
        attributes["properties"] = ["|".join(known[hotel]) if hotel in known else None for hotel in items.row_of]
    lists = Ragged.cut(as_int64(shown.items), as_int64(shown.lengths))
    return Slates(steps.before(as_int64(shown.step)), lists, shown.outcomes(), items.ids, attributes)


def read_trivago_sessions(path: Source, progress: bool = True) -> Sessions:
    """The hotels of every session in the order of its steps; sessions about no hotel do not appear."""
    file = existing_file(path)
    items, steps = IdEncoder(file), _Steps()
    for row in _rows(file, progress):
        if _is_about_item(row):
            steps.add(row, items.row(row.line, int(row.reference)))
    return Sessions(steps.sessions(), items.ids)


def read_trivago_impressions(path: Source, progress: bool = True) -> Sessions:
    """The lists of hotels that were shown, as sessions: for files that do not say which hotel was clicked.

    Any table with ``impressions`` and ``prices`` will do; rows without impressions are not lists. Attribute: price, as
    it stands last in the file.
    """
    file = existing_file(path)
    items, shown = IdEncoder(file), _Shown()
    for line, (impressions, prices) in _picked(file, ("impressions", "prices"), progress):
        if impressions:
            hotels, numbers = _impressions(file, line, impressions, prices)
            shown.add([items.row(line, hotel) for hotel in hotels], numbers, line, None, 0)
    lists = Ragged.cut(as_int64(shown.items), as_int64(shown.lengths))
    attributes: dict[str, Any] = {"price": shown.latest_prices(len(items))}
    return Sessions(lists, items.ids, attributes)


def read_item_metadata(path: Source, progress: bool = True) -> dict[int, tuple[str, ...]]:
    """The properties of hotels, by id, from ``item_metadata.csv`` or from a table of zeros and ones."""
    file = existing_file(path)
    rows = cell_rows(file, ",", progress)
    header = next(rows)[1]
    (at,) = column_positions(file, header, ["item_id"])
    wide = "properties" not in header
    result: dict[int, tuple[str, ...]] = {}
    for line, cells in rows:
        item = _whole(file, line, "item_id", cells[at])
        if item in result:
            raise MalformedFile(file, line, f"a hotel must have one row, got {item} again")
        if wide:
            result[item] = _ones(file, line, header, cells, at)
        else:
            result[item] = tuple(filter(None, cells[header.index("properties")].split("|")))
    return result


def _ones(file: Path, line: int, header: list[str], cells: list[str], at: int) -> tuple[str, ...]:
    """The names of the columns that are 1."""
    if not {"0", "1"}.issuperset(cells[:at] + cells[at + 1 :]):
        raise MalformedFile(file, line, "a property must be 0 or 1")
    return tuple(name for place, name in enumerate(header) if cells[place] == "1" and place != at)


# --- the rows ------------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    line: int
    session: tuple[str, str]
    time: int
    step: int
    action: str
    reference: str
    impressions: str
    prices: str


def _rows(file: Path, progress: bool) -> Iterator[_Row]:
    for line, (user, session, time, step, *rest) in _picked(file, COLUMNS, progress):
        if not session:
            raise MalformedFile(file, line, "a step must have a session_id")
        when, number = _whole(file, line, "timestamp", time), _whole(file, line, "step", step)
        yield _Row(line, (user, session), when, number, *rest)


def _picked(file: Path, columns: tuple[str, ...], progress: bool) -> Iterator[tuple[int, tuple[str, ...]]]:
    rows = cell_rows(file, ",", progress)
    pick = itemgetter(*column_positions(file, next(rows)[1], columns))
    return ((line, pick(cells)) for line, cells in rows)


def _whole(file: Path, line: int, column: str, cell: str) -> int:
    if not _WHOLE.fullmatch(cell):
        raise MalformedFile(file, line, f"'{column}' must be a whole number of at least 0, got {cell[:40]!r}")
    return int(cell)


def _is_about_item(row: _Row) -> bool:
    return "item" in row.action and _WHOLE.fullmatch(row.reference) is not None


def _is_slate(row: _Row, skipped: Skipped) -> bool:
    """Whether a clickout shows hotels and clicks one of them; the others are counted."""
    if not row.impressions:
        reason = "clickouts without impressions"
    elif not row.reference:
        reason = "clickouts without a reference"  # test.csv: what the challenge asks for
    elif row.reference not in row.impressions.split("|"):
        reason = "clickouts of a hotel that was not shown"
    else:
        return True
    skipped[reason] += 1
    return False


def _impressions(file: Path, line: int, impressions: str, prices: str) -> tuple[list[int], list[int]]:
    """Hotels and their prices, aligned; a hotel shown twice counts where it stood first."""
    if not (_WHOLES.fullmatch(impressions) and _WHOLES.fullmatch(prices)):
        raise MalformedFile(file, line, "impressions and prices must be whole numbers parted by '|'")
    hotels, numbers = list(map(int, impressions.split("|"))), list(map(int, prices.split("|")))
    if len(hotels) != len(numbers):
        reason = f"there must be a price for each of {len(hotels)} impressions, got {len(numbers)}"
        raise MalformedFile(file, line, reason)
    if len(set(hotels)) < len(hotels):
        first = dict(zip(reversed(hotels), reversed(numbers), strict=True))
        hotels = list(dict.fromkeys(hotels))
        numbers = [first[hotel] for hotel in hotels]
    return hotels, numbers


# --- what is gathered ----------------------------------------------------------------------------------------------


class _Steps:
    """The steps about hotels, in the order of the file, as compact arrays."""

    def __init__(self) -> None:
        self._session_of: dict[tuple[str, str], int] = {}
        self._session, self._step, self._item = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._item)

    def add(self, row: _Row, item: int) -> None:
        self._session.append(self._session_of.setdefault(row.session, len(self._session_of)))
        self._step.append(row.step)
        self._item.append(item)

    def _in_order(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The order by session and step; session of each step so ordered; whether its hotel is a new one there."""
        order = np.lexsort((as_int64(self._step), as_int64(self._session)))
        session, item = as_int64(self._session)[order], as_int64(self._item)[order]
        fresh = np.ones(len(order), bool)
        fresh[1:] = (session[1:] != session[:-1]) | (item[1:] != item[:-1])
        return order, session, fresh

    def sessions(self) -> Ragged:
        order, session, fresh = self._in_order()
        lengths = np.bincount(session[fresh], minlength=len(self._session_of))
        return Ragged.cut(as_int64(self._item)[order][fresh], lengths)

    def before(self, steps: NDArray[np.int64]) -> Ragged:
        """The hotels of the same session before each of these steps."""
        order, session, fresh = self._in_order()
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        seen = np.concatenate([[0], np.cumsum(fresh)])  # how many new ones come before each place
        begins = np.searchsorted(session, as_int64(self._session)[steps])
        return windows(as_int64(self._item)[order][fresh], seen[begins], seen[place[steps]])


class _Shown:
    """Lists of hotels shown, their prices, and the hotel clicked."""

    def __init__(self) -> None:
        self.items, self.lengths, self.step = array("q"), array("q"), array("q")
        self._prices, self._times, self._clicked = array("q"), array("q"), array("q")

    def add(self, items: list[int], prices: list[int], time: int, clicked: int | None, step: int) -> None:
        self.items.extend(items)
        self.lengths.append(len(items))
        self.step.append(step)
        self._prices.extend(prices)
        self._times.append(time)
        self._clicked.append(-1 if clicked is None else clicked)

    def outcomes(self) -> NDArray[np.float32]:
        clicked = np.repeat(as_int64(self._clicked), as_int64(self.lengths))
        return frozen((as_int64(self.items) == clicked).astype(np.float32))

    def latest_prices(self, count: int) -> NDArray[np.float64]:
        """The price of each of ``count`` hotels when it was shown last; NaN where it never was."""
        order = np.argsort(np.repeat(as_int64(self._times), as_int64(self.lengths)), kind="stable")
        prices = np.full(count, np.nan)
        prices[as_int64(self.items)[order]] = as_int64(self._prices)[order]  # the last one assigned stays
        return frozen(prices)
