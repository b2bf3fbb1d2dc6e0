"""The digest of data files: rows and learned catalogues that came from other data are not used again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path


def digest(data: Path, names: Sequence[str]) -> str:
    """16 digits of the names and contents of these files below ``data``; a file that is not there counts as missing."""
    parts = "\n".join(f"{name} {_of_file(data / name)}" for name in sorted(names))
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def _of_file(path: Path) -> str:
    if not path.is_file():
        return "missing"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
