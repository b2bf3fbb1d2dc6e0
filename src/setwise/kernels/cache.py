"""Remove numba's cached machine code when a compiled source file has changed.

Numba stores the machine code of a function beside its source file and compiles it again when that file changes. That
code includes functions from other files, but a change in those is not noticed: the caller's cached code is then stale.
``clear_stale`` compares a digest of all sources that use numba with the one of its last call, and removes every cached
file when they differ. The tests call it before they start. After editing a compiled function, run

    python -m setwise.kernels.cache

An installed package needs none of this: an installation writes all its files anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

RECORD = "numba_sources.sha256"
PACKAGE = Path(__file__).parents[1]
SUFFIXES = (".nbi", ".nbc")  # index files first: without its index, code is not loaded


def compiled_folders() -> list[Path]:
    """The folder of the package and, in a checkout, that of its tests."""
    tests = PACKAGE.parents[1] / "tests"
    return [PACKAGE, tests] if tests.is_dir() else [PACKAGE]


def source_digest(folders: Iterable[Path]) -> str:
    """A sha256 of the paths and texts of all Python files in ``folders`` that mention numba."""
    state = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            text = path.read_bytes()
            if b"numba" in text:
                state.update(f"{path.relative_to(folder).as_posix()}\0{len(text)}\0".encode() + text)
    return state.hexdigest()


def clear_stale(folders: Sequence[Path]) -> int:
    """Remove all cached machine code of ``folders`` if their sources have changed; return the number of files removed.

    The digest is recorded in the first folder, or in ``NUMBA_CACHE_DIR`` if numba writes there.
    """
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(elsewhere)] if elsewhere else list(folders)
    record = places[0] / ("" if elsewhere else "__pycache__") / RECORD
    digest = source_digest(folders)
    if record.is_file() and record.read_text() == digest:
        return 0
    stale = [path for suffix in SUFFIXES for place in places for path in place.rglob(f"*{suffix}")]
    for path in stale:
        path.unlink(missing_ok=True)
    record.parent.mkdir(parents=True, exist_ok=True)
    draft = record.with_name(f"{RECORD}.{os.getpid()}")
    draft.write_text(digest)
    draft.replace(record)
    return len(stale)


if __name__ == "__main__":
    print(f"{clear_stale(compiled_folders())} cached files removed")
