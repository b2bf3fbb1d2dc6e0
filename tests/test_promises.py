"""The table of promises: a row for each, at least one test for each, and rows that are kept when others are written."""

from __future__ import annotations

import re

import pytest

from promises import NEVER, PAGE, PROMISES, ROOT, row_of, rows_of, with_rows


def test_the_page_has_a_row_for_every_promise() -> None:
    assert list(rows_of(PAGE.read_text(encoding="utf-8"))) == list(PROMISES)


def test_every_row_with_a_result_has_tests_that_are_marked() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    marked = set(re.findall(r'mark\.promise\("([\w-]+)"\)', text))
    for name, row in rows_of(PAGE.read_text(encoding="utf-8")).items():
        assert name in marked or NEVER in row, name
    assert marked <= set(PROMISES)


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_a_run_replaces_its_rows_and_keeps_others(outcome: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    row = row_of("kills", [("tests/a.py::x", outcome), ("tests/a.py::y", "skipped")], ["5 | 5"], "2026-01-01, abc")
    changed = rows_of(with_rows(page, rows_of(page) | {"kills": row}))
    assert changed["kills"].endswith(f"| `tests/a.py` | 1 {outcome}, 1 skipped; 5 / 5 | 2026-01-01, abc |")
    assert {name: one for name, one in changed.items() if name != "kills"} == {
        name: one for name, one in rows_of(page).items() if name != "kills"
    }
