"""Rows that break the rules of their file: the first one ends the reading, or all are skipped and counted."""

from __future__ import annotations

from setwise.datasets.text_files import Skipped
from setwise.errors import InvalidInput, MalformedFile

STOP, SKIP = "stop", "skip"
FIRST = 3  # rows whose reasons are reported


class MalformedRows:
    """``rows(error)`` raises with ``on_error="stop"``; with "skip" it counts, and ``report`` says what was skipped."""

    def __init__(self, on_error: str = STOP) -> None:
        if on_error not in (STOP, SKIP):
            raise InvalidInput("on_error", f"'{STOP}' or '{SKIP}'", repr(on_error), "choose one of the two")
        self._skips = on_error == SKIP
        self._count, self._first = 0, list[str]()

    def __call__(self, error: MalformedFile) -> None:
        """One malformed row."""
        if not self._skips:
            todo = "on_error='skip' (--on-error skip) leaves such rows out"
            raise MalformedFile(error.path, error.line, f"{error.reason}; {todo}") from None
        self._count += 1
        if len(self._first) < FIRST:
            self._first.append(f"line {error.line}: {error.reason}")

    def report(self, skipped: Skipped) -> None:
        """Add the number of malformed rows, with the first of them, to the counts."""
        if self._count:
            more = "; …" if self._count > len(self._first) else ""
            skipped[f"malformed rows ({'; '.join(self._first)}{more})"] += self._count
