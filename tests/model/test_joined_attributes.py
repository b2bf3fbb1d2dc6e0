"""Tables of attributes that are joined, where a column without any value has no kind of its own, or cut, where it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput


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


def test_a_column_of_texts_stays_one_when_no_value_is_left(tmp_path: Path) -> None:
    index = sw.Index.build(items(["a", "b", "c"], genre=["jazz", None, None], year=[1990, 1991, 1992]))
    index.remove(["a"])
    index.compact()
    index.save(tmp_path / "index")
    for one in (index, sw.Index.load(tmp_path / "index")):
        with pytest.raises(Infeasible, match=r"where\['genre'\] must be met by an item, got 'jazz'"):
            sw.Recommender(one).recommend([1.0, 1.0], where={"genre": "jazz"})
        one.add(items(["d"], genre=["jazz"], year=[1993]))
        assert sw.Recommender(one).recommend([1.0, 1.0], where={"genre": "jazz"}).items.tolist() == ["d"]
        with pytest.raises(InvalidInput, match="give them the same columns"):
            one.add(items(["e"], genre=[1.5], year=[1993]))
