"""The attributes of items, collected row by row: rows of one item may disagree about its title or price."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from setwise.datasets.attribute_columns import typed_columns
from setwise.datasets.missing import is_missing
from setwise.datasets.text_files import Skipped
from setwise.errors import MalformedFile


class _Values:
    """The values of one attribute: of each item the first one with its count, and the counts of other ones."""

    def __init__(self) -> None:
        self.first: list[Any] = []
        self._times = array("q")
        self._others: dict[int, Counter[Any]] = {}

    def add(self, row: int, cell: Any) -> None:
        missing = row + 1 - len(self.first)
        if missing > 0:
            self.first.extend([None] * missing)
            self._times.extend([0] * missing)
        if not self._times[row]:
            self.first[row] = cell
        if cell == self.first[row]:
            self._times[row] += 1
        else:
            self._others.setdefault(row, Counter())[cell] += 1

    def most_frequent(self, n_items: int) -> tuple[list[Any], int]:
        """One value per item, the earliest of the most frequent ones, and how many values differ from it."""
        chosen, differing = self.first + [None] * (n_items - len(self.first)), 0
        for row, counts in self._others.items():
            value, times = counts.most_common(1)[0]
            differing += self._times[row] + counts.total() - max(times, self._times[row])
            if times > self._times[row]:
                chosen[row] = value
        return chosen, differing


class AttributeValues:
    """The values of named attributes. An item keeps the most frequent of its values; of equal counts, the earliest."""

    def __init__(self, file: Path, names: Iterable[str]) -> None:
        self._file, self._values = file, {name: _Values() for name in names}

    def require(self, line: int, cells: Sequence[Any]) -> None:
        """Refuse values that are neither text nor numbers; ``cells`` has one for each attribute."""
        for name, cell in zip(self._values, cells, strict=True):
            if not is_missing(cell) and not isinstance(cell, (str, int, float)):
                problem = f"attribute '{name}' must be text or a number, got {ascii(cell)[:60]}"
                raise MalformedFile(self._file, line, problem)

    def add(self, row: int, cells: Sequence[Any]) -> None:
        """Add the values of one row of the table for the item of this number; missing ones do not count."""
        for values, cell in zip(self._values.values(), cells, strict=True):
            if not is_missing(cell):
                values.add(row, cell)

    def columns(self, n_items: int, skipped: Skipped) -> dict[str, Sequence[Any]]:
        """One value per item and attribute, None where it has none; ``skipped`` counts the values that differ."""
        columns: dict[str, Sequence[Any]] = {}
        for name, values in self._values.items():
            columns[name], differing = values.most_frequent(n_items)
            if differing:
                skipped[f"values of '{name}' that differ from the most frequent one of their item"] += differing
        return typed_columns(columns)
