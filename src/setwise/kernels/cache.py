"""Where the machine code of the inner loops is kept.

numba keeps the machine code of a function and compiles it again when the function's source file changes. That code
includes functions from other files, but a change in those is not noticed. So the code of one version of setwise is
never read by another one: its folder is named after a digest of all sources with compiled functions, and is below the
first of these that can be written:

* ``NUMBA_CACHE_DIR``, the operator's choice;
* the user's cache folder;
* one in the temporary folder that belongs to this user alone.

Cached code is executed: of the last two, a folder that someone else owns or all may write is not used. Code kept
where nothing can be written, as in an image with a read-only file system, is linked. Where no folder can be written,
each process compiles. Nothing is written beside the sources, so that an uninstalled package leaves nothing there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
SUFFIXES = (".nbi", ".nbc")  # index files first: without its index, code is not loaded
DIGITS = 16  # of the digest, in the name of a folder
VERSIONS = 8  # whose code is kept in one place: those that were used last


@cache
def code_folder() -> Path | None:
    """The folder for the machine code of this version, which is made if it is missing; None if there is none."""
    name = f"setwise-{source_digest(PACKAGE)[:DIGITS]}"
    read_only: list[Path] = []
    for folder in (parent / name for parent in _parents(os.environ.get("NUMBA_CACHE_DIR"))):
        if _writable(folder):
            for source in read_only:
                link_code(source, folder)
            with contextlib.suppress(OSError):
                os.utime(folder)
                remove_old(folder.parent)
            return folder
        read_only.append(folder)
    return None


def _parents(chosen: str | None) -> Iterator[Path]:
    """The folders that may hold machine code, by preference; ``chosen`` is what NUMBA_CACHE_DIR says."""
    if chosen:
        yield Path(chosen).absolute()
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
            target = path.stat()
            if {path.lstat().st_uid, target.st_uid} - {os.getuid(), 0}:
                raise PermissionError(f"{path} belongs to another user")
            if target.st_mode & stat.S_IWOTH and not target.st_mode & allowed:
                raise PermissionError(f"{path} may be written by all")
    return folder


def _private_folder() -> Path:
    """A folder in the temporary one that only this user may read or write: it is made, or OSError is raised."""
    user = os.getuid() if os.name == "posix" else 0
    folder = Path(tempfile.gettempdir()) / f"setwise-code-{user}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or (os.name == "posix" and (state.st_uid != user or state.st_mode & 0o077)):
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


def remove_old(parent: Path) -> None:
    """Remove the code of all versions in ``parent`` but the last ``VERSIONS`` that were used."""
    versions = [path for path in parent.glob(f"setwise-{'[0-9a-f]' * DIGITS}") if path.is_dir()]
    for path in sorted(versions, key=lambda path: path.stat().st_mtime, reverse=True)[VERSIONS:]:
        shutil.rmtree(path, ignore_errors=True)


def compiled_sources(folder: Path) -> list[Path]:
    """The Python files in ``folder`` that have compiled functions or compile them."""
    return [path for path in sorted(folder.rglob("*.py")) if b"njit" in path.read_bytes()]


def source_digest(folder: Path) -> str:
    """A sha256 of the paths and texts of the ``compiled_sources`` of ``folder``."""
    state = hashlib.sha256()
    for path in compiled_sources(folder):
        text = path.read_bytes()
        state.update(f"{path.relative_to(folder).as_posix()}\0{len(text)}\0".encode() + text)
    return state.hexdigest()
