"""The processes of a service that runs in a process of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from services import Running


def alive(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def workers(service: Running) -> list[int]:
    """The worker processes: children of Python's fork server, which is a child of the service."""
    return [pid for server in children(service.process.pid) for pid in children(server)]


def children(pid: int) -> list[int]:
    """The processes that this one has started and that have not ended."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(status.parent.name))
    return sorted(found)


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
