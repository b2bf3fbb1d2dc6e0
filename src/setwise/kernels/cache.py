"""Remove numba's cached machine code when a compiled source file has changed.

Numba stores the machine code of a function beside its source file and compiles it again when that file changes. That
code includes functions from other files, but a change in those is not noticed: the caller's cached code is then stale.
Worse, an index file that names a type which no longer exists cannot be read at all, so that the first request after an
upgrade would fail. ``clear_stale`` compares a digest of all sources that use numba with the one of its last call, and
removes every cached file when they differ. ``import setwise.kernels`` calls it, and so do the tests.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

RECORD = "numba_sources.sha256"
PACKAGE = Path(__file__).parents[1]
SUFFIXES = (".nbi", ".nbc")  # index files first: without its index, code is not loaded


def source_digest(folder: Path) -> str:
    """A sha256 of the paths and texts of all Python files in ``folder`` that mention numba."""
    state = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        if b"numba" in text:
            state.update(f"{path.relative_to(folder).as_posix()}\0{len(text)}\0".encode() + text)
    return state.hexdigest()


def clear_stale(sources: Path, caches: Sequence[Path]) -> int:
    """Remove all cached machine code in ``caches`` if ``sources`` have changed; return the number of files removed.

    The digest is recorded in the first of ``caches``.
    """
    record = caches[0] / RECORD
    digest = source_digest(sources)
    if record.is_file() and record.read_text() == digest:
        return 0
    stale = [path for suffix in SUFFIXES for folder in caches for path in folder.rglob(f"*{suffix}")]
    for path in stale:
        path.unlink(missing_ok=True)
    record.parent.mkdir(parents=True, exist_ok=True)
    draft = record.with_name(f"{RECORD}.{os.getpid()}")
    draft.write_text(digest)
    draft.replace(record)
    return len(stale)


def clear_stale_package() -> None:
    """``clear_stale`` for this package, and in a checkout for its tests, which call compiled functions too.

    Nothing is done where ``NUMBA_CACHE_DIR`` is set, a folder that other packages share, or where the package cannot be
    written: numba then caches elsewhere.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    tests = PACKAGE.parents[1] / "tests"
    with contextlib.suppress(OSError):
        clear_stale(PACKAGE, [PACKAGE / "__pycache__", PACKAGE, *([tests] if tests.is_dir() else [])])
