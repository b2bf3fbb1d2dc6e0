"""What setwise promises, which tests hold it to that, and the table of their last full run.

A test says what it checks with ``@pytest.mark.promise(NAME)``, and may state what it saw with
``record_property("seen", "10,000 mutants: 9,214 refused, 786 harmless")``. ``make test-all`` runs all tests with full
counts; ``pytest --large --promises -m promise FILES`` runs some. Each run replaces in tests/promises.json what was
known of the files whose tests it ran, with its date and commit, and writes the rows of docs/reference/promises.md from
all that is known. So the full counts can be collected file by file.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import processes

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "promises.md"
RESULTS = ROOT / "tests" / "promises.json"
BEGIN, END = "<!-- rows: written by make test-all -->", "<!-- end of rows -->"
NEVER = "not yet run at full count"
OUTCOMES = ("passed", "failed", "skipped")

# {promise: {file: {"passed": 3, "failed": 0, "skipped": 0, "seen": [...], "when": "2026-11-17 20:15", "commit": "..."}}}
Known = dict[str, dict[str, dict[str, Any]]]

PROMISES = {
    "disk": "A full disk or an I/O error loses no saved object, and the error says so",
    "kills": "A save that is killed leaves the old object or the new one",
    "mutants": "A damaged or hostile artifact is refused, or is harmless",
    "hostile-files": "No file makes setwise run code, exhaust memory or read elsewhere",
    "formats": "Artifacts of every released format can be opened",
    "fuzz": "No sequence of bytes and no JSON body causes an internal error",
    "slow-clients": "Slow and endless clients cost little memory and delay no other client",
    "settings": "Every limit holds at its value and one above",
    "overload": "Under overload most requests are answered in time, and probes always",
    "restarts": "Rolling restarts and reloads lose no request",
    "deadlines": "Answers come within their deadlines",
    "worker-kills": "Killed workers cost no request that is retried once",
    "hung-workers": "Hung and aborted workers are replaced",
    "soak": "Memory and descriptors do not grow with requests",
    "operations": "Any sequence of operations gives what the slow reference gives",
    "front-doors": "A query has one answer, in Python, by command, over HTTP, from a table and from a cluster",
    "determinism": "The same request has the same answer, whatever the threads and processes",
    "memory": "With too little memory a command ends with an error, not with damage",
    "keys": "No request is served without the key; keys have rights",
    "audit": "No file outside of the artifact is opened, and no connection is made",
    "error-bodies": "Error messages hold no path, no internals and no control characters",
    "certificates": "A tampered certificate is refused",
    "bounds": "No upper bound is below the optimum, no proof is wrong",
    "outcomes": "An accepted outcome is never lost and never counted twice",
    "rewards": "Rewards without a proof of their bounds get no certificate",
    "supply": "Every part that is installed or shipped is pinned and listed",
}


class Results:
    """Collects the reports of tests that are marked, and writes results and table at the end."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._seen: dict[tuple[str, str], list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a test, or of a set-up that failed or was skipped."""
        if report.when != "call" and report.passed:
            return
        for name, value in report.user_properties:
            if name == "promise":
                part = str(value), report.nodeid.split("::")[0]
                self._outcomes[part][report.outcome] += 1
                self._seen[part] += [str(text) for key, text in report.user_properties if key == "seen"]

    def known(self, when: str, commit: str) -> Known:
        """What this run has seen."""
        result: Known = defaultdict(dict)
        for (name, file), outcomes in self._outcomes.items():
            counts = {outcome: outcomes[outcome] for outcome in OUTCOMES}
            result[name][file] = {**counts, "seen": self._seen[name, file], "when": when, "commit": commit}
        return result

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write what the run has seen, unless it was interrupted: some tests of a file may not have run."""
        if exitstatus != pytest.ExitCode.INTERRUPTED:
            write(merged(stored(RESULTS), self.known(datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), _commit())))


def stored(path: Path) -> Known:
    """The results in a file; none if there is no file."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def merged(*several: Mapping[str, Mapping[str, dict[str, Any]]]) -> Known:
    """The latest result of every file for every promise; files that are gone, and promises, are left out."""
    result: Known = {name: {} for name in PROMISES}
    for known in several:
        for name in PROMISES:
            for file, part in known.get(name, {}).items():
                if part["when"] >= result[name].get(file, part)["when"] and (ROOT / file).exists():
                    result[name][file] = part
    return {name: dict(sorted(files.items())) for name, files in result.items() if files}


def write(known: Known) -> None:
    """Write the results and the table."""
    rows = {name: row_of(name, files) for name, files in known.items()}
    page = with_rows(PAGE.read_text(encoding="utf-8"), rows)
    for path, text in ((RESULTS, json.dumps(known, indent=1) + "\n"), (PAGE, page)):
        draft = path.with_suffix(".draft")
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)


def row_of(name: str, files: Mapping[str, dict[str, Any]]) -> str:
    """One line of the table."""
    totals = {outcome: sum(part[outcome] for part in files.values()) for outcome in OUTCOMES}
    result = ", ".join(f"{total} {outcome}" for outcome, total in totals.items() if total)
    seen = "; ".join([result, *(text for part in files.values() for text in part["seen"])]).replace("|", "/")
    when = "; ".join(sorted({f"{part['when'].split()[0]}, {part['commit']}" for part in files.values()}))
    return f"| {name} | {PROMISES[name]} | {', '.join(f'`{file}`' for file in files)} | {seen} | {when} |"


def rows_of(page: str) -> dict[str, str]:
    """The rows of the page by the names of their promises."""
    body = page[page.index(BEGIN) + len(BEGIN) : page.index(END)]
    lines = [line for line in body.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.split(" | ")[0] != "| Name"}


def with_rows(page: str, rows: dict[str, str]) -> str:
    """The page with these rows, and an empty one for every other promise."""
    lines = [rows.get(name, f"| {name} | {sentence} | | {NEVER} | |") for name, sentence in PROMISES.items()]
    table = [
        "| Name | Promise | Tests | Last full run: tests, and what was seen | When |",
        "|---|---|---|---|---|",
        *lines,
    ]
    return page[: page.index(BEGIN) + len(BEGIN)] + "\n\n" + "\n".join(table) + "\n\n" + page[page.index(END) :]


def _commit() -> str:
    git = processes.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT)
    return git.stdout.strip() or "unknown commit"
