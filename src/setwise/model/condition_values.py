"""The values that a condition on an attribute names, checked against the kind of its column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidInput
from setwise.model.truth import is_truth, texts_of_truth, truth_of

SHOWN, TRUTHS = 8, 8  # values of a column of texts that an error lists; of one of truth values, the most


def _listed(condition: Any) -> list[Any]:
    several = isinstance(condition, (list, set, frozenset, np.ndarray))
    return (
        np.asarray(condition).ravel().tolist()
        if isinstance(condition, np.ndarray)
        else list(condition)
        if several
        else [condition]
    )


def texts(name: str, condition: Any, column: Any) -> list[str]:
    """The texts of a column that a condition names, or that mean the truth values that it names."""
    values = _listed(condition)
    if values and all(map(is_truth, values)) and len(column) <= TRUTHS:
        meant = texts_of_truth(column, values)
        if meant is not None:
            return meant
    if not all(isinstance(value, str) for value in values):
        few = ", ".join(map(repr, column[:SHOWN].tolist()))
        more = ", …" if len(column) > SHOWN else ""
        todo = f"the column holds texts: {few}{more}" if few else "the column holds text"
        raise InvalidInput(f"where['{name}']", "a text or a list of texts", repr(condition), todo)
    return values


def truths(condition: Any) -> Any:
    """The condition of a column of truth values, with the truth values that its texts name."""
    values = [value if truth_of(value) is None else truth_of(value) for value in _listed(condition)]
    return values if all(map(is_truth, values)) else condition


def numbers(name: str, condition: Any) -> list[float]:
    """The numbers that a condition names."""
    values = _listed(condition)
    if not all(isinstance(value, (bool, int, float, np.number, np.bool_)) and value == value for value in values):
        must = "a number, a list of numbers or a range (low, high)"
        raise InvalidInput(f"where['{name}']", must, repr(condition), "the column holds numbers")
    return values


def comparables(column: NDArray[Any], values: list[float]) -> list[float] | NDArray[np.int64]:
    """The values that a column of whole numbers can hold: beside a float, numpy would round them all to floats."""
    if column.dtype.kind != "i":
        return values
    return np.array([int(one) for one in values if -(2**63) <= one < 2**63 and one == int(one)], np.int64)


def ends(name: str, range_: tuple[Any, ...]) -> tuple[float, float]:
    """The two ends of a range of numbers."""
    given = [end for end in range_ if end is not None]
    if len(range_) != 2 or not all(isinstance(end, (int, float, np.number)) and end == end for end in given):
        raise InvalidInput(
            f"where['{name}']", "a pair of numbers (low, high)", repr(range_), "use None for an open end"
        )
    low, high = (-np.inf if range_[0] is None else range_[0]), (np.inf if range_[1] is None else range_[1])
    return _comparable(low), _comparable(high)


def _comparable(end: float) -> float:
    """The number, or infinity for an int that no column can hold."""
    return end if abs(end) < 2**63 or isinstance(end, float) else float(np.copysign(np.inf, 1 if end > 0 else -1))
