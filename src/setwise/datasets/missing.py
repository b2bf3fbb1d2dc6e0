"""Cells without a value: empty, None, NaN, and the words that other programs write for them."""

from __future__ import annotations

from typing import Any

WORDS = frozenset(  # not NA, which is the code of Namibia
    {"", "nan", "NaN", "NAN", "NaT", "null", "NULL", "Null", "<NA>", "#N/A", "N/A", "n/a"}
)


def is_missing(cell: Any) -> bool:
    """Whether this cell of a table has no value."""
    return cell is None or cell != cell or (isinstance(cell, str) and cell in WORDS)
