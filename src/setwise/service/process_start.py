"""Processes as the system shows them in /proc: whether a worker is suspended, and the server that forks workers."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

SERVER = b"multiprocessing.forkserver"  # in its command line


def is_suspended(pid: int | None) -> bool:
    """Whether the process is suspended (SIGSTOP); False if there is none, or the system has no /proc."""
    return pid is not None and _status(pid)[0] in "Tt"


def birth(pid: int | None) -> str | None:
    """When the process was started, which differs for a later one of its number; None if it is not there."""
    status = ["Z"] if pid is None else _status(pid)
    return None if status[0] == "Z" else status[19]


def _status(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; a process that has ended is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() or ["Z"]
    except OSError:
        return ["Z"]


def fork_server() -> int | None:
    """The server process of this one; None if there is none, or the system has no /proc."""
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for pid in map(int, children.read_text().split()):
                if SERVER in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
    return None


def kill_server() -> None:
    """Kill the server, if there is one: it may compile for minutes."""
    server = fork_server()
    if server is not None:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
