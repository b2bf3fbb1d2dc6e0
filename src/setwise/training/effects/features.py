"""What is known of the items: labels (a category), numbers (a price) and vectors (an embedding)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats, Ints
from setwise._validation import numbers, real_array
from setwise.datasets.sessions import Slates
from setwise.datasets.text_files import parse_number
from setwise.errors import InvalidInput
from setwise.model.attributes import Attributes, Categorical

MOST_LABELS = 0.5  # of the items: a label that is different for more of them is an id
MOST_NUMBERS = 0.9  # of the values: the others count as missing
SKEW = 1.5  # numbers above 0 whose mean is this many times the median, or more, are compared by their logarithm
DIGITS = 10  # whole numbers of at most so many values are labels


@dataclass(frozen=True, eq=False)
class Label:
    """A categorical attribute; −1 where it is missing."""

    name: str
    code: Ints
    values: Sequence[str]


@dataclass(frozen=True, eq=False)
class Number:
    """A numeric attribute in standard deviations from the mean, of the logarithm where ``logged``; 0 where missing."""

    name: str
    x: Floats
    missing: Ints
    scale: float
    logged: bool
    centre: float = 0.0  # of what x counts from: the number, or its logarithm


@dataclass(frozen=True, eq=False)
class Vector:
    """Unit vectors; zero where one is missing."""

    name: str
    unit: Floats


@dataclass(frozen=True, eq=False)
class Features:
    """All that is known of n items, and what was left out and why."""

    items: int
    labels: tuple[Label, ...] = ()
    numbers: tuple[Number, ...] = ()
    vectors: tuple[Vector, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there is any attribute."""
        return bool(self.labels or self.numbers or self.vectors)

    @classmethod
    def of(cls, attributes: Mapping[str, object], vectors: Mapping[str, ArrayLike], items: int) -> Features:
        """Attributes by name, texts or numbers, and arrays (n, d) by name."""
        table = Attributes.of(dict(attributes), items)
        labels: list[Label] = []
        quantities: list[Number] = []
        notes: list[str] = []
        for name, column in table.items():
            measured: Label | Number | str
            if isinstance(column, Categorical):
                measured = _of_texts(name, column.codes.astype(np.int64), list(column.values), notes)
            else:
                measured = _of_numbers(name, np.asarray(column, np.float64))
            if isinstance(measured, str):
                notes.append(measured)
            elif isinstance(measured, Label):
                labels.append(measured)
            else:
                quantities.append(measured)
        units = tuple(_vector(name, array, items, notes) for name, array in vectors.items())
        return cls(items, tuple(labels), tuple(quantities), units, tuple(notes))

    @classmethod
    def of_slates(
        cls, slates: Slates, embeddings: str | ArrayLike | None = None, names: Sequence[str] | None = None
    ) -> Features:
        """The attributes of these slates, or those of ``names``, and vectors where they are given."""
        for name in names or ():
            if name not in slates.attributes:
                known = ", ".join(slates.attributes) or "none"
                raise InvalidInput(
                    "features", f"attributes of the slates ({known})", repr(name), "read them with the data"
                )
        columns = {name: column for name, column in slates.attributes.items() if names is None or name in names}
        vectors = {} if embeddings is None or isinstance(embeddings, str) else {"embeddings": embeddings}
        return cls.of(columns, vectors, len(slates.ids))


def _of_texts(name: str, code: Ints, values: Sequence[str], notes: list[str]) -> Label | Number | str:
    """A label; numbers, if nearly all of many values are numbers."""
    label = _label(name, code, values)
    if isinstance(label, Label):
        return label
    read = np.array([*(parse_number(value) for value in values), np.nan])
    if np.isfinite(read).sum() < MOST_NUMBERS * len(values):
        return label
    other = next((value for value, number in zip(values, read, strict=False) if np.isnan(number)), None)
    if other is not None:
        notes.append(f"'{name}' has values that are no numbers, such as {other!r:.30}: they count as missing.")
    return _of_numbers(name, read[code])


def _label(name: str, code: Ints, values: Sequence[str]) -> Label | str:
    known = code[code >= 0]
    count = len(np.unique(known))
    if count < 2:
        return f"'{name}' has one value, so it says nothing: left out."
    if count > MOST_LABELS * len(known):
        got = f"{count:,} values of {len(known):,}, such as {values[0]!r:.30}"
        return f"'{name}' is different for nearly every item ({got}), like an id: left out."
    return Label(name, code, values)


def _of_numbers(name: str, x: Floats) -> Label | Number | str:
    present = np.isfinite(x)
    known = x[present]
    values = np.unique(known)
    if len(values) < 2:
        return f"'{name}' has one value, so it says nothing: left out."
    if len(values) == 2:
        code = np.where(present, np.searchsorted(values, np.where(present, x, values[0])), -1)
        return _label(name, code.astype(np.int64), [f"{value:g}" for value in values])
    logged = bool(known.min() > 0 and known.mean() > 0 and known.max() > 10 * np.median(known)) or _skewed(known)
    unit = 1.0 if logged else float(np.abs(known).max())  # squares of huge numbers are infinite
    scaled = np.log(np.where(present, x, 1.0)) if logged else np.where(present, x, 0.0) / unit
    centre, spread = float(scaled[present].mean()), float(scaled[present].std())
    standard = np.where(present, (scaled - centre) / spread, 0.0)
    return Number(name, standard, (~present).astype(np.int64), spread * unit, logged, centre * unit)


def _skewed(known: Floats) -> bool:
    """Whether positive numbers are closer to symmetric on a logarithmic scale."""
    if known.min() <= 0:
        return False
    return abs(_skewness(np.log(known))) < abs(_skewness(known))


def _skewness(x: Floats) -> float:
    spread = float(x.std())
    return float(np.mean((x - x.mean()) ** 3)) / spread**3 if spread > 0 else 0.0


def _vector(name: str, given: ArrayLike, items: int, notes: list[str]) -> Vector:
    array = real_array(name, numbers(name, given), (items, "d"), np.float64)
    length = np.linalg.norm(array, axis=1, keepdims=True)
    if not length.any():
        raise InvalidInput(name, "vectors of some length", "zeros", "check the columns, or leave them out")
    without = int((length == 0).sum())
    if without:
        notes.append(f"{without:,} of {items:,} items have no {name}: they are like no other item.")
    return Vector(name, array / np.maximum(length, 1e-12))
