"""Items and columns in the JSON form of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from setwise.model.catalog import Catalog
from setwise.recommend.item_search import Described
from setwise.service.schemas import Attribute, Item


def item(catalog: Catalog, row: int) -> Item:
    """An item with its attributes."""
    return Item(plain(catalog.ids[row]), attributes(catalog, row))


def attributes(catalog: Catalog, row: int) -> dict[str, Any]:
    """The attributes of an item; None where the value is missing."""
    return {name: plain(column[row]) for name, column in catalog.attributes.items()}


def columns(described: Sequence[Described]) -> list[Attribute]:
    """The attributes of a catalogue."""
    return [Attribute(*column) for column in described]


def plain(cell: Any) -> Any:
    """A cell as a JSON value; NaN is None."""
    value = cell.item() if isinstance(cell, np.generic) else cell
    return None if value != value else value
