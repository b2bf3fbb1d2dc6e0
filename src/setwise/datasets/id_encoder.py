"""Ids become row numbers as they appear, and lists of rows are cut out of one array."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Ints
from setwise.errors import MalformedFile
from setwise.model.ragged import Ragged

Numbers = Sequence[int] | Ints

LATEST = 500  # items a history holds at most, the latest: else a session of n slates would cost n²


class IdEncoder:
    """The ids of a file, numbered as they appear: all text, or all whole numbers of 64 bits."""

    def __init__(self, file: Path) -> None:
        self.row_of: dict[Any, int] = {}
        self.file = file
        self._type: type[Any] = object  # no id is a bare object: the first one decides

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def ids(self) -> list[Any]:
        """The id of each row."""
        return list(self.row_of)

    def row(self, line: int, given: Any) -> int:
        """The row of an id that stands on this line."""
        if type(given) is not self._type:
            self._admit(line, given)
        row = self.row_of.get(given)
        return self._new(line, given) if row is None else row

    def _admit(self, line: int, given: Any) -> None:
        if self.row_of or type(given) not in (str, int):
            must = {str: "text", int: "a whole number"}.get(self._type, "text or a whole number")
            like = ", like those before it" if self.row_of else ""
            raise MalformedFile(self.file, line, f"an item must be {must}{like}, got {_short(given)}")
        self._type = type(given)

    def _new(self, line: int, given: Any) -> int:
        try:
            sound = -(2**63) <= given < 2**63 if self._type is int else bool(given.encode()) and "\0" not in given
        except UnicodeEncodeError:
            sound = False
        if not sound:
            must = "a whole number of 64 bits" if self._type is int else "valid Unicode, not empty and without NUL"
            raise MalformedFile(self.file, line, f"an item must be {must}, got {_short(given)}")
        return self.row_of.setdefault(given, len(self.row_of))


def _short(given: Any) -> str:
    return ascii(given)[:60]


def group_by_owner(owner: Numbers, values: Numbers, count: int, time: ArrayLike | None = None) -> Ragged:
    """The values of each of ``count`` owners, in the order of ``time``, and of the sequence where that says nothing."""
    owners, items = as_int64(owner), as_int64(values)
    order = np.argsort(owners, kind="stable") if time is None else np.lexsort((np.asarray(time), owners))
    return Ragged.cut(items[order], np.bincount(owners, minlength=count))


def as_int64(given: Numbers) -> Ints:
    """An array of int64 over whatever holds the numbers, without copying an ``array('q')``."""
    return np.frombuffer(given, np.int64) if isinstance(given, array) and len(given) else np.asarray(given, np.int64)


def windows(values: Ints, starts: Ints, ends: Ints) -> Ragged:
    """values[start : end] for each pair, the last ``LATEST`` of it; windows may overlap."""
    starts = np.maximum(starts, ends - LATEST)
    lengths = ends - starts
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return Ragged.cut(values[np.repeat(starts, lengths) + within], lengths)
