"""Start worker processes, though the process that forks them may be suspended.

Workers are forked by a server process (multiprocessing's forkserver). If it is suspended (SIGSTOP), a start never
returns: no lost worker would be replaced, and no reload would end. It is killed then; the next start begins another.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from setwise.service.daemon_thread import in_daemon_thread
from setwise.service.logs import log

LOOK_S = 1.0  # between two looks at the server while a process starts
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


def kill_suspended_server() -> None:
    """Kill the server if it is suspended."""
    if is_suspended(fork_server()):
        log().error("fork server killed", reason="suspended")
        kill_server()


def kill_server() -> None:
    """Kill the server, if there is one."""
    server = fork_server()
    if server is not None:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)


async def started(new_process: Callable[[], BaseProcess]) -> BaseProcess:
    """A process that was started; again where the server ended meanwhile, killed here or not."""
    while True:
        server, process = fork_server(), new_process()
        starting = asyncio.ensure_future(in_daemon_thread(process.start))
        suspended = False
        try:
            while not (await asyncio.wait([starting], timeout=LOOK_S))[0]:
                before, suspended = suspended, is_suspended(fork_server())
                if before and suspended:
                    kill_suspended_server()
            starting.result()
        except (EOFError, OSError):
            if fork_server() == server:
                raise
            continue
        finally:
            starting.cancel()
        return process
