"""Where numba keeps the machine code of the inner loops, and when that code is thrown away.

Numba stores the machine code of a function and compiles it again when the function's source file changes. That code
includes functions from other files, but a change in those is not noticed: the caller's cached code is then stale.
Worse, an index file that names a type which no longer exists cannot be read at all, so that the first request after an
upgrade would fail. So the code of one version of setwise is never read by another one:

* Beside the sources, where the package can be written and ``NUMBA_CACHE_DIR`` is not set: ``clear_stale`` compares a
  digest of all sources that use numba with the one of its last call, and removes every cached file when they differ.
* Otherwise in a folder that is named after that digest, below the first of these that can be written:
  ``NUMBA_CACHE_DIR``, the user's cache folder, and one in the temporary folder that belongs to this user alone. (Cached
  code is executed: of the last two, one that someone else owns or all may write is not used; ``NUMBA_CACHE_DIR`` is
  the operator's choice.) Code that is kept where nothing can be written, as in an image with a read-only file system,
  is linked into it.
* Nowhere, where none of them can be written: then each process compiles.

``import setwise.kernels`` calls ``prepare``, before any function is compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

RECORD = "numba_sources.sha256"
PACKAGE = Path(__file__).parents[1]
SUFFIXES = (".nbi", ".nbc")  # index files first: without its index, code is not loaded
DIGITS = 16  # of the digest, in the name of a folder


def prepare() -> Path | None:
    """Choose where numba keeps the machine code of this package; return that folder, or None where there is none.

    Unless it is beside the sources, ``numba.config.CACHE_DIR`` is set for the process: functions of other packages that
    are defined later with ``cache=True`` are kept there too.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    if not given and all(_writable(folder) for folder in _beside_sources()):
        clear_stale_package()
        return PACKAGE
    name = f"setwise-{source_digest(PACKAGE)[:DIGITS]}"
    passed: list[Path] = []
    for folder in (parent / name for parent in _parents(given)):
        if _writable(folder):
            for unwritable in passed:
                link_code(unwritable, folder)
            _set_folder(folder)
            return folder
        passed.append(folder)
    return None


def _set_folder(folder: Path) -> None:
    from numba import config  # takes half a second, and is not needed where the code is beside the sources

    config.CACHE_DIR = str(folder)


def _beside_sources() -> list[Path]:
    """The folders in which numba keeps machine code by default: one beside each source file."""
    return sorted({path.parent / "__pycache__" for path in PACKAGE.rglob("*.py")})


def _parents(given: str | None) -> Iterator[Path]:
    """The folders that may hold machine code, by preference; ``given`` is what NUMBA_CACHE_DIR says."""
    if given:
        yield Path(given).absolute()
    with contextlib.suppress(OSError):
        yield _folder_in_user_cache()
    with contextlib.suppress(OSError):
        yield _private_folder()


def _folder_in_user_cache() -> Path:
    """The folder of setwise in the user's cache, made if it is missing; OSError is raised where others may write it.

    A home may be in a folder that all may write (``HOME=/tmp``): someone else could have made the cache before.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if not caches.is_absolute():  # "~" remains where this user has no home
        raise FileNotFoundError("this user has no home")
    folder = caches / "setwise"
    caches.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if os.name == "posix":
        for path, allowed in ((caches, stat.S_ISVTX), (folder, 0)):
            found = path.stat()
            if {path.lstat().st_uid, found.st_uid} - {os.getuid(), 0}:
                raise PermissionError(f"{path} belongs to another user")
            if found.st_mode & stat.S_IWOTH and not found.st_mode & allowed:
                raise PermissionError(f"{path} may be written by all")
    return folder


def _private_folder() -> Path:
    """A folder in the temporary one that only this user may read or write: it is made, or OSError is raised."""
    user = os.getuid() if os.name == "posix" else 0
    folder = Path(tempfile.gettempdir()) / f"setwise-code-{user}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or (os.name == "posix" and (found.st_uid != user or found.st_mode & 0o077)):
        raise PermissionError(f"{folder} is not a folder that only this user may use")
    return folder


def _writable(folder: Path) -> bool:
    """Whether a file can be made in ``folder``, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def link_code(source: Path, target: Path) -> None:
    """Link every file of cached code in ``source`` into the same place in ``target``, unless there is one.

    Numba replaces files and never writes into them, so that what is linked stays as it is. The index of a function is
    linked after its code.
    """
    for suffix in reversed(SUFFIXES):
        for path in source.rglob(f"*{suffix}"):
            link = target / path.relative_to(source)
            with contextlib.suppress(OSError):
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path)


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

    Nothing is done where ``NUMBA_CACHE_DIR`` is set or the package cannot be written: its code is then elsewhere.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    tests = PACKAGE.parents[1] / "tests"
    with contextlib.suppress(OSError):
        clear_stale(PACKAGE, [PACKAGE / "__pycache__", PACKAGE, *([tests] if tests.is_dir() else [])])
