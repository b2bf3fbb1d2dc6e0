"""Numbering of item ids in the order of their first occurrence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setwise.errors import MalformedFile


class IdEncoder:
    """The ids of a file and their row numbers; ids are all text or all whole numbers of 64 bits."""

    def __init__(self, file: Path) -> None:
        self.row_of: dict[Any, int] = {}
        self.file = file
        self._type: type[Any] = object  # until the first id sets it
        self._line_of_float = 1  # of the first id that ends in ".0"

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def ids(self) -> list[Any]:
        """The id of each row; "18" beside "18.0" is an error, since no one means two items by them."""
        if self._type is str:
            for one in self.row_of:
                if one.endswith(".0") and one[:-2] in self.row_of:
                    reason = f"items must be written in one way, got {one[:-2]!r} and {one!r}; remove '.0'"
                    raise MalformedFile(self.file, self._line_of_float, reason)
        return list(self.row_of)

    def row(self, line: int, given: Any) -> int:
        """The row of an id on this line; a new id gets the next row."""
        if type(given) is float and given.is_integer():
            given = int(given)  # a column of whole numbers with gaps is one of floats in Parquet and JSON
        if type(given) is not self._type:
            self._set_type(line, given)
        row = self.row_of.get(given)
        return self._add(line, given) if row is None else row

    def _set_type(self, line: int, given: Any) -> None:
        if self.row_of or type(given) not in (str, int):
            must = {str: "text", int: "a whole number"}.get(self._type, "text or a whole number")
            like = ", like those before it" if self.row_of else ""
            raise MalformedFile(self.file, line, f"an item must be {must}{like}, got {_short(given)}")
        self._type = type(given)

    def _add(self, line: int, given: Any) -> int:
        try:
            valid = -(2**63) <= given < 2**63 if self._type is int else bool(given.encode()) and "\0" not in given
        except UnicodeEncodeError:
            valid = False
        if not valid:
            must = "a whole number of 64 bits" if self._type is int else "valid Unicode, not empty and without NUL"
            raise MalformedFile(self.file, line, f"an item must be {must}, got {_short(given)}")
        if self._type is str and self._line_of_float == 1 and given.endswith(".0"):
            self._line_of_float = line
        return self.row_of.setdefault(given, len(self.row_of))


def _short(given: Any) -> str:
    return ascii(given)[:60]
