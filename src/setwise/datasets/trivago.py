"""The RecSys Challenge 2019 of trivago: the steps of visitors and the hotels that they were shown.

``train.csv`` has one step per row. A step refers to a hotel if its action contains "item" and its reference is a
number; searches, filters and sort orders do not. A ``clickout item`` holds the list of hotels on the screen
(``impressions``) and their ``prices``, aligned and separated by "|".

The steps of a session (the same user and session) are sorted by step number. Consecutive steps on the same hotel count
once, such as several pictures of one hotel.
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
from setwise.datasets.grouping import as_int64, windows
from setwise.datasets.id_encoder import IdEncoder
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
    """One slate per clickout: the history is the earlier hotels of its session, the outcome 1 for the hotel clicked.

    Clickouts without a slate are skipped and counted in ``skipped``. The attribute ``price`` is the latest price (NaN
    for a hotel that was never shown); ``properties`` (with ``metadata``) is text separated by "|".
    """
    file, counts = existing_file(path), Skipped() if skipped is None else skipped
    items, steps, shown = IdEncoder(file), _Steps(), _Shown()
    for row in _rows(file, progress):
        item = items.row(row.line, int(row.reference)) if _refers_to_item(row) else None
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
    """The hotels of every session in the order of its steps, without sessions that have no hotel."""
    file = existing_file(path)
    items, steps = IdEncoder(file), _Steps()
    for row in _rows(file, progress):
        if _refers_to_item(row):
            steps.add(row, items.row(row.line, int(row.reference)))
    return Sessions(steps.sessions(), items.ids)


def read_trivago_impressions(path: Source, progress: bool = True) -> Sessions:
    """The lists of hotels that were shown, as sessions: for files without the hotel clicked.

    The table needs the columns ``impressions`` and ``prices``; rows without impressions are left out. The attribute
    ``price`` is the last price in the file.
    """
    file = existing_file(path)
    items, shown = IdEncoder(file), _Shown()
    for line, (impressions, prices) in _select(file, ("impressions", "prices"), progress):
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
    for line, (user, session, time, step, *rest) in _select(file, COLUMNS, progress):
        if not session:
            raise MalformedFile(file, line, "a step must have a session_id")
        when, number = _whole(file, line, "timestamp", time), _whole(file, line, "step", step)
        yield _Row(line, (user, session), when, number, *rest)


def _select(file: Path, columns: tuple[str, ...], progress: bool) -> Iterator[tuple[int, tuple[str, ...]]]:
    rows = cell_rows(file, ",", progress)
    pick = itemgetter(*column_positions(file, next(rows)[1], columns))
    return ((line, pick(cells)) for line, cells in rows)


def _whole(file: Path, line: int, column: str, cell: str) -> int:
    if not _WHOLE.fullmatch(cell):
        raise MalformedFile(file, line, f"'{column}' must be a whole number of at least 0, got {cell[:40]!r}")
    return int(cell)


def _refers_to_item(row: _Row) -> bool:
    return "item" in row.action and _WHOLE.fullmatch(row.reference) is not None


def _is_slate(row: _Row, skipped: Skipped) -> bool:
    """Whether a clickout has impressions and clicks one of them; the others are counted in ``skipped``."""
    if not row.impressions:
        reason = "clickouts without impressions"
    elif not row.reference:
        reason = "clickouts without a reference"  # in test.csv: to be predicted in the challenge
    elif row.reference not in row.impressions.split("|"):
        reason = "clickouts of a hotel that was not shown"
    else:
        return True
    skipped[reason] += 1
    return False


def _impressions(file: Path, line: int, impressions: str, prices: str) -> tuple[list[int], list[int]]:
    """Hotels and their prices, aligned; of a repeated hotel the first occurrence counts."""
    if not (_WHOLES.fullmatch(impressions) and _WHOLES.fullmatch(prices)):
        raise MalformedFile(file, line, "impressions and prices must be whole numbers separated by '|'")
    hotels, numbers = list(map(int, impressions.split("|"))), list(map(int, prices.split("|")))
    if len(hotels) != len(numbers):
        reason = f"there must be a price for each of {len(hotels)} impressions, got {len(numbers)}"
        raise MalformedFile(file, line, reason)
    if len(set(hotels)) < len(hotels):
        first = dict(zip(reversed(hotels), reversed(numbers), strict=True))
        hotels = list(dict.fromkeys(hotels))
        numbers = [first[hotel] for hotel in hotels]
    return hotels, numbers


# --- collected arrays ----------------------------------------------------------------------------------------------


class _Steps:
    """The steps that refer to hotels, in the order of the file, as compact arrays."""

    def __init__(self) -> None:
        self._session_of: dict[tuple[str, str], int] = {}
        self._session, self._step, self._item = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._item)

    def add(self, row: _Row, item: int) -> None:
        self._session.append(self._session_of.setdefault(row.session, len(self._session_of)))
        self._step.append(row.step)
        self._item.append(item)

    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The order by session and step; for the sorted steps the session, and whether the hotel changed."""
        order = np.lexsort((as_int64(self._step), as_int64(self._session)))
        session, item = as_int64(self._session)[order], as_int64(self._item)[order]
        changed = np.ones(len(order), bool)
        changed[1:] = (session[1:] != session[:-1]) | (item[1:] != item[:-1])
        return order, session, changed

    def sessions(self) -> Ragged:
        order, session, changed = self._sorted()
        lengths = np.bincount(session[changed], minlength=len(self._session_of))
        return Ragged.cut(as_int64(self._item)[order][changed], lengths)

    def before(self, steps: NDArray[np.int64]) -> Ragged:
        """The hotels of the same session before each of these steps."""
        order, session, changed = self._sorted()
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        seen = np.concatenate([[0], np.cumsum(changed)])  # the number of changes of hotel before each position
        starts = np.searchsorted(session, as_int64(self._session)[steps])
        return windows(as_int64(self._item)[order][changed], seen[starts], seen[position[steps]])


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
        """The latest price of each of ``count`` hotels; NaN if a hotel was never shown."""
        order = np.argsort(np.repeat(as_int64(self._times), as_int64(self.lengths)), kind="stable")
        prices = np.full(count, np.nan)
        prices[as_int64(self.items)[order]] = as_int64(self._prices)[order]  # the last assignment wins
        return frozen(prices)
