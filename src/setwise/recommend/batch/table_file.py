"""TableFile: the table of a batch, and whether it is still the file that it was when the run began.

A run reads its table more than once and for a long time. Rows that are added or replaced meanwhile were not counted
and not checked, so the output would mix two tables, or hold a user twice.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from setwise.errors import InvalidInput


class TableFile:
    """A file with the digest that it had when this object was made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp, self.digest = _stamp(path), _sha256(path)

    def check(self, closely: bool = False) -> None:
        """Refuse the file if it has changed. Its bytes are compared if size or time differ, or ``closely``."""
        try:
            stamp = _stamp(self.path)
            same = (stamp == self._stamp and not closely) or _sha256(self.path) == self.digest
        except OSError:
            same = False
        if not same:
            todo = "run the command on a copy that no other program writes to, with a new --out"
            raise InvalidInput("table", "one that stays as it is during the run", f"{self.path.name}, changed", todo)
        self._stamp = stamp


def _stamp(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def _sha256(path: Path) -> str:
    with path.open("rb") as raw:
        return hashlib.file_digest(raw, "sha256").hexdigest()
