"""Numbers of items that a request names: an attribute's name, one number for each item, or {id: number}.

Weights of rewards and the numbers of sums come in these forms, at every door. What has no number is NaN here: a missing
value of the attribute, or an item that the mapping does not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats
from setwise._validation import real_array
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.sums import attribute_numbers
from setwise.recommend.caller_scores import ids_of, values_of
from setwise.recommend.histories import known_items

Stated = str | ArrayLike | Mapping[Any, float]


def item_numbers(catalog: Catalog, parameter: str, stated: Any, unknown: str) -> tuple[Floats, tuple[Any, ...]]:
    """The number of each item (n,), and the ids of a mapping that the catalogue does not have."""
    if isinstance(stated, str):
        return attribute_numbers(catalog.attributes, parameter, stated), ()
    if not isinstance(stated, Mapping):
        given = real_array(parameter, _list(parameter, stated), ("n",), np.float64)
        if len(given) != len(catalog):
            todo = "pass one number per item, in the order of the catalogue, {id: number}, or an attribute's name"
            raise InvalidInput(parameter, f"one for each of {len(catalog)} items", f"{len(given)}", todo)
        return given, ()
    ids, values = ids_of(catalog, stated, None, parameter), values_of(stated, parameter)
    rows, ignored = known_items(catalog, parameter, ids, unknown)
    strange = set(ignored)
    numbers = np.full(len(catalog), np.nan)
    numbers[rows] = values[[id_ not in strange for id_ in ids]] if ignored else values
    return numbers, ignored


def _list(parameter: str, stated: Any) -> Any:
    if np.ndim(stated) == 0:
        must = "an attribute's name, one number for each item, or {id: number}"
        raise InvalidInput(parameter, must, repr(stated), "pass one of these")
    return stated


def numbers_to_json(stated: Any) -> Any:
    """The form that JSON has: a name, a list, or an object whose keys are texts."""
    if isinstance(stated, Mapping):
        return {str(id_): float(number) for id_, number in stated.items()}
    return stated if stated is None or isinstance(stated, str) else np.asarray(stated, np.float64).tolist()
