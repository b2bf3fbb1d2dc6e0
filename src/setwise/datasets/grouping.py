"""Grouping of rows by their owner: compact arrays in, lists of row numbers out.

numpy does this in one sort. A data frame would need the same arrays, and a library that readers do not depend on.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Ints
from setwise.model.ragged import Ragged

Numbers = Sequence[int] | Ints

LATEST = 500  # items of a history, at most, the latest: otherwise a session of n slates would cost n²


def group_by_owner(owner: Numbers, values: Numbers, count: int, time: ArrayLike | None = None) -> Ragged:
    """The values of each of ``count`` owners, ordered by ``time``; ties, and rows without time, keep their order."""
    owners, items = as_int64(owner), as_int64(values)
    order = np.argsort(owners, kind="stable") if time is None else np.lexsort((np.asarray(time), owners))
    return Ragged.cut(items[order], np.bincount(owners, minlength=count))


def as_int64(given: Numbers) -> Ints:
    """The numbers as an array of int64; an ``array('q')`` is not copied."""
    return np.frombuffer(given, np.int64) if isinstance(given, array) and len(given) else np.asarray(given, np.int64)


def windows(values: Ints, starts: Ints, ends: Ints) -> Ragged:
    """values[start : end] for each pair, limited to its last ``LATEST`` values; windows may overlap."""
    starts = np.maximum(starts, ends - LATEST)
    lengths = ends - starts
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return Ragged.cut(values[np.repeat(starts, lengths) + within], lengths)
