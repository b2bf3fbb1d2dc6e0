"""Attributes of items: packed strings, and a table of numeric and categorical columns.

Everything is stored as plain arrays, so that a saved catalogue opens by mapping its file: strings are one block of
UTF-8 bytes with offsets, a categorical column is one code per item and its distinct values. Strings are decoded on
access. A missing value (None, or NaN in a numeric column) has the label −1: it belongs to no group.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array, Ints
from setwise._validation import did_you_mean
from setwise.errors import InvalidInput
from setwise.model.condition_values import comparables, ends, numbers, texts, truths
from setwise.storage import saved_arrays

_CHUNK = 1 << 16  # bytes or texts that are checked at a time
SOME = 10_000  # values of a column among which a misspelt one is looked for


class Strings:
    """An immutable list of strings in two arrays: ``data`` (bytes) and ``offsets`` (count + 1)."""

    def __init__(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def pack(cls, strings: Iterable[str]) -> Strings:
        """Pack ``strings`` in order."""
        encoded = [_encoded(string) for string in strings]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(piece) for piece in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    @classmethod
    def opened(cls, name: str, data: Array, offsets: Array) -> Strings:
        """Strings that were read from a file, checked: their parts are valid UTF-8."""
        saved_arrays.typed(f"{name}.data", data, np.uint8, (None,))
        saved_arrays.offsets(f"{name}.offsets", offsets, None, len(data))
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(data), _CHUNK):
            decoder.decode(data[start : start + _CHUNK].tobytes())
        decoder.decode(b"", final=True)
        for start in range(0, len(offsets), _CHUNK):
            some = offsets[start : start + _CHUNK]
            if ((data[some[some < len(data)]] & 0xC0) == 0x80).any():  # inside a character
                raise InvalidInput(f"array '{name}.offsets'", "at the starts of characters", "others", "save it again")
        return cls(data, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def joined(self, others: Strings) -> Strings:
        """These strings, then the others."""
        offsets = np.concatenate([self.offsets, self.offsets[-1] + others.offsets[1:]])
        return Strings(np.concatenate([self.data, others.data]), offsets)

    def __iter__(self) -> Iterator[str]:
        return map(self._one, range(len(self)))

    def _one(self, at: int) -> str:
        return self.data[self.offsets[at] : self.offsets[at + 1]].tobytes().decode()

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice | NDArray[Any]) -> NDArray[np.str_]: ...
    def __getitem__(self, at: Any) -> Any:
        """One string for an int, an array of strings for a slice or an index array; only these are decoded."""
        places = range(len(self))
        if isinstance(at, (int, np.integer)):
            return self._one(places[int(at)])
        if isinstance(at, slice):
            chosen: Iterable[int] = places[at]
        else:
            given = np.asarray(at)
            chosen = (places[i] for i in (np.flatnonzero(given) if given.dtype == bool else given).tolist())
        return np.array([self._one(i) for i in chosen], dtype=np.str_)


@dataclass(frozen=True)
class Categorical:
    """A column with repeated values: item i has ``values[codes[i]]``, or no value when the code is −1."""

    codes: NDArray[np.int32]
    values: Strings

    @classmethod
    def opened(cls, name: str, codes: Array, values: Strings, size: int) -> Categorical:
        """A column that was read from a file, checked."""
        saved_arrays.ranged(name, saved_arrays.typed(name, codes, np.int32, (size,)), -1, len(values) - 1)
        return cls(codes, values)

    @classmethod
    def of(cls, cells: Iterable[str | None]) -> Categorical:
        """A column of these texts, numbered in the order of their first cells; None where a value is missing."""
        number: dict[str, int] = {}
        codes = [-1 if cell is None else number.setdefault(cell, len(number)) for cell in cells]
        return cls(np.array(codes, np.int32), Strings.pack(number))

    def __len__(self) -> int:
        return len(self.codes)

    def taken(self, rows: NDArray[np.intp]) -> Categorical:
        """The cells of these rows: a column of texts even where all of them are missing."""
        return Categorical.of(self[rows])

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The code of each value; computed at the first filter."""
        return {value: code for code, value in enumerate(self.values)}

    def joined(self, others: Categorical) -> Categorical:
        """The cells of this column, then those of the other."""
        number = dict(self.code_of)
        renamed = [number.setdefault(value, len(number)) for value in others.values]
        codes = np.array([*renamed, -1], np.int32)[others.codes]  # −1, a missing value, stays −1
        return Categorical(np.concatenate([self.codes, codes]), Strings.pack(number))

    def __getitem__(self, at: Any) -> Any:
        """The value of one item, or a list of values: None where it is missing."""
        codes = self.codes[at]
        if isinstance(codes, np.ndarray):
            return [self.values[int(code)] if code >= 0 else None for code in codes]
        return self.values[int(codes)] if codes >= 0 else None


