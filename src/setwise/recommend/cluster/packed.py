"""Items that travel between shards and front: a packed catalogue of vectors, with ids and attributes where needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Array, Ints, Rows
from setwise.model.attributes import Categorical
from setwise.model.catalog import Catalog

Packed = tuple[dict[str, Array], dict[str, Any]]


class Records(NamedTuple):
    """Items of a shard: their rows in the cluster, vectors, ids, and attributes."""

    rows: Ints
    vectors: Packed
    ids: Array
    attributes: dict[str, Any]


def merged_records(parts: Sequence[Records], wanted: Ints | None = None) -> tuple[Ints, Catalog]:
    """The items of several shards as one catalogue, in the order of their rows; the rows come first.

    Where some are ``wanted``, ascending, the others are left out; no row is in two parts.
    """
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows)
    if wanted is not None:
        order = order[np.searchsorted(rows, wanted, sorter=order)]
    ids = np.concatenate([part.ids for part in parts])[order]
    columns = {name: _joined([part.attributes[name] for part in parts], order) for name in parts[0].attributes}
    return rows[order], _merged_vectors([part.vectors for part in parts], order).named(ids, columns)


def _merged_vectors(parts: Sequence[Packed], order: Rows) -> Catalog:
    """The items of all parts, in this order, without ids and attributes."""
    if all(meta == parts[0][1] for _, meta in parts):  # reward classes have the same numbers
        shared = {name: array for name, array in parts[0][0].items() if name.startswith("sink.")}
        names = [name for name in parts[0][0] if name not in shared]
        whole = {name: np.concatenate([arrays[name] for arrays, _ in parts])[order] for name in names}
        return Catalog.unpacked({**whole, **shared}, parts[0][1])
    first, *others = [Catalog.unpacked(*packed) for packed in parts]
    for other in others:
        first = first.joined(other)
    return first.bare(order)


def _joined(parts: Sequence[Any], order: Rows) -> Any:
    """A column from the parts of several shards: numbers, or lists of texts in which None is a missing value."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)[order]
    values = [value for part in parts for value in part]
    return Categorical.of(values[at] for at in order.tolist())
