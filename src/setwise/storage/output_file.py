"""A file that the user named for an output: written atomically, and never in place of a file of another kind.

A draft beside the file is flushed to the disk and renamed, so a reader finds the former file or the new one, whole. An
existing file is replaced only if it is empty or begins as files of its kind do: a name that was mistyped
(``--save shop/manifest.json``) costs nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from setwise.errors import InvalidInput
from setwise.storage.artifact import flush_folder

_ABANDONED = 3600  # seconds


def require_replaceable(option: str, path: Path, start: bytes) -> None:
    """Refuse a folder, a device, and a file that is not empty and does not begin with ``start``."""
    todo = "choose a new name, so that nothing is lost"
    try:
        if not path.exists():
            return
        if not path.is_file():
            raise InvalidInput(option, "a file that can be written", f"{path}, a folder or a device", todo)
        with path.open("rb") as file:
            begun = file.read(len(start))
    except OSError as error:
        raise _cannot_write(option, path, error) from None
    if begun not in (b"", start):
        must, got = "a new file, or one that this would write again", f"{path}, a file of another kind"
        raise InvalidInput(option, must, got, todo)


def write_file(option: str, path: Path, start: bytes, parts: Iterable[bytes]) -> None:
    """Write ``parts``, the first of which begin with ``start``, to ``path``."""
    require_replaceable(option, path, start)
    draft = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        _sweep(path)
        with draft.open("xb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        flush_folder(path.parent)
    except OSError as error:
        raise _cannot_write(option, path, error) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _cannot_write(option: str, path: Path, error: OSError) -> InvalidInput:
    todo = "choose a file in a folder that can be written"
    return InvalidInput(option, "a file that can be written", f"{path} ({error.strerror})", todo)


def _sweep(path: Path) -> None:
    """Remove the drafts of writes to this path that were killed more than an hour ago."""
    draft = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}")
    with os.scandir(path.parent) as entries:
        old = [entry for entry in entries if draft.fullmatch(entry.name)]
    for entry in old:
        with contextlib.suppress(OSError):
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                os.unlink(entry.path)