Column = NDArray[Any] | Categorical


def _encoded(string: str) -> bytes:
    try:
        if "\0" not in string:  # numpy drops trailing NULs, so that two texts could become equal
            return string.encode()
    except UnicodeEncodeError:
        pass
    raise InvalidInput("text", "valid Unicode without NUL characters", ascii(string), "clean the text")


def _is_missing(cell: Any) -> bool:
    """Whether the cell is None, NaN, masked, or a data frame's NA."""
    return (
        cell is None
        or cell is np.ma.masked
        or type(cell).__name__ == "NAType"
        or (isinstance(cell, (float, np.floating)) and cell != cell)
    )


def _column(name: str, given: Any, size: int) -> Column:
    """``given`` as a column of our own: bool, int64 or float64, or categorical for text."""
    if isinstance(given, Categorical) and len(given) == size:
        return given
    if (
        isinstance(given, np.ndarray)
        and given.shape == (size,)
        and not np.ma.is_masked(given)
        and given.dtype.kind in "bif"
    ):
        kind: type[Any] = {"b": np.bool_, "i": np.int64, "f": np.float64}[given.dtype.kind]
        return given.astype(kind)
    try:
        cells = given.tolist() if isinstance(given, np.ndarray) and given.dtype.kind == "U" else list(given)
    except TypeError:
        raise InvalidInput(f"attribute '{name}'", f"{size} values, one per item", repr(given), "pass a list") from None
    if len(cells) != size:
        raise InvalidInput(
            f"attribute '{name}'", f"{size} values, one per item", f"{len(cells)}", "align it with the items"
        )
    if set(map(type, cells)) == {str}:
        return Categorical.of(cells)
    missing = [_is_missing(cell) for cell in cells]  # of every library
    present = [cell for cell, gone in zip(cells, missing, strict=True) if not gone]
    if any(np.ndim(cell) for cell in present):
        raise InvalidInput(f"attribute '{name}'", "one value per item", "several", "pass one column per name")
    if present and all(isinstance(cell, str) for cell in present):
        return Categorical.of(None if gone else str(cell) for cell, gone in zip(cells, missing, strict=True))
    if all(isinstance(cell, (bool, np.bool_)) for cell in present) and not any(missing):
        return np.array(present, bool)
    if all(isinstance(cell, (int, np.integer)) for cell in present) and not any(missing):
        return _whole(name, present)
    if all(isinstance(cell, (int, float, np.number)) for cell in present):
        return _real(name, cells, missing)
    kinds = {type(cell).__name__ for cell in present}
    got, to = ("a mixture", "one type") if len(kinds) > 1 else (f"the type {kinds.pop()}", "one of the two")
    raise InvalidInput(f"attribute '{name}'", "all numbers or all strings", got, f"convert the column to {to}")


def _whole(name: str, cells: list[Any]) -> NDArray[np.int64]:
    try:
        return np.array([int(cell) for cell in cells], np.int64)
    except OverflowError:
        raise InvalidInput(
            f"attribute '{name}'", "whole numbers of 64 bits", "larger ones", "pass them as text"
        ) from None


def _real(name: str, cells: list[Any], missing: list[bool]) -> NDArray[np.float64]:
    for cell, gone in zip(cells, missing, strict=True):
        if not gone and isinstance(cell, (int, np.integer)) and abs(int(cell)) > 2**53:
            todo = "pass them as text, or without missing values"
            raise InvalidInput(f"attribute '{name}'", "whole numbers below 2^53 beside missing values", cell, todo)
    return np.array([np.nan if gone else float(cell) for cell, gone in zip(cells, missing, strict=True)], np.float64)


