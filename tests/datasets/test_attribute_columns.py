"""Attributes of text files: numbers where they mean quantities."""

from __future__ import annotations

from pathlib import Path

import pytest

from setwise.datasets import read_table, with_attributes
from setwise.datasets.attribute_columns import typed_columns


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        ("UnitPrice", ["2", None, "3"], [2, None, 3]),
        ("release_year", ["1999", " 2004"], [1999, 2004]),
        ("PRICE", ["-1", "+2"], [-1, 2]),
        ("length", ["2.5", "3", None], [2.5, 3.0, None]),
        ("artist_id", ["7", "12"], ["7", "12"]),  # codes
        ("priced", ["7", "12"], ["7", "12"]),
        ("price", ["7", "free"], ["7", "free"]),
        ("price", ["7", "1e3"], ["7", "1e3"]),
        ("price", ["1234567890123456"], ["1234567890123456"]),  # a float64 has no room for more digits
        ("price", [None, None], [None, None]),
        ("price", [2, 3.5], [2, 3.5]),
        ("title", ["1999", "7"], ["1999", "7"]),
    ],
)
def test_typed_columns(name: str, cells: list, expected: list) -> None:
    typed = typed_columns({name: cells})[name]
    assert typed == expected
    assert [type(one) for one in typed] == [type(one) for one in expected]


def test_tables_have_typed_columns(tmp_path: Path) -> None:
    table = tmp_path / "baskets.csv"
    table.write_text("order,product,price,slate,liked\n1,tea,2.5,a,1\n1,cup,4,a,0\n2,pot,,b,1\n")
    sessions = read_table(table, "order", "product", attributes=["price", "order"], progress=False)
    assert sessions.attributes == {"price": [2.5, 4.0, None], "order": ["1", "1", "2"]}
    slates = read_table(table, "order", "product", slate="slate", outcome="liked", attributes=["price"], progress=False)
    assert slates.attributes == {"price": [2.5, 4.0, None]}
    years = tmp_path / "years.csv"
    years.write_text("product,year\ntea,1999\npot,2004\n")
    assert with_attributes(slates, years, "product", ["year"], progress=False).attributes["year"] == [1999, None, 2004]
