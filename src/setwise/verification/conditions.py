"""Which items meet the conditions of a slate file, read from the columns apart from the code of the recommender."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog

_PAIRS = [("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"), ("off", "on"), ("0", "1")]
_WORDS = {word: bool(truth) for pair in _PAIRS for truth, word in enumerate(pair)}


def eligible_items(catalog: Catalog, exclude: list[int], where: dict[str, Any]) -> NDArray[np.bool_]:
    """Which items are neither excluded nor filtered out."""
    eligible = np.ones(len(catalog), bool)
    eligible[exclude] = False
    for name, condition in where.items():
        eligible &= meets(name, catalog.attributes[name], condition)
    return eligible


def meets(name: str, column: Any, condition: Any) -> NDArray[np.bool_]:
    """Which cells are in a range {"from", "to"}, or equal to a value or one of a list; a missing cell is not."""
    is_range = isinstance(condition, dict)
    wanted = (
        [condition["from"], condition["to"]] if is_range else condition if isinstance(condition, list) else [condition]
    )
    text = hasattr(column, "codes")
    if not is_range and wanted and all(isinstance(one, bool) for one in wanted) and text:
        meant = _texts_of_truth(list(column.values), wanted)
        wanted = wanted if meant is None else meant
    elif not is_range and not text and column.dtype.kind == "b":
        wanted = [_WORDS.get(one.strip().lower(), one) if isinstance(one, str) else one for one in wanted]
    if any(isinstance(one, str) != text for one in wanted if one is not None):
        raise InvalidInput(f"where['{name}']", "of the type of the attribute", repr(condition), "correct the filter")
    if is_range:
        low, high = condition["from"], condition["to"]
        low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
        return np.asarray((column >= low) & (column <= high))
    met = np.zeros(len(column), bool)
    for one in [code for code, value in enumerate(column.values) if value in wanted] if text else wanted:
        met |= (column.codes if text else column) == one
    return met


def _texts_of_truth(texts: list[str], wanted: list[bool]) -> list[str] | None:
    """The texts that mean the wanted truth values, if all texts are of one pair of such words; else None."""
    for pair in _PAIRS:
        if texts and all(one.strip().lower() in pair for one in texts):
            return [one for one in texts if bool(pair.index(one.strip().lower())) in wanted]
    return None


def as_number(limit: str, name: str, text: str) -> float:
    """The number that a text names."""
    for read in (int, float):  # a whole number is not rounded to a float
        with contextlib.suppress(ValueError):
            return read(text)
    raise InvalidInput(f"{limit}['{name}']", "about numbers", repr(text), "correct the limit")


def labels_of(column: Any) -> NDArray[np.int64]:
    """Equal numbers for equal cells, −1 for missing ones."""
    if hasattr(column, "codes"):
        return np.asarray(column.codes, np.int64)
    label = np.unique(column, return_inverse=True)[1].astype(np.int64)
    return np.where(column == column, label, -1)  # NaN is missing
