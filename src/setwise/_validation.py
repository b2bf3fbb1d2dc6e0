"""Checks of arguments: public functions call these once, and internal code trusts the result.

Compiled kernels assume that no NaN or infinity reaches them, so every array that enters is scanned.
"""

from __future__ import annotations

import difflib
import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Rows
from setwise.errors import InvalidInput

FloatType = TypeVar("FloatType", np.float32, np.float64)
ScalarType = TypeVar("ScalarType", bound=np.generic)
Shape = Sequence[int | str]  # an int is required, a str names a free dimension

LARGEST = 1e100  # sums of products of such numbers are finite, so finite input gives no NaN

_SCAN = 1 << 20  # values per step: scanning a mapped file allocates one megabyte, not the file


def available_cores() -> int:
    """The number of processor cores that this process may use; of the machine, where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def real_number(parameter: str, number: object, must: str = "a finite number") -> float:
    """``number`` as a finite float."""
    try:
        if isinstance(number, (bool, np.bool_, str, bytes)):
            raise TypeError
        value = float(number)  # type: ignore[arg-type]  # the except clause is the check
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(parameter, must, repr(number), "pass a plain float") from None
    if not math.isfinite(value):
        raise InvalidInput(parameter, must, value, "remove NaN and infinity before calling")
    return value


_LONGEST_MS = 3.2e10  # a year: clocks and counts of work would overflow beyond


def whole_number(parameter: str, number: object, least: int = 1) -> int:
    """``number`` as an int that is at least ``least``."""
    must = f"a whole number of at least {least}"
    try:
        if isinstance(number, (bool, np.bool_)):
            raise TypeError
        value = operator.index(number)  # type: ignore[arg-type]  # the except clause is the check
    except TypeError:
        raise InvalidInput(parameter, must, repr(number), "pass an int") from None
    if value < least:
        raise InvalidInput(parameter, must, value, f"pass {least} or more")
    return value


_LONGEST_NAME, _MOST_NAMES = 200, 1000  # beyond these, comparing names would take long


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """The question "did you mean 'item'?" with the most similar of some dozens of names; empty if none is similar."""
    text = str(given)
    if len(text) > _LONGEST_NAME:
        return ""
    plain = {_plain(name): name for name in islice(names, _MOST_NAMES)}
    close = difflib.get_close_matches(_plain(text), plain, n=1, cutoff=0.7)
    return f"did you mean {plain[close[0]]!r}?" if close else ""


def _plain(name: str) -> str:
    """The name without case, blanks, underscores and hyphens."""
    return "".join(letter for letter in name.lower() if letter not in " _-")


def listed(parameter: str, many: object, of: str) -> list[Any]:
    """``many`` as a list with one entry per request; a text or a mapping is refused."""
    try:
        if isinstance(many, (str, bytes, Mapping)):
            raise TypeError
        return list(many)  # type: ignore[call-overload,no-any-return]  # the except clause is the check
    except TypeError:
        raise InvalidInput(parameter, f"a list of {of}", type(many).__name__, "put a single one into a list") from None


def text(parameter: str, given: object, longest: int = 40) -> str:
    """``given`` as a short printable text."""
    if not isinstance(given, str) or not given.strip() or len(given) > longest or not given.isprintable():
        raise InvalidInput(parameter, f"a text of 1 to {longest} printable characters", repr(given), "shorten it")
    return given.strip()


def milliseconds(budget_ms: object) -> float | None:
    """``budget_ms`` as a number above 0, or None for no budget."""
    if budget_ms is None:
        return None
    value = real_number("budget_ms", budget_ms)
    if value <= 0:
        raise InvalidInput("budget_ms", "above 0", value, "pass milliseconds, or leave it out")
    return min(value, _LONGEST_MS)


def numbers(parameter: str, array: ArrayLike) -> NDArray[Any]:
    """``array`` as a numpy array of real numbers of any type."""
    if np.ma.is_masked(array):
        raise InvalidInput(parameter, "without masked entries", "some", "fill or drop them")
    try:
        result = np.asarray(array)
    except ValueError:  # ragged nested lists
        raise InvalidInput(
            parameter, "a rectangular array of numbers", "rows of different lengths", "pad or split it"
        ) from None
    if result.dtype.kind not in "fiu":
        raise InvalidInput(parameter, "an array of real numbers", f"dtype {result.dtype}", "convert it to float32")
    return result


def require_shape(parameter: str, array: NDArray[Any], shape: Shape) -> None:
    """Refuse ``array`` unless its dimensions are those of ``shape``."""
    fits = array.ndim == len(shape) and all(
        isinstance(want, str) or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        raise InvalidInput(
            parameter, f"an array of shape {wanted}", f"shape {array.shape}", "reshape it or check its source"
        )


def require_finite(parameter: str, array: NDArray[Any]) -> None:
    """Refuse NaN, infinity and numbers beyond ``LARGEST``, naming the first place, without copying ``array``."""
    if array.dtype.kind != "f":
        return  # integers are finite
    flat, limit = array.reshape(-1), min(LARGEST, float(np.finfo(array.dtype).max))
    for start in range(0, flat.size, _SCAN):
        some = flat[start : start + _SCAN]
        if -limit <= some.min() and some.max() <= limit:  # false for NaN; nothing is allocated
            continue
        good = np.abs(some) <= array.dtype.type(limit)
        if not good.all():
            at = start + int(np.argmin(good))
            place = tuple(int(i) for i in np.unravel_index(at, array.shape))
            must = f"at most {LARGEST:g} in size" if np.isfinite(flat[at]) else "finite everywhere"
            raise InvalidInput(parameter, must, f"{flat[at]} at {place}", "remove or replace such entries")


def is_frozen(array: NDArray[Any]) -> bool:
    """Whether neither ``array`` nor any array that it is a view of is writeable."""
    root: Any = array
    while isinstance(root, np.ndarray):
        if root.flags.writeable:
            return False
        root = root.base
    return True


def frozen(array: NDArray[ScalarType]) -> NDArray[ScalarType]:
    """``array``, made read-only in place. Only for arrays that the caller created: others may hold references."""
    array.flags.writeable = False
    return array


def read_only(array: NDArray[ScalarType]) -> NDArray[ScalarType]:
    """A read-only view in row order: frozen and other arrays then share one compiled version of a function."""
    return frozen(np.ascontiguousarray(array).view())


def real_array(parameter: str, array: ArrayLike, shape: Shape, dtype: type[FloatType]) -> NDArray[FloatType]:
    """``array`` as a finite, C-ordered, read-only array of ``dtype``; copied unless it already is one."""
    given = numbers(parameter, array)
    require_shape(parameter, given, shape)
    with np.errstate(over="ignore"):
        if given.dtype == dtype and given.flags.c_contiguous and is_frozen(given):
            result = given.view()
        else:
            result = np.array(given, dtype=dtype, order="C")
    if result.dtype != given.dtype and given.dtype.kind == "f":
        require_finite(parameter, given)  # report a NaN of the input rather than an overflow of the conversion
    require_finite(parameter, result)
    result.flags.writeable = False
    return result


def index_array(parameter: str, indices: ArrayLike, size: int, of: str, repeats: bool = False) -> Rows:
    """``indices`` as distinct integers in [0, ``size``); ``repeats``: sort, and drop duplicates."""
    array = np.atleast_1d(_integers(parameter, indices))
    require_shape(parameter, array, ("count",))
    outside = (array < 0) | (array >= size)
    if outside.any():
        raise InvalidInput(
            parameter, f"row numbers of {of}, 0 to {size - 1}", int(array[outside][0]), "pass row numbers, not ids"
        )
    result = array.astype(np.intp)
    ordered = np.sort(result)
    repeated = ordered[1:] == ordered[:-1]
    if repeats:
        return np.delete(ordered, 1 + np.flatnonzero(repeated))
    if repeated.any():
        raise InvalidInput(
            parameter,
            "a set of distinct row numbers",
            f"{int(ordered[1:][repeated][0])} more than once",
            "remove the repetition",
        )
    return result


def _integers(parameter: str, array: ArrayLike) -> NDArray[Any]:
    try:
        result = np.asarray(array)
    except (ValueError, OverflowError):
        raise InvalidInput(parameter, "a list of integers", "something else", "pass row numbers") from None
    if result.size == 0:
        return np.zeros(0, np.intp)
    if result.dtype.kind not in "iu":
        raise InvalidInput(parameter, "a list of integers", f"dtype {result.dtype}", "pass row numbers")
    return result


def escaped(text: str) -> str:
    """``text`` with escapes for what is not printable: ids and titles may hold codes that control a terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
