"""The table of promises: a row for each, at least one test for each, and rows that are kept when others are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import promises
from promises import NEVER, PAGE, PROMISES, RESULTS, ROOT, Known, Results, merged, row_of, rows_of, stored, with_rows


def test_the_page_has_a_row_for_every_promise() -> None:
    assert list(rows_of(PAGE.read_text(encoding="utf-8"))) == list(PROMISES)


def test_every_row_with_a_result_has_tests_that_are_marked() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    marked = set(re.findall(r'mark\.promise\("([\w-]+)"\)', text))
    for name, row in rows_of(PAGE.read_text(encoding="utf-8")).items():
        assert name in marked or NEVER in row, name
    assert marked <= set(PROMISES)


A, B = "tests/test_house.py", "tests/test_docs.py"


def report(file: str, outcome: str, promise: str = "kills", seen: str = "", when: str = "call") -> pytest.TestReport:
    properties = [("promise", promise), *([("seen", seen)] if seen else [])]
    return pytest.TestReport(f"{file}::x", ("", None, ""), {}, outcome, None, when, user_properties=properties)


def run(*reports: pytest.TestReport, when: str, commit: str = "abc") -> Known:
    results = Results()
    for one in reports:
        results.pytest_runtest_logreport(one)
    return results.known(when, commit)


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_a_run_writes_its_row(outcome: str) -> None:
    reports = report(A, "passed", when="setup"), report(A, outcome, seen="5 | 5"), report(A, "skipped", when="setup")
    known = merged(run(*reports, when="2026-01-01 12:00"))
    row = rows_of(with_rows(PAGE.read_text(encoding="utf-8"), {"kills": row_of("kills", known["kills"])}))["kills"]
    assert row.endswith(f"| `{A}` | 1 {outcome}, 1 skipped; 5 / 5 | 2026-01-01, abc |")


def test_runs_of_several_files_and_machines_make_up_a_row() -> None:
    """A file that ran again replaces its own result; others keep theirs, with the commit."""
    first = run(report(A, "failed", seen="old"), report(B, "passed", seen="kept"), when="2026-01-01 12:00")
    other = run(report(A, "passed", seen="new"), when="2026-01-02 12:00", commit="def")
    for known in (merged(first, other), merged(other, first)):
        cells = row_of("kills", known["kills"]).split(" | ")
        assert cells[2:] == [f"`{B}`, `{A}`", "2 passed; kept; new", "2026-01-01, abc; 2026-01-02, def |"]
    assert "kills" not in merged(run(report("tests/gone.py", "passed"), when="2026-01-01 12:00"))


def test_an_interrupted_run_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "RESULTS", tmp_path / "results.json")
    results = Results()
    results.pytest_runtest_logreport(report(A, "passed"))
    results.pytest_sessionfinish(pytest.ExitCode.INTERRUPTED)
    assert not (tmp_path / "results.json").exists()


def test_the_page_shows_the_stored_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = {name: row_of(name, files) for name, files in merged(stored(RESULTS)).items()}
    assert with_rows(page, rows) == page
