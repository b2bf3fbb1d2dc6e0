"""Limits on sums as a request states them: their numbers by row of the catalogue, and back to JSON.

The forms are those of ``setwise.model.sums``; numbers of the request's own (``of``) have those of ``item_numbers``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import frozen
from setwise.model.catalog import Catalog
from setwise.model.sums import SUMS, SumLimit, Sums, attribute_numbers, open_size, sum_limits
from setwise.model.users import User
from setwise.recommend.arguments import slate_size
from setwise.recommend.item_numbers import item_numbers, numbers_to_json


def request_sums(
    catalog: Catalog, stated: Mapping[str, Any], unknown: str
) -> tuple[tuple[SumLimit, ...], tuple[Any, ...]]:
    """The limits on sums over items of the catalogue, and ids among their numbers that it does not have."""
    strange: list[Any] = []

    def numbers(parameter: str, name: str, of: Any) -> Floats:
        if of is None:
            return attribute_numbers(catalog.attributes, parameter, name)
        given, ignored = item_numbers(catalog, parameter, of, unknown)
        strange.extend(ignored)
        return given

    return sum_limits(stated, numbers), tuple(strange)


def size_within(k: int | None, limits: Sequence[SumLimit]) -> int:
    """The largest number of items that k and the sums allow; it depends on the catalogue alone, not on the user."""
    if not limits:
        return slate_size(k)
    known = np.flatnonzero(~np.isnan([limit.cost for limit in limits]).any(axis=0))
    sums = Sums.of(limits, len(limits[0].cost))
    if k is None:
        return open_size(sums, known)
    return max(min(slate_size(k), sums.most_items(known)), 1)


def sums_to_json(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that are stated, by argument and name, in the types of JSON."""
    return {name: {key: _plain(entry) for key, entry in stated[name].items()} for name in SUMS if stated.get(name)}


def _plain(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return float(entry)
    return {"limit": float(entry["limit"])} | (
        {"of": numbers_to_json(entry["of"])} if entry.get("of") is not None else {}
    )


def before(
    user: User, sums: tuple[SumLimit, ...], shown: Rows, n: int, counted: bool
) -> tuple[User, tuple[SumLimit, ...]]:
    """The user to whom rewards of items that were ``shown`` before count 0, and sums that count them only if wished.

    A number that is not known counts 0, too: the items are there whatever their numbers.
    """
    weights = np.ones(n) if user.weights is None else user.weights.copy()
    weights[shown] = 0.0
    changed = []
    for limit in sums:
        cost = limit.cost.copy()
        cost[shown] = np.nan_to_num(cost[shown]) if counted else 0.0
        changed.append(limit._replace(cost=cost))
    return user.with_weights(frozen(weights)), tuple(changed)
