"""Columns of item attributes: a text file does not distinguish numbers from texts, so cells and names decide."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

QUANTITIES = frozenset({"price", "year", "rating", "duration", "popularity", "age", "size", "weight"})
_NUMBER = re.compile(r"[-+]?([0-9]{1,15}(\.[0-9]+)?|\.[0-9]+)([eE][-+][0-9]{2})?")  # 1.5e-05, not the code 1e3
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # UnitPrice, unit_price and PRICE have the word price


def typed_columns(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The columns, with numbers in place of texts where every text of a column is a number and means a quantity.

    It does if one of them has decimals, or if a word of the column's name is that of a quantity: whole numbers of other
    columns, such as an artist's, are mostly codes, which are compared, and not bounded. Missing values (None) stay.
    """
    return {name: _typed(name, cells) for name, cells in columns.items()}


def _typed(name: str, cells: Sequence[Any]) -> Sequence[Any]:
    texts = [cell for cell in cells if isinstance(cell, str)]
    if not texts or not all(_NUMBER.fullmatch(text.strip()) for text in texts):
        return cells
    decimals = any("." in text or "e" in text.lower() for text in texts)
    if not decimals and QUANTITIES.isdisjoint(word.lower() for word in _WORD.findall(name)):
        return cells
    kind = float if decimals else int
    return [kind(cell) if isinstance(cell, str) else cell for cell in cells]
