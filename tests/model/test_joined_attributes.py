"""Tables of attributes that are joined: a column without any value has no kind of its own."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput


def items(ids: list[str], **attributes: list) -> sw.Catalog:
    array = np.ones((len(ids), 1, 2))
    return sw.Catalog(array, array, array, ids=ids, attributes=attributes)


@pytest.mark.parametrize("order", [1, -1])
def test_a_column_without_values_joins_texts_and_numbers(order: int) -> None:
    full = items(["a", "b"], genre=["jazz", None], year=[1990, 1991])
    empty = items(["c"], genre=[None], year=[None])
    first, second = (full, empty)[::order]
    joined = first.joined(second)
    found = {str(one): joined.attributes.record(row) for row, one in enumerate(joined.ids)}
    assert found["a"]["genre"] == "jazz"
    assert found["b"]["genre"] is found["c"]["genre"] is None
    assert found["b"]["year"] == 1991


def test_texts_do_not_join_numbers() -> None:
    with pytest.raises(InvalidInput, match="give them the same columns"):
        items(["a"], genre=["jazz"]).joined(items(["b"], genre=[1.5]))
