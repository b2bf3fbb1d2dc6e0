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

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def ids(self) -> list[Any]:
        """The id of each row."""
        return list(self.row_of)

    def row(self, line: int, given: Any) -> int:
        """The row of an id on this line; a new id gets the next row."""
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
        return self.row_of.setdefault(given, len(self.row_of))


def _short(given: Any) -> str:
    return ascii(given)[:60]
