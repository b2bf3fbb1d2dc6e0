"""What ``setwise train slates`` knows of the items: columns that are features, vectors, or shown beside them.

Without an option that names one, every further column of a text table is an attribute if all rows of an item agree on
it; columns of one name and different numbers (x0, x1, x2) are a vector. The notes say which were taken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from setwise._types import Floats32
from setwise.cli.columns import path_of
from setwise.datasets import Slates, table_columns
from setwise.datasets.delimiters import DELIMITERS
from setwise.datasets.dispatch import columns_read
from setwise.datasets.text_files import file_extension, parse_number
from setwise.errors import InvalidInput

LEAST_VECTOR = 3  # columns of one name
MOST_DIFFERING = 0.2  # of the values of a column that is named an attribute
AGREE = 0.99  # of the values of an attribute, with the most frequent one of their item
_DIFFERING = "values of '{}' that differ from the most frequent one of their item"  # datasets/attribute_values.py
NUMBERED = re.compile(r"(.*?)_?[0-9]+")


@dataclass(frozen=True)
class Inputs:
    """Columns by their use; ``guessed`` ones are left out where rows of one item differ in them."""

    features: Sequence[str] = ()
    vector: Sequence[str] = ()
    shown: dict[str, str] | None = None  # --attribute: names and columns
    guessed: bool = False

    @classmethod
    def of(
        cls,
        file: Path,
        named: dict[str, Any],
        feature: list[str] | None,
        embedding: str | None,
        attributes: dict[str, str] | None,
        no_features: bool,
    ) -> Inputs:
        """From the options, or else from the columns of a text table."""
        if no_features and (feature or embedding):
            raise InvalidInput("--no-features", "absent beside --feature and --embedding", "both", "leave one out")
        vector = [name.strip() for name in (embedding or "").split(",") if name.strip()]
        _refuse_unknown(named.get("items", file), named, "--feature", feature or ())
        _refuse_unknown(named.get("items", file), named, "--embedding", vector)
        _refuse_used(file, named, [*(feature or ()), *vector])
        for name in set(feature or ()) & set(vector):
            raise InvalidInput("--feature", "of other columns than --embedding", repr(name), "name it in one of them")
        if feature or vector or attributes or no_features or "items" in named:
            return cls(list(feature or ()), vector, attributes)
        if file_extension(file) not in DELIMITERS and "delimiter" not in named:
            return cls()
        with path_of("FILE"):
            columns, read = table_columns(file, named.get("delimiter")), columns_read(file, **named)
        used = {part for name in read.values() for part in name.split(" and ")}
        others = [name for name in columns if name not in used and name.strip()]
        stems = Counter(stem[1] for name in others if (stem := NUMBERED.fullmatch(name)))
        vectors = [name for name in others if (stem := NUMBERED.fullmatch(name)) and stems[stem[1]] >= LEAST_VECTOR]
        return cls([name for name in others if name not in vectors], vectors, None, guessed=bool(others))

    @property
    def columns(self) -> dict[str, str] | None:
        """The attributes to read, by name."""
        named = {**{name: name for name in (*self.features, *self.vector)}, **(self.shown or {})}
        return named or None

    def taken(self, slates: Slates, skipped: Counter[str]) -> tuple[Slates, dict[str, Any], list[str]]:
        """The slates without columns that prove to be no attributes, the arguments of ``fit``, and what to say."""
        attributes, notes = dict(slates.attributes), []
        for name in (*self.features, *self.vector):
            differing = skipped.get(_DIFFERING.format(name), 0) / len(slates.shown.values)
            if self.guessed and differing > 1 - AGREE:
                notes.append(f"Column '{name}' differs between rows of one item, so it is no attribute: left out.")
                del attributes[name], skipped[_DIFFERING.format(name)]
            elif differing > MOST_DIFFERING:
                got = f"'{name}', which differs between rows of one item ({differing:.0%} of the rows)"
                todo = "leave it out: what is only known of a row, such as an outcome, is no attribute"
                raise InvalidInput("--feature", "an attribute of the items", got, todo)
        vector = [name for name in self.vector if name in attributes]
        features = [name for name in (*self.features, *(self.shown or {})) if name in attributes]
        options: dict[str, Any] = {"features": features}
        if vector:
            options["embeddings"] = _vectors([attributes.pop(name) for name in vector], vector)
        known = [*features, *([f"the vector {vector[0]} … {vector[-1]}"] if vector else [])]
        if known and (self.guessed or self.shown):
            notes.append(f"Items may have effects on each other through {', '.join(known)} (--no-features: none).")
        return replace(slates, attributes=attributes), options, notes


def _refuse_unknown(file: Path, named: dict[str, Any], option: str, names: Sequence[str]) -> None:
    """Refuse names that are no columns of the file."""
    if not names:
        return
    with path_of("FILE"):
        columns = table_columns(file, named.get("delimiter"))
    for name in names:
        if name not in columns:
            must, got = f"a column of {file.name}", f"{name!r} among {', '.join(columns)}"[:300]
            raise InvalidInput(option, must, got, "check the spelling")


def _refuse_used(file: Path, named: dict[str, Any], inputs: Sequence[str]) -> None:
    """Refuse inputs that are another column of the log: an outcome would be learned from itself."""
    if not inputs:
        return
    with path_of("FILE"):
        read = columns_read(file, **{role: name for role, name in named.items() if role != "items"})
    for role, columns in read.items():
        for name in set(inputs) & set(columns.split(" and ")):
            todo = "name columns that say what the items are, such as a category or a price"
            raise InvalidInput("--feature", "an attribute of the items", f"'{name}', the column of the {role}", todo)


def _vectors(columns: Sequence[Sequence[Any]], names: Sequence[str]) -> Floats32:
    """The vectors of the items; zeros where a number is missing."""
    result = np.zeros((len(columns[0]), len(columns)), np.float32)
    for dimension, (column, name) in enumerate(zip(columns, names, strict=True)):
        numbers = [0.0 if cell is None else parse_number(cell) for cell in column]
        if not np.isfinite(numbers).all():
            bad = next(cell for cell, number in zip(column, numbers, strict=True) if not np.isfinite(number))
            raise InvalidInput("--embedding", "columns of numbers", f"{bad!r} in '{name}'", "leave that column out")
        result[:, dimension] = numbers
    return result
