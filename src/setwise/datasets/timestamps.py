"""Times as numbers that sort like them: nothing is known of a file's clock but what its cells show.

A column of times is all numbers, all ISO 8601 (a time without a zone counts as UTC) or all dates with slashes, such as
11/30/2000, maybe with a time of day. With slashes, month and day are told apart by the column as a whole: one that
holds 11/30/2000 puts months first. A column that can be read both ways is refused, and ``time_format`` (as in
``datetime.strptime``) decides.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import lru_cache
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.datasets.text_files import parse_number
from setwise.errors import InvalidInput, MalformedFile

_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?:[ T]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?", re.ASCII)
_DAY = 86_400


class TimestampParser:
    """``clock(line, cell)`` is a number for each time of a column; ``clock.resolve(numbers)`` sorts like the times."""

    def __init__(self, file: Path, time_format: str | None = None) -> None:
        self._file, self._format = file, time_format
        self._kind = ""
        self._month_first = self._day_first = True  # orders that no date so far has ruled out
        self._both: str | None = None  # a date that means two days
        self._number_of = lru_cache(1 << 16, typed=True)(self._parsed)  # dates repeat

    def __call__(self, line: int, cell: Any) -> float:
        """The number of one time."""
        try:
            kind, number = self._number_of(cell)
        except (ValueError, TypeError, OverflowError, AttributeError):
            wanted = f"like {self._format!r}" if self._format else "a number, an ISO date or a date like 11/30/2000"
            todo = "" if self._format else "; pass time_format for another"
            got = ascii(cell)[:60]
            raise MalformedFile(self._file, line, f"a time must be {wanted}, got {got}{todo}") from None
        if kind != self._kind:
            self._begin(line, kind, cell)
        if kind == "slashes":
            self._narrow(line, cell)
        return number

    def resolve(self, numbers: ArrayLike) -> NDArray[np.float64]:
        """The numbers of all times, now that the whole column was seen."""
        values = np.asarray(numbers, np.float64)
        if self._kind != "slashes" or self._month_first:
            if self._both and self._day_first:
                got, todo = f"{self._both!r} and no date that tells", "pass '%m/%d/%Y' or '%d/%m/%Y'"
                raise InvalidInput("time_format", "given where month and day look alike", got, todo)
            return values
        day, second = np.divmod(values, _DAY)
        year, rest = np.divmod(day, 10_000)
        first, other = np.divmod(rest, 100)
        return np.asarray(((year * 100 + other) * 100 + first) * _DAY + second)

    def _parsed(self, cell: Any) -> tuple[str, float]:
        if self._format:
            return "format", _seconds(datetime.strptime(cell, self._format))
        if isinstance(cell, datetime):  # a cell of a Parquet file
            return "ISO", _seconds(cell)
        if isinstance(cell, date):
            return "ISO", _seconds(datetime(cell.year, cell.month, cell.day))
        if not isinstance(cell, bool) and not isnan(number := parse_number(cell)):
            return "number", number
        if found := _SLASHES.fullmatch(cell):
            return "slashes", _slashed(*(int(part or 0) for part in found.groups()))
        return "ISO", _seconds(datetime.fromisoformat(cell))

    def _begin(self, line: int, kind: str, cell: Any) -> None:
        if self._kind:
            reason = f"all times must be of one kind, got {ascii(cell)[:60]} after others ({self._kind})"
            raise MalformedFile(self._file, line, reason)
        self._kind = kind

    def _narrow(self, line: int, cell: str) -> None:
        """Rule out the orders in which this is no date."""
        month_first, day_first = _orders(cell)
        self._month_first &= month_first
        self._day_first &= day_first
        if month_first and day_first and not self._both and _means_two_days(cell):
            self._both = cell
        if not (self._month_first or self._day_first):
            reason = f"{cell!r} must be a date, with month and day in the order of the others; pass time_format"
            raise MalformedFile(self._file, line, reason)


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _slashed(first: int, other: int, year: int, hour: int, minute: int, second: int) -> float:
    """A number that keeps the three parts of the date apart, so that the first two can still change places."""
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    return float(((year * 100 + first) * 100 + other) * _DAY + hour * 3600 + minute * 60 + second)


@lru_cache(1 << 16)
def _orders(cell: str) -> tuple[bool, bool]:
    """Whether this is a date with the month first, and with the day first."""
    first, other, year = _first_three(cell)
    return _is_date(year, first, other), _is_date(year, other, first)


def _means_two_days(cell: str) -> bool:
    first, other, _ = _first_three(cell)
    return first != other


def _first_three(cell: str) -> tuple[int, int, int]:
    first, other, rest = cell.split("/")
    return int(first), int(other), int(rest[:4])


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        return date(year, month, day) is not None
    except ValueError:
        return False
