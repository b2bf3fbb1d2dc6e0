"""Some sections of a report are replaced, all others stay as they were."""

from __future__ import annotations

import json
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


def test_a_new_section_is_put_in_its_place() -> None:
    page, kept = import_module("page"), import_module("kept_sections")
    sections = [page.Section(name.lower(), name, blocks=[f"new {name}"]) for name in ("A", "B2", "C", "D")]
    new = page.markdown("Results", ["Other opening."], sections)
    text = kept.with_sections(OLD, new, [sections[1], sections[3]], "At a glance")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## At a glance", "## A", "## B2", "## B", "## C", "## D",
    ]  # fmt: skip
    assert "## B2\n\nnew B2\n\n## B\n" in text
    assert text.endswith("## D\n\nnew D\n")
    assert "old a" in text


def test_commands_are_shown_without_the_folders_of_a_machine() -> None:
    report, plan = import_module("report"), import_module("plan")
    for step in plan.PLAN:
        elsewhere = step.command(Path("/home/me/samples"), Path("/tmp/one"), quick=False)
        assert report.as_typed(elsewhere) == step.command(Path("../shared/data"), Path("report"), quick=False)


def test_the_opening_names_the_last_run(tmp_path: Path) -> None:
    report = import_module("report")
    (tmp_path / "rows").mkdir()
    assert report.opening_of(tmp_path / "rows") == report.OPENING
    known = {"began": "2026-01-02 03:04 UTC", "minutes": 41.5, "steps": 25, "done_before": 0, "at_once": 2}
    (tmp_path / "run.json").write_text(json.dumps(known | {"commit": "abc", "machine": "2 cores, some"}))
    assert report.opening_of(tmp_path / "rows")[-1] == (
        "All steps ran in 41.5 minutes from 2026-01-02 03:04 UTC on, 2 at a time, on a machine of 2 cores, some, from "
        "commit abc."
    )
    (tmp_path / "run.json").write_text(json.dumps(known | {"done_before": 24, "commit": "abc", "machine": "2 cores"}))
    assert report.opening_of(tmp_path / "rows")[-1].startswith("1 of 25 steps ran")