class Attributes(Mapping[str, Column]):
    """A table: one column per name, one row per item."""

    def __init__(self, columns: Mapping[str, Column], size: int) -> None:
        self._columns, self.size = dict(columns), size

    @classmethod
    def of(cls, table: Any, size: int) -> Attributes:
        """From a mapping of names to columns, or a data frame (anything with ``columns`` and ``frame[name]``)."""
        if table is None:
            return cls({}, size)
        if isinstance(table, Attributes):
            if table.size != size:
                raise InvalidInput("attributes", f"about {size} items", f"{table.size}", "align them with the items")
            return table
        names = list(table if isinstance(table, Mapping) else getattr(table, "columns", ()))
        if not names and not isinstance(table, Mapping):
            raise InvalidInput("attributes", "a mapping or a data frame", type(table).__name__, "pass {name: column}")
        for name in names:
            if not isinstance(name, str) or not name:
                raise InvalidInput("attributes", "columns with names that are strings", repr(name), "rename the column")
        return cls({name: _column(name, table[name], size) for name in names}, size)

    @classmethod
    def opened(cls, names: list[str], columns: list[Column], size: int) -> Attributes:
        """A table that was read from a file, checked."""
        if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
            raise InvalidInput("names of attributes", "distinct texts", "others", "save it again")
        for name, column in zip(names, columns, strict=True):
            kinds = (np.bool_, np.int64, np.float64)
            if isinstance(column, np.ndarray) and (column.shape != (size,) or column.dtype not in kinds):
                raise InvalidInput(f"attribute '{name}'", f"{size} numbers", f"shape {column.shape}", "save it again")
        return cls(dict(zip(names, columns, strict=True)), size)

    def __getitem__(self, name: str) -> Column:
        if name not in self._columns:
            known = ", ".join(sorted(self._columns)) or "none"
            todo = did_you_mean(name, self._columns) or "use one of those names"
            raise InvalidInput("attribute", f"one the catalogue has ({known})", repr(name), todo)
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def taken(self, rows: NDArray[np.intp]) -> Attributes:
        """The table of these rows, with columns of the same kinds."""
        columns = self._columns.items()
        taken = {name: one.taken(rows) if isinstance(one, Categorical) else one[rows] for name, one in columns}
        return Attributes(taken, len(rows))

    def joined(self, others: Attributes) -> Attributes:
        """The rows of this table, then those of the other, which must have the same columns of the same kinds.

        A column without any value is of either kind.
        """
        mine, theirs = self._like(others), others._like(self)
        kinds = [
            {name: "text" if isinstance(column, Categorical) else "numbers" for name, column in table.items()}
            for table in (mine, theirs)
        ]
        if kinds[0] != kinds[1]:
            raise InvalidInput(
                "attributes of the new items", f"{kinds[0]}", f"{kinds[1]}", "give them the same columns"
            )
        columns: dict[str, Column] = {}
        for name, first in mine.items():
            second = theirs[name]
            if isinstance(first, Categorical) and isinstance(second, Categorical):
                columns[name] = first.joined(second)
            else:
                columns[name] = np.concatenate([np.asarray(first), np.asarray(second)])
        return Attributes(columns, self.size + others.size)

    def _like(self, others: Attributes) -> dict[str, Column]:
        """The columns, those without any value as texts where the other table has texts."""
        columns = dict(self._columns)
        for name, column in columns.items():
            is_text = name in others and isinstance(others[name], Categorical)
            if is_text and not isinstance(column, Categorical) and column.dtype.kind == "f" and np.isnan(column).all():
                columns[name] = Categorical(np.full(self.size, -1, np.int32), Strings.pack([]))
        return columns

    def matching(self, where: Mapping[str, Any]) -> NDArray[np.bool_]:
        """(n,) whether each item meets every condition.

        A condition is a value, a list or set of values, or, for numbers, a range (low, high) with None for no end. An
        item whose value is missing meets none.
        """
        if not isinstance(where, Mapping):
            raise InvalidInput(
                "where", "a mapping {attribute: condition}", repr(where), "write where={'genre': 'jazz'}"
            )
        result = np.ones(self.size, bool)
        for name, condition in where.items():
            column = self[name]
            if isinstance(column, Categorical):
                wanted = texts(name, condition, column.values)
                result &= np.isin(column.codes, [column.code_of.get(value, -2) for value in wanted])
            elif isinstance(condition, tuple):
                low, high = ends(name, condition)
                result &= (column >= low) & (column <= high)
            else:
                wanted_numbers = truths(condition) if column.dtype.kind == "b" else condition
                result &= np.isin(column, comparables(column, numbers(name, wanted_numbers)))
        return result

    def some_values(self, name: str) -> list[str]:
        """Up to SOME of the texts of a column, none of a column of numbers: to find what a misspelt one means."""
        column = self[name]
        if not isinstance(column, Categorical):
            return []
        return [column.values[at] for at in range(min(SOME, len(column.values)))]

    def record(self, row: int) -> dict[str, Any]:
        """The values of one item by attribute, as JSON has them: None for a missing value."""
        return {name: _plain(column[row]) for name, column in self._columns.items()}

    def labels(self, name: str, rows: NDArray[np.intp]) -> Ints:
        """Labels of ``rows``: equal if and only if the values are; −1 for a missing value."""
        column = self[name]
        if isinstance(column, Categorical):
            return column.codes[rows].astype(np.int64)
        cells = column[rows]
        missing = np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), bool)
        labels = np.unique(cells, return_inverse=True)[1].astype(np.int64)
        labels[missing] = -1
        return labels


def _plain(cell: Any) -> Any:
    value = cell.item() if isinstance(cell, np.generic) else cell
    return None if isinstance(value, float) and not np.isfinite(value) else value
