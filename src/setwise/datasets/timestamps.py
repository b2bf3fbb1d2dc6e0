"""Parsing of a column of times into numbers that sort like the times.

A column is all numbers, all ISO 8601 (a time without a zone counts as UTC), or all dates with slashes, such as
11/30/2000, with an optional time of day. For slashes the order of month and day is inferred from the whole column: one
that holds 11/30/2000 has the month first. An ambiguous column is refused; ``time_format`` (as in
``datetime.strptime``) then decides.

Cells are parsed by ``datetime``. polars and pyarrow parse a column in one known format; the inference of the format,
the check for ambiguous columns and the line of a wrong cell would still be ours.
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
    """Parser of one column: ``parser(line, cell)`` gives a number, ``parser.resolve(numbers)`` the final numbers."""

    def __init__(self, file: Path, time_format: str | None = None) -> None:
        self._file, self._format = file, time_format
        self._kind = ""
        self._month_first = self._day_first = True  # the orders that no date has excluded so far
        self._ambiguous: str | None = None  # a date that is valid in both orders
        self._number_of = lru_cache(1 << 16, typed=True)(self._parse)  # dates repeat

    def __call__(self, line: int, cell: Any) -> float:
        """The number of one time, provisional until ``resolve``."""
        try:
            kind, number = self._number_of(cell)
        except (ValueError, TypeError, OverflowError, AttributeError):
            wanted = f"like {self._format!r}" if self._format else "a number, an ISO date or a date like 11/30/2000"
            todo = "" if self._format else "; pass time_format for another (--time-format), or read without (--no-time)"
            got = ascii(cell)[:60]
            raise MalformedFile(self._file, line, f"a time must be {wanted}, got {got}{todo}") from None
        if kind != self._kind:
            if self._kind:
                reason = f"all times must be of one kind, got {ascii(cell)[:60]} after others ({self._kind})"
                raise MalformedFile(self._file, line, f"{reason}; read without (--no-time)")
            self._kind = kind
        if kind == "slashes":
            self._exclude_orders(line, cell)
        return number

    def resolve(self, numbers: ArrayLike) -> NDArray[np.float64]:
        """Numbers that sort like the times, given the provisional numbers of the whole column."""
        values = np.asarray(numbers, np.float64)
        if self._kind != "slashes" or self._month_first:
            if self._ambiguous and self._day_first:
                got, todo = f"{self._ambiguous!r} and no unambiguous date", "pass '%m/%d/%Y' or '%d/%m/%Y'"
                raise InvalidInput("time_format", "given where month and day look alike", got, todo)
            return values
        day, second = np.divmod(values, _DAY)
        year, rest = np.divmod(day, 10_000)
        first, other = np.divmod(rest, 100)
        return np.asarray(((year * 100 + other) * 100 + first) * _DAY + second)

    def _parse(self, cell: Any) -> tuple[str, float]:
        if self._format:
            return "format", _seconds(datetime.strptime(cell, self._format))
        if isinstance(cell, datetime):  # a cell of a Parquet file
            return "ISO", _seconds(cell)
        if isinstance(cell, date):
            return "ISO", _seconds(datetime(cell.year, cell.month, cell.day))
        if not isinstance(cell, bool) and not isnan(number := parse_number(cell)):
            return "number", number
        if found := _SLASHES.fullmatch(cell):
            return "slashes", _slash_number(*(int(part or 0) for part in found.groups()))
        return "ISO", _seconds(datetime.fromisoformat(cell))

    def _exclude_orders(self, line: int, cell: str) -> None:
        """Exclude the orders of month and day in which this is not a date."""
        month_first, day_first = _orders(cell)
        if not (self._month_first and month_first) and not (self._day_first and day_first):
            reason = f"{cell!r} must be a date, with month and day in the order of the others"
            raise MalformedFile(self._file, line, f"{reason}; pass time_format (--time-format)")
        self._month_first &= month_first
        self._day_first &= day_first
        if month_first and day_first and not self._ambiguous and _is_ambiguous(cell):
            self._ambiguous = cell


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _slash_number(first: int, other: int, year: int, hour: int, minute: int, second: int) -> float:
    """A number with year, first and second part in separate digits, so that ``resolve`` can swap the parts."""
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    return float(((year * 100 + first) * 100 + other) * _DAY + hour * 3600 + minute * 60 + second)


@lru_cache(1 << 16)
def _orders(cell: str) -> tuple[bool, bool]:
    """Whether this is a valid date with the month first, and with the day first."""
    first, other, year = _date_parts(cell)
    return _is_date(year, first, other), _is_date(year, other, first)


def _is_ambiguous(cell: str) -> bool:
    first, other, _ = _date_parts(cell)
    return first != other


def _date_parts(cell: str) -> tuple[int, int, int]:
    first, other, rest = cell.split("/")
    return int(first), int(other), int(rest[:4])


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        return date(year, month, day) is not None
    except ValueError:
        return False
