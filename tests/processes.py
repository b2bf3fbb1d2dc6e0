"""Processes that tests start: each wait has a limit, and they end with all that they have started, whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

LIMIT = 240  # seconds that a test waits, on a machine that may be busy; pytest ends the test itself later
RUN = "SETWISE_TEST_RUN"  # in the environment of all processes of a run of pytest
BLOCK = "SETWISE_TEST_BLOCK"  # in that of a process of ``started``, and of those that it starts


@contextlib.contextmanager
def started(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen]:
    """A process with the options of Popen; at the end of the block it is killed with all that it has started."""
    mark = uuid.uuid4().hex
    environment = {**(options.pop("env", None) or os.environ), BLOCK: mark}
    process = subprocess.Popen(
        [os.fspath(part) if isinstance(part, os.PathLike) else str(part) for part in command],
        env=environment,
        start_new_session=True,
        **options,
    )
    try:
        yield process
    finally:
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):  # there is nobody left in its group
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        for pid in carriers(BLOCK, mark):  # in groups of their own
            kill(pid)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        process.wait(LIMIT)


def run(
    command: Sequence[object], *, text: str | None = None, check: bool = False, limit: float = LIMIT, **options: Any
) -> subprocess.CompletedProcess[str]:
    """What a process that reads ``text`` prints, within so many seconds; ``check``: its status must be 0."""
    given = subprocess.DEVNULL if text is None else subprocess.PIPE
    printed = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(command, stdin=given, **printed, **options) as process:
        out, err = process.communicate(text, timeout=limit)
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    assert not (check and done.returncode), f"{done.args} ended with {done.returncode}: {err}"
    return done


def carriers(name: str, value: str) -> list[int]:
    """The processes whose environment holds this variable, where there is /proc to read it from."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{name}={value}".encode() in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
    return sorted(pid for pid in found if alive(pid))


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def command_of(pid: int) -> str:
    """The command line of a process, or nothing if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def alive(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def workers(service: Any) -> list[int]:
    """The worker processes of ``services.Running``: children of Python's fork server, a child of the service."""
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


def until(holds: Callable[[], object], seconds: float = LIMIT) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
