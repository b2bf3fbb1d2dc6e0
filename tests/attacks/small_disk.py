"""A small file system of its own (tmpfs) whose free space a test decides."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import processes


class SmallDisk:
    """The mounted folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._filler = folder, folder / ".filler"

    @property
    def free(self) -> int:
        """Bytes that are left."""
        about = os.statvfs(self.folder)
        return about.f_bavail * about.f_frsize

    def leave(self, size: int) -> None:
        """Fill the disk so that about ``size`` bytes are left."""
        self._filler.unlink(missing_ok=True)
        taken = max(0, self.free - size)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, taken))

    def empty(self) -> None:
        """Remove the filler."""
        self._filler.unlink(missing_ok=True)

    def remount(self, options: str) -> None:
        """Change the options of the file system: ``ro``, ``rw``."""
        processes.run(["mount", "-o", f"remount,{options}", self.folder], check=True)


@contextmanager
def small_disk(folder: Path, size: str, inodes: int = 0) -> Iterator[SmallDisk]:
    """Mount one; the test is skipped where that is not permitted."""
    folder.mkdir()
    options = f"size={size}" + (f",nr_inodes={inodes}" if inodes else "")
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", folder]
    if processes.run(mount).returncode:
        pytest.skip("this machine does not permit mounting a file system")
    try:
        yield SmallDisk(folder)
    finally:
        processes.run(["umount", "-l", folder], check=True)
