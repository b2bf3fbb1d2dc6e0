"""Item search: by words over a million items, without a loop over them.

Every searched column is one block of bytes: its distinct values in lower case, separated by line ends. A word is
searched in the whole block at once; the line ends give the values that contain it, and the codes give their items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._types import Rows
from setwise.errors import UnknownId
from setwise.model.attributes import Categorical, Column, Strings
from setwise.model.catalog import Catalog

TITLES = ("title", "name")  # attributes that name an item, in order of preference and in any case
ADDRESSES = ("http://", "https://")  # beginnings of web addresses
SAMPLED = 100  # values by which a column of addresses is recognised
FEW = 50  # an attribute with more distinct values is not listed in /v1/info
MOST_WORDS = 8  # of a query; further words are ignored
_END = 10  # the byte of a line end


Kind = Literal["text", "number", "boolean", "url"]


class Described(NamedTuple):
    """A column: the values of texts where they are few, the least and the largest of numbers."""

    name: str
    kind: Kind
    values: list[str] | None = None
    low: float | None = None
    high: float | None = None


class TextBlock:
    """Texts in one block of bytes, searched all at once."""

    def __init__(self, texts: Strings) -> None:
        data = np.where(texts.data == _END, ord(" "), texts.data).astype(np.uint8)
        joined = np.insert(data, texts.offsets[1:], _END)
        self._block = np.frombuffer(b"\n" + joined.tobytes().decode().casefold().encode(), np.uint8)
        self._ends = np.flatnonzero(self._block == _END)[1:]

    def contains(self, word: str, at_start: bool = False) -> NDArray[np.bool_]:
        """Which texts contain this word, anywhere or at their start."""
        wanted = (("\n" if at_start else "") + word.casefold()).encode()
        begins = np.zeros(len(self._ends), bool)
        begins[np.searchsorted(self._ends, self._places(wanted) + at_start)] = True
        return begins

    def _places(self, wanted: bytes) -> NDArray[np.intp]:
        """The offsets where ``wanted`` begins. After its first byte few offsets are left."""
        places = np.flatnonzero(self._block[: max(0, len(self._block) - len(wanted) + 1)] == wanted[0])
        for offset, byte in enumerate(wanted[1:], 1):
            places = places[self._block[places + offset] == byte]
        return places


class ItemSearch:
    """Search among the items of a catalogue, and what its columns hold."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        columns = catalog.attributes.items()
        texts = {
            name: column for name, column in columns if isinstance(column, Categorical) and _kind(column) == "text"
        }
        self.title = title_of(texts)
        self.group = group_of({name: len(column.values) for name, column in texts.items()}, len(catalog))
        searched = {name: (column.codes, TextBlock(column.values)) for name, column in texts.items()}
        self._columns = list(searched.values())
        self._titles = None if self.title is None else searched[self.title]
        self._ids = TextBlock(catalog.ids.values) if isinstance(catalog.ids.values, Strings) else None

    def find(self, query: str, limit: int) -> tuple[Rows, int]:
        """The first rows that contain every word of ``query``, titles that begin with it first; and their number."""
        words = query.split()[:MOST_WORDS]
        if not words:
            return np.arange(min(limit, len(self._catalog))), len(self._catalog)
        matching = np.ones(len(self._catalog), bool)
        for word in words:
            matching &= self._rows_with(word)
        rows = np.flatnonzero(matching)
        begins = self.begins(query, rows)
        rows = np.concatenate([rows[begins], rows[~begins]])
        return rows[:limit], int(matching.sum())

    def _rows_with(self, word: str) -> NDArray[np.bool_]:
        matching = np.zeros(len(self._catalog), bool)
        for codes, lines in self._columns:
            matching |= _of_items(codes, lines.contains(word))
        if self._ids is not None:
            matching |= self._ids.contains(word)
        elif word.isascii() and word.isdigit() and len(word) < 20:  # numeric ids match as a whole
            matching[self._known([int(word)])] = True
        return matching

    def _known(self, ids: Iterable[int | str]) -> Rows:
        """The rows of the ids that the catalogue has."""
        rows: list[int] = []
        for id_ in ids:
            try:
                rows += self._catalog.ids.known_rows(np.array([id_], object))[0].tolist()
            except UnknownId:
                continue
        return np.array(rows, np.intp)

    def rows_of(self, ids: Iterable[str]) -> Rows:
        """The rows of ids as texts; unknown ids are left out."""
        if self._ids is not None:
            return self._known(ids)
        return self._known(int(text) for text in ids if text.removeprefix("-").isdecimal() and len(text) < 20)

    def begins(self, query: str, rows: Rows) -> NDArray[np.bool_]:
        """Whether the titles of these rows begin with the words of ``query``."""
        words = query.split()[:MOST_WORDS]
        if self._titles is None or not words:
            return np.zeros(len(rows), bool)
        codes, lines = self._titles
        return _of_items(codes[rows], lines.contains(" ".join(words), at_start=True))

    def columns(self) -> list[Described]:
        """The attributes of the catalogue, described."""
        return [_describe(name, column) for name, column in self._catalog.attributes.items()]


def _of_items(codes: NDArray[np.int32], values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """From values to the items that have them. The code −1, a missing value, selects the False at the end."""
    return np.append(values, False)[codes]


def _kind(column: Column) -> Kind:
    if not isinstance(column, Categorical):
        return "boolean" if column.dtype.kind == "b" else "number"
    sampled = [column.values[code] for code in range(min(SAMPLED, len(column.values)))]
    addresses = sum(value.lower().startswith(ADDRESSES) for value in sampled)
    return "url" if 2 * addresses > len(sampled) else "text"


def _describe(name: str, column: Column) -> Described:
    kind = _kind(column)
    if isinstance(column, Categorical):
        few = kind == "text" and len(column.values) <= FEW
        return Described(name, kind, sorted(column.values) if few else None)
    finite = column[np.isfinite(column)]
    if kind == "boolean" or not len(finite):
        return Described(name, kind)
    return Described(name, kind, None, float(finite.min()), float(finite.max()))


def title_of(texts: Iterable[str]) -> str | None:
    """The attribute that names an item, among those of texts."""
    names = list(texts)
    return next((name for wanted in TITLES for name in names if name.lower() == wanted), None)


def group_of(sizes: Mapping[str, int], items: int) -> str | None:
    """The attribute to limit by: the artist, or else the text attribute with the fewest values, at least two.

    ``sizes`` are the numbers of values of the text attributes.
    """
    artist = next((name for name in sizes if name.lower() == "artist"), None)
    if artist is not None:
        return artist
    title = title_of(sizes)
    useful = {name: size for name, size in sizes.items() if name != title and 2 <= size <= max(2, items // 2)}
    return min(useful, key=lambda name: useful[name]) if useful else None
