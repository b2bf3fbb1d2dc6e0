"""Ids of items, and the search for an id's row without a dictionary of a million entries.

Every id has a 64-bit key: an int is its own key, a string's key is a hash of its bytes. Sorted keys are searched by
bisection, and the id found is compared: a collision of two hashes costs one more comparison, never a wrong row. The
sorted keys are arrays, saved and mapped with the catalogue.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Array
from setwise.errors import InvalidInput, UnknownId
from setwise.model.attributes import Strings
from setwise.storage import saved_arrays

_CHUNK = 1 << 16  # ids that are compared at a time
FEW = 2_000  # ids that may be compared by spelling with an unknown one
IdChoice = Sequence[int] | Sequence[str] | Array


class Ids:
    """n distinct ids, all int or all str: ``ids[rows]`` gives ids, ``ids.rows_of(ids)`` gives rows."""

    def __init__(self, values: Strings | Array, keys: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        self.values, self.keys, self.order = values, keys, order

    @classmethod
    def of(cls, ids: IdChoice | Ids | None, n: int) -> Ids:
        """Check ``ids``; None means the ids 0 … n − 1."""
        if ids is None:
            return cls.numbered(n)
        if isinstance(ids, Ids):
            if len(ids) != n:
                raise InvalidInput("ids", f"{n} ids, one per item", f"{len(ids)}", "align ids with the items")
            return ids
        values = _checked(ids, n)
        return cls._sorted(values, _keys(values) if isinstance(values, Strings) else values)

    @classmethod
    def _sorted(cls, values: Strings | Array, keys: NDArray[np.int64]) -> Ids:
        order = np.argsort(keys, kind="stable")
        result = cls(values, keys[order], order)
        result._refuse_repetition()
        return result

    @classmethod
    def numbered(cls, n: int) -> Ids:
        """The row numbers as ids."""
        rows = np.arange(n)
        return cls(rows, rows, rows)

    @classmethod
    def opened(cls, values: Strings | Array, keys: Array, order: Array, n: int) -> Ids:
        """Ids that were read from a file, checked: n values, and their keys in ascending order."""
        if not isinstance(values, Strings):
            saved_arrays.typed("ids.values", values, np.int64, (n,))
        saved_arrays.typed("ids.keys", keys, np.int64, (n,))
        saved_arrays.permutation("ids.order", order, n)
        if len(values) != n or (keys[1:] < keys[:-1]).any() or not _are_keys(keys, values, order):
            raise InvalidInput("ids", f"{n} ids and their sorted keys", "others", "save them again")
        result = cls(values, keys, order)
        result._refuse_repetition()
        return result

    def joined(self, others: Ids) -> Ids:
        """These ids, then the others, all distinct; default ids of ``others`` continue after the largest int."""
        if self.are_row_numbers and others.are_row_numbers:
            return Ids.numbered(len(self) + len(others))
        if others.are_row_numbers and not isinstance(self.values, Strings):
            return self.joined(Ids.of(self.keys[-1] + 1 + np.arange(len(others)), len(others)))
        values: Strings | Array
        if isinstance(self.values, Strings) and isinstance(others.values, Strings):
            values = self.values.joined(others.values)
        elif isinstance(self.values, Strings) or isinstance(others.values, Strings):
            raise InvalidInput("ids", "all str or all int of 64 bits", "some of each", "convert ids to one of the two")
        else:
            values = np.concatenate([self.values, others.values])
        keys = np.empty(len(self) + len(others), np.int64)
        keys[self.order], keys[len(self) + others.order] = self.keys, others.keys
        return Ids._sorted(values, keys)

    @property
    def are_row_numbers(self) -> bool:
        """Whether these are the default ids, which need not be saved."""
        return self.order is self.values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Any:
        return self.values[rows]

    def rows_of(self, wanted: IdChoice) -> NDArray[np.intp]:
        """The rows of these ids, in their order; ``UnknownId`` names the first that is not here."""
        asked = _listed(wanted)
        rows = self._find(asked)
        if (rows < 0).any():
            raise self._unknown(asked[int(np.argmax(rows < 0))])
        return rows

    def known_rows(self, wanted: IdChoice, removed: Array | None = None) -> tuple[NDArray[np.intp], list[Any]]:
        """The rows of those of these ids that are here, and the ids that are not; those of ``removed`` rows are not.

        An id of another type is refused, because all ids of such a list would be unknown by mistake.
        """
        asked = _listed(wanted)
        for id_ in asked:
            if not self._is_of_their_type(id_):
                raise self._unknown(id_)
        rows = self._find(asked)
        if removed is not None and len(removed):
            rows[np.isin(rows, removed)] = -1
        return rows[rows >= 0], [_plain(asked[at]) for at in np.flatnonzero(rows < 0)]

    def places_of(self, wanted: IdChoice) -> NDArray[np.intp]:
        """The row of each of these ids, in their order, −1 for one that is not here."""
        return self._find(_listed(wanted))

    def _is_of_their_type(self, id_: Any) -> bool:
        kinds = (str,) if isinstance(self.values, Strings) else (int, np.integer)
        return isinstance(id_, kinds) and not isinstance(id_, bool)

    def _find(self, asked: list[Any]) -> NDArray[np.intp]:
        """The row of each id, −1 for one that is not here."""
        text = isinstance(self.values, Strings)
        rows = np.full(len(asked), -1, np.intp)
        possible = [
            place
            for place, id_ in enumerate(asked)
            if self._is_of_their_type(id_) and (text or -(2**63) <= id_ < 2**63)
        ]
        wanted_ids = [asked[at] for at in possible]
        keys = _keys(wanted_ids) if text else np.array(wanted_ids, np.int64)
        for at, key, place in zip(possible, keys, np.searchsorted(self.keys, keys).tolist(), strict=True):
            while place < len(self.keys) and self.keys[place] == key:
                row = int(self.order[place])
                if self.values[row] == asked[at]:
                    rows[at] = row
                    break
                place += 1
        return rows

    def _unknown(self, id_: Any) -> UnknownId:
        """The error for an id that is not here, with a similar one that is."""
        similar = self._similar(_plain(id_))
        todo = "check its spelling and its type" if similar is None else f"did you mean {similar!r}?"
        return UnknownId("id", "one of the known ids", repr(_plain(id_)), todo)

    def _similar(self, id_: Any) -> Any:
        """An id that differs by its type, blanks, case or a decimal point; among few ids also by its spelling."""
        if not isinstance(id_, (str, int)) or isinstance(id_, bool) or (isinstance(id_, int) and abs(id_) >= 2**63):
            return None
        text, kind = str(id_).strip(), str if isinstance(self.values, Strings) else int
        for form in (text, text.lower(), text.upper(), text.title(), text.removesuffix(".0"), f"{text}.0"):
            try:
                known = kind(form)
            except ValueError:
                continue
            if self._find([known])[0] >= 0:
                return known
        if kind is str and len(self) <= FEW:
            known_ids = self.values[np.arange(len(self))].tolist()
            return next(iter(difflib.get_close_matches(text, known_ids, n=1, cutoff=0.75)), None)
        return None

    def _refuse_repetition(self) -> None:
        """Equal ids have equal keys, so repetitions are neighbours in key order (among collisions of one hash)."""
        for at in np.flatnonzero(self.keys[1:] == self.keys[:-1]):
            id_ = self.values[int(self.order[at])]
            if id_ == self.values[int(self.order[at + 1])]:
                raise InvalidInput("ids", "distinct", f"{_plain(id_)!r} more than once", "give every item its own id")


def _listed(wanted: IdChoice) -> list[Any]:
    if isinstance(wanted, str) or not hasattr(wanted, "__iter__"):
        raise InvalidInput("ids", "a list of ids", repr(wanted), "put a single id into a list")
    return wanted.tolist() if isinstance(wanted, np.ndarray) else list(wanted)


def _plain(id_: Any) -> Any:
    return id_.item() if isinstance(id_, np.generic) else id_


def _are_keys(keys: Array, values: Strings | Array, order: Array) -> bool:
    """Whether numbers are their own keys. Keys of texts are not computed again: a wrong one only hides its id."""
    if isinstance(values, Strings):
        return True
    parts = [slice(start, start + _CHUNK) for start in range(0, len(keys), _CHUNK)]
    return all(np.array_equal(values[order[part]], keys[part]) for part in parts)


def _keys(strings: Iterable[str]) -> NDArray[np.int64]:
    """The first eight bytes of each string's BLAKE2b."""
    return np.frombuffer(
        b"".join(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in strings),
        np.int64,
    )


def _checked(ids: IdChoice, n: int) -> Strings | NDArray[np.int64]:
    if isinstance(ids, np.ndarray) and ids.shape == (n,) and np.can_cast(ids.dtype, np.int64) and ids.dtype != bool:
        return ids.astype(np.int64)
    try:
        if isinstance(ids, (str, bytes, set, frozenset)) or (isinstance(ids, np.ndarray) and ids.ndim != 1):
            raise TypeError  # iterates over letters, in varying order, or over rows
        listed: list[Any] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    except TypeError:
        raise InvalidInput("ids", "a list of int or str", type(ids).__name__, "pass one id per item") from None
    if len(listed) != n:
        raise InvalidInput("ids", f"{n} ids, one per item", f"{len(listed)}", "align ids with the items")
    if all(isinstance(id_, str) for id_ in listed):
        return Strings.pack(listed)
    limits = np.iinfo(np.int64)
    for id_ in listed:
        whole = isinstance(id_, (int, np.integer)) and not isinstance(id_, bool)
        if not whole or not limits.min <= id_ <= limits.max:
            raise InvalidInput("ids", "all str or all int of 64 bits", repr(id_), "convert ids to one of the two")
    return np.array(listed, np.int64)
