"""What setwise promises, which tests hold it to that, and the table of their last full run.

A test says what it checks with ``@pytest.mark.promise(NAME)``, and may state what it saw with
``record_property("seen", "10,000 mutants: 9,214 refused, 786 harmless")``. ``make test-all`` runs all tests with full
counts and writes the rows of docs/reference/promises.md; a row whose tests did not run keeps its last result.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "promises.md"
BEGIN, END = "<!-- rows: written by make test-all -->", "<!-- end of rows -->"
NEVER = "not yet run at full count"

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
    "determinism": "The same request has the same answer, whatever the threads and processes",
    "memory": "With too little memory a command ends with an error, not with damage",
    "keys": "No request is served without the key; keys have rights and rates",
    "audit": "No file outside of the artifact is opened, and no connection is made",
    "error-bodies": "Error messages hold no path, no internals and no control characters",
    "certificates": "A tampered certificate is refused",
    "bounds": "No upper bound is below the optimum, no proof is wrong",
    "outcomes": "An accepted outcome is never lost and never counted twice",
    "rewards": "Rewards without a proof of their bounds get no certificate",
    "supply": "Every part that is installed or shipped is pinned and listed",
}


class Results:
    """Collects the reports of tests that are marked, and writes the table at the end."""

    def __init__(self) -> None:
        self.tests: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.seen: dict[str, list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a test, or of a set-up that failed or was skipped."""
        if report.when != "call" and report.passed:
            return
        for name, value in report.user_properties:
            if name == "promise":
                self.tests[str(value)].append((report.nodeid, report.outcome))
                self.seen[str(value)] += [str(text) for key, text in report.user_properties if key == "seen"]

    def pytest_sessionfinish(self) -> None:
        """Write the rows of the promises whose tests ran."""
        known = rows_of(PAGE.read_text(encoding="utf-8"))
        when = f"{datetime.now(UTC).date().isoformat()}, {_commit()}"
        new = {name: row_of(name, self.tests[name], self.seen[name], when) for name in PROMISES if self.tests[name]}
        draft = PAGE.with_suffix(".draft")
        draft.write_text(with_rows(PAGE.read_text(encoding="utf-8"), known | new), encoding="utf-8")
        os.replace(draft, PAGE)


def row_of(name: str, tests: list[tuple[str, str]], seen: list[str], when: str) -> str:
    """One line of the table."""
    counts = {outcome: sum(each == outcome for _, each in tests) for outcome in ("passed", "failed", "skipped")}
    result = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    files = ", ".join(sorted({f"`{node.split('::')[0]}`" for node, _ in tests}))
    return f"| {name} | {PROMISES[name]} | {files} | {'; '.join([result, *seen]).replace('|', '/')} | {when} |"


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
    git = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return git.stdout.strip() or "unknown commit"
