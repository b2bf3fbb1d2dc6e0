"""Titles to rows: search by words over a million items without a loop over them.

Every searched column is one block of bytes, its distinct values in lower case between line ends. A word is found in the
whole block at once, and the line ends tell which values it is in; codes tell which items have those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Rows
from setwise.errors import UnknownId
from setwise.model.attributes import Categorical, Column, Strings
from setwise.model.catalog import Catalog
from setwise.service.schemas import Attribute, Item

TITLES = ("title", "name")  # what an item is called, the first that there is
SEARCHED = ("title", "artist", "name")  # or every text, where there is none of them
FEW = 50  # distinct values that /v1/info lists
MOST_WORDS = 8  # of a search
_END = 10  # the byte of a line end


class Lines:
    """Texts in one block, searched all at once."""

    def __init__(self, texts: Strings) -> None:
        data = np.where(texts.data == _END, ord(" "), texts.data).astype(np.uint8)
        joined = np.insert(data, texts.offsets[1:], _END)
        self._block = np.frombuffer(b"\n" + joined.tobytes().decode().casefold().encode(), np.uint8)
        self._ends = np.flatnonzero(self._block == _END)[1:]

    def having(self, word: str, at_start: bool = False) -> NDArray[np.bool_]:
        """Which texts have this word, anywhere in them or at their start."""
        wanted = (("\n" if at_start else "") + word.casefold()).encode()
        found = np.zeros(len(self._ends), bool)
        found[np.searchsorted(self._ends, self._places(wanted) + at_start)] = True
        return found

    def _places(self, wanted: bytes) -> NDArray[np.intp]:
        """Where ``wanted`` begins: after the first byte few places are left to look at."""
        places = np.flatnonzero(self._block[: max(0, len(self._block) - len(wanted) + 1)] == wanted[0])
        for offset, byte in enumerate(wanted[1:], 1):
            places = places[self._block[places + offset] == byte]
        return places


class Shelf:
    """The items of a catalogue as people look for them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        texts = {name: column for name, column in catalog.attributes.items() if isinstance(column, Categorical)}
        self.title = next((name for name in TITLES if name in texts), None)
        self.group = _group(texts, self.title)
        searched = [name for name in SEARCHED if name in texts] or list(texts)
        self._columns = [(texts[name].codes, Lines(texts[name].values)) for name in searched]
        self._titles = None if self.title is None else dict(zip(searched, self._columns, strict=True)).get(self.title)
        self._ids = Lines(catalog.ids.values) if isinstance(catalog.ids.values, Strings) else None

    def search(self, query: str, limit: int) -> tuple[Rows, int]:
        """The first rows that have every word of ``query``, titles that begin with it first; and how many there are."""
        words = query.split()[:MOST_WORDS]
        if not words:
            return np.arange(min(limit, len(self._catalog))), len(self._catalog)
        found = np.ones(len(self._catalog), bool)
        for word in words:
            found &= self._having(word)
        rows = np.flatnonzero(found)
        if self._titles is not None:
            codes, lines = self._titles
            begins = _of_items(codes[rows], lines.having(" ".join(words), at_start=True))
            rows = np.concatenate([rows[begins], rows[~begins]])
        return rows[:limit], int(found.sum())

    def _having(self, word: str) -> NDArray[np.bool_]:
        found = np.zeros(len(self._catalog), bool)
        for codes, lines in self._columns:
            found |= _of_items(codes, lines.having(word))
        if self._ids is not None:
            found |= self._ids.having(word)
        elif word.isascii() and word.isdigit():  # ids that are numbers are found whole
            found[self.known([int(word)])] = True
        return found

    def known(self, ids: Iterable[int | str]) -> Rows:
        """The rows of those ids that the catalogue has."""
        rows: list[int] = []
        for one in ids:
            try:
                rows += self._catalog.rows_of(np.array([one], object)).tolist()
            except UnknownId:
                continue
        return np.array(rows, np.intp)

    def written(self, ids: Iterable[str]) -> Rows:
        """The rows of ids as they are written in an address."""
        if self._ids is not None:
            return self.known(ids)
        return self.known(int(one) for one in ids if one.removeprefix("-").isdecimal() and len(one) < 20)

    def item(self, row: int) -> Item:
        """An item for the wire."""
        return Item(_plain(self._catalog.ids[row]), self.attributes(row))

    def attributes(self, row: int) -> dict[str, Any]:
        """What is known of an item; null where nothing is."""
        return {name: _plain(column[row]) for name, column in self._catalog.attributes.items()}

    def columns(self) -> list[Attribute]:
        """What is known of items at all."""
        return [_described(name, column) for name, column in self._catalog.attributes.items()]


def _of_items(codes: NDArray[np.int32], values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """From values to the items that have them; −1, nothing, is at the end and never found."""
    return np.append(values, False)[codes]


def _plain(cell: Any) -> Any:
    """A cell as JSON has it."""
    plain = cell.item() if isinstance(cell, np.generic) else cell
    return None if plain != plain else plain


def _described(name: str, column: Column) -> Attribute:
    if not isinstance(column, Categorical):
        return Attribute(name, "number", None)
    return Attribute(name, "text", sorted(column.values) if len(column.values) <= FEW else None)


def _group(texts: dict[str, Categorical], title: str | None) -> str | None:
    """The attribute to limit by: the artist, or else the text with the fewest values that says something."""
    if "artist" in texts:
        return "artist"
    sizes = {name: len(column.values) for name, column in texts.items() if name != title}
    telling = {name: size for name, size in sizes.items() if 2 <= size <= max(2, len(texts[name]) // 2)}
    return min(telling, key=lambda name: telling[name]) if telling else None
