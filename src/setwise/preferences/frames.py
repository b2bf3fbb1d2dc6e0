"""Read halo effects between named items from a data frame, square ("wide") or a list of pairs ("long").

A frame is a mapping of names to columns, or anything with ``columns`` and ``frame[name]``: pandas and polars both have
them, and neither is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise._validation import real_array
from setwise.errors import InvalidInput
from setwise.model.ids import Ids


def wide(frame: Any, utility: Any, item: str) -> tuple[Floats, Floats, NDArray[Any]]:
    """u, H and ids from a row and a column per item: a cell is the effect of the column's item on the row's.

    The rows are named by the column ``item``, or by the index of a pandas frame. The order is that of the columns.
    """
    known, numbers = named_numbers(utility)
    columns = _columns(frame)
    names = [name for name in columns if name != item]
    if item not in columns and not hasattr(frame, "index"):
        raise InvalidInput("frame", f"one with a column '{item}' that names its rows", columns, "add that column")
    ids = Ids.of(names, len(names))
    if len(known) != len(ids):
        raise InvalidInput("utility", f"a number for each of {len(ids)} items", len(known), "align it with the frame")
    place = ids.rows_of(_cells(frame, item) if item in columns else list(frame.index))
    if sorted(place) != list(range(len(ids))):
        raise InvalidInput(
            "frame", f"one row for each of its {len(ids)} items", f"{len(place)} rows", "drop or add rows to match"
        )
    matrix = np.empty((len(ids), len(ids)))
    matrix[place] = np.array([_effects(frame, name, len(ids)) for name in names]).T
    return numbers[known.rows_of(names)], matrix, ids[:]


def long(frame: Any, utility: Any, item: str, other: str, effect: str) -> tuple[Floats, Floats, NDArray[Any]]:
    """u, H and ids from rows (item, other, effect of other on item); pairs not listed have 0.

    ``utility`` names all items, and gives their order.
    """
    ids, numbers = named_numbers(utility)
    columns = _columns(frame)
    for name in (item, other, effect):
        if name not in columns:
            raise InvalidInput("frame", f"one with a column '{name}'", columns, "rename its columns")
    rows, others = ids.rows_of(_cells(frame, item)), ids.rows_of(_cells(frame, other))
    if len(others) != len(rows):
        got = f"{len(rows)} cells in '{item}' and {len(others)} in '{other}'"
        raise InvalidInput("frame", "one of columns of equal length", got, "check the source of the frame")
    if len(set(zip(rows, others, strict=True))) < len(rows):
        raise InvalidInput("frame", "one row a pair of items", "a pair more than once", "merge the repeated rows")
    matrix = np.zeros((len(ids), len(ids)))
    matrix[rows, others] = _effects(frame, effect, len(rows))
    return numbers, matrix, ids[:]


def named_numbers(given: Any) -> tuple[Ids, Floats]:
    """The names and the numbers of a mapping (or pandas series) {item: number}."""
    if not hasattr(given, "items"):
        raise InvalidInput("utility", "a mapping of item to utility", type(given).__name__, "pass {item: utility}")
    named = dict(given.items())
    return Ids.of(list(named), len(named)), real_array("utility", list(named.values()), ("n",), np.float64)


def _columns(frame: Any) -> list[Any]:
    names = list(frame if isinstance(frame, Mapping) else getattr(frame, "columns", ()))
    if not names:
        raise InvalidInput("frame", "a data frame or {name: column}", type(frame).__name__, "pass one with columns")
    return names


def _cells(frame: Any, name: Any) -> list[Any]:
    column = frame[name]
    if isinstance(column, str) or not hasattr(column, "__iter__"):
        raise InvalidInput(f"column '{name}'", "a list of cells", repr(column), "pass one cell a row")
    return list(column)


def _effects(frame: Any, name: Any, rows: int) -> Floats:
    return real_array(f"column '{name}'", _cells(frame, name), (rows,), np.float64)
