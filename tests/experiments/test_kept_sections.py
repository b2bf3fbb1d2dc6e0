"""Some sections of a report are replaced, all others stay as they were."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

OLD = """# Results

Opening.

## At a glance

| what | the paper | here |
| --- | --- | --- |
| a: one | 1 | 0.1 |
| b: one |  | 0.2 |
| b: two |  | 0.3 |
| c: one |  | 0.4 |

## A

old a

## B

* a note by hand

old b

## C

old c
"""


def test_one_section_is_replaced() -> None:
    page, kept = import_module("page"), import_module("kept_sections")
    section = page.Section("b", "B", blocks=["new b"], headlines=[("b: two", "9", "0.5"), ("b: three", "", "0.6")])
    new = page.markdown("Results", ["Other opening."], [section])
    text = kept.with_sections(OLD, new, [section], "At a glance")
    lines = (
        "| a: one | 1 | 0.1 |\n| b: one |  | 0.2 |\n| b: two | 9 | 0.5 |\n| b: three |  | 0.6 |\n| c: one |  | 0.4 |\n"
    )
    assert lines in text
    assert text == OLD.replace(OLD[OLD.index("| a: one") : OLD.index("\n## A\n")], lines).replace(
        "* a note by hand\n\nold b", "new b"
    )
    assert kept.with_sections(text, new, [section], "At a glance") == text


def test_commands_are_shown_without_the_folders_of_a_machine() -> None:
    report, plan = import_module("report"), import_module("plan")
    for step in plan.PLAN:
        elsewhere = step.command(Path("/home/me/samples"), Path("/tmp/one"), quick=False)
        assert report.as_typed(elsewhere) == step.command(Path("../shared/data"), Path("report"), quick=False)
