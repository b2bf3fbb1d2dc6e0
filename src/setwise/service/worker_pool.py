"""The worker pool: the processes that compute, all of one artifact, as the event loop sees them.

Workers are processes, not threads: threads share the global interpreter lock (GIL), and a thread that holds it while it
computes, or while the system runs another process in its place, keeps the event loop from answering.

A worker has one artifact all its life, and another artifact needs another pool, so no response mixes two. Workers are
forked from a server process (multiprocessing's forkserver) that has loaded modules and compiled code (preload.py) and
has no threads: they start quickly, and no lock of another thread is copied.

A worker may hang. It must acknowledge every message, and idle workers are pinged every ``heartbeat_ms``. A worker is
killed if it has not acknowledged for that time and the process is suspended (SIGSTOP), or for five times as long; if it
is found suspended twice during its tasks, which are then sent to another worker; or if it has not finished them
``grace_ms`` after their deadline.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

import msgspec

from setwise.errors import DamagedArtifact, StartTimeout
from setwise.recommend.cluster.files import FRONT
from setwise.service.artifact_copy import copy_artifact, private_folder, sweep
from setwise.service.daemon_thread import in_daemon_thread
from setwise.service.handlers import Reply
from setwise.service.logs import log
from setwise.service.metrics import Metrics
from setwise.service.process_start import birth, is_suspended
from setwise.service.schemas import Info
from setwise.service.served_cluster import Cluster
from setwise.service.served_lists import ListsOnly
from setwise.service.settings import Settings
from setwise.service.task import Task
from setwise.service.worker import NotOpened, Opened, run_worker

PRELOAD = "setwise.service.preload"
END_S = 3.0  # a worker whose connection was closed must end within this time
_STARVED = 5  # heartbeats of silence until a worker that is not suspended is killed: it may lack a core
_CHECK_S = (
    0.05  # between two checks of a worker: cheaper than timers, three of which every request would set and cancel
)
_END_CHECK_S = 0.01  # between two checks whether a process has ended, when the service ends
_SECOND_LOOK_S = 0.1  # a late acknowledgement may be waiting to be read: look once more before the worker is killed
_MESSAGES: msgspec.msgpack.Decoder[Reply | Opened | NotOpened] = msgspec.msgpack.Decoder(Reply | Opened | NotOpened)
_NEVER = math.inf
_ENDED = NotOpened("the process that opened it ended", "look into the log, and try again")
_LENGTH = struct.Struct("!i")  # before every message, as multiprocessing's connections have it


class Worker(asyncio.Protocol):
    """The parent's end of the connection to a worker process."""

    on_free: Callable[[Worker, float], None]  # with seconds for each task of its last group
    on_lost: Callable[[Worker, list[Task], str], None]  # with its unfinished tasks and the reason

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._loop = asyncio.get_running_loop()
        self._tasks: deque[Task] = deque()
        self._began, self._count = 0.0, 0
        self._received = bytearray()
        self._line: asyncio.Transport | None = None
        self._process: BaseProcess | None = None
        self.pid: int | None = None
        self._birth: str | None = None
        self._closed, self._reason = False, "ended"
        self.lost = False
        self.opened: asyncio.Future[Opened | NotOpened] = self._loop.create_future()
        self._unacknowledged = 0  # messages
        self._silent_at = _NEVER  # when a missing acknowledgement is looked into
        self._hung_at = _NEVER  # when the process is killed for it
        self._overdue_at = _NEVER  # when a group of tasks must be done
        self._look_at = _NEVER  # when a process with tasks is next looked at, and
        self._was_suspended = False  # whether it was suspended at the last look
        self._ping_at = _NEVER
        self._next_check: asyncio.TimerHandle | None = None

    async def start(
        self, artifact: Path, version: str, cluster: Cluster | ListsOnly | None = None
    ) -> Opened | NotOpened:
        """Start the process and wait until it has opened the artifact, or has failed to.

        Raises TimeoutError if that takes longer than ``start_ms``.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload([PRELOAD])
            arguments = (theirs, artifact, version, self._settings, cluster)
            self._process = context.Process(target=run_worker, args=arguments, daemon=True)
            async with asyncio.timeout(self._settings.start_ms / 1000):  # the process that forks may be suspended
                await in_daemon_thread(self._process.start)
            self.pid = self._process.pid
            self._birth = birth(self.pid)
        await self.connect(ours)
        async with asyncio.timeout(self._settings.start_ms / 1000):
            return await self.opened

    @property
    def unfinished(self) -> list[Task]:
        """The tasks of the group in progress."""
        return [*self._tasks]

    async def connect(self, line: socket.socket) -> None:
        """Use ``line`` as the connection to the process."""
        await self._loop.create_unix_connection(lambda: self, sock=line)

    def put_to_work(
        self, on_free: Callable[[Worker, float], None], on_lost: Callable[[Worker, list[Task], str], None]
    ) -> None:
        """Set the callbacks, and ping from now on while there is nothing to do."""
        self.on_free, self.on_lost = on_free, on_lost
        self._ping_later()
        self._check()

    def compute(self, tasks: Sequence[Task]) -> None:
        """Send a group of tasks. Every one is finished, or returned by ``on_lost``."""
        self._ping_at = _NEVER
        self._tasks.extend(tasks)
        self._began, self._count = time.monotonic(), len(tasks)
        for task in tasks:
            task.attempts += 1
        self._overdue_at = max(task.deadline for task in tasks) + self._settings.grace_ms / 1000
        self._look_at, self._was_suspended = self._began + self._settings.heartbeat_ms / 1000, False
        self._send(msgspec.json.encode([task.message() for task in tasks]))

    def _send(self, message: bytes) -> None:
        assert self._line is not None
        self._line.write(_LENGTH.pack(len(message)) + message)
        self._unacknowledged += 1
        if self._unacknowledged == 1:
            self._expect_acknowledgement()

    # --- hung workers ---

    def _ping_later(self) -> None:
        self._ping_at = time.monotonic() + self._settings.heartbeat_ms / 1000

    def _expect_acknowledgement(self) -> None:
        self._silent_at = time.monotonic() + self._settings.heartbeat_ms / 1000

    def _check(self) -> None:
        """Ping, or kill a process that hangs, if it is time; and check again later."""
        now = time.monotonic()
        if now >= self._overdue_at:
            self._fail("deadline")
            return
        if now >= self._hung_at or (now >= self._look_at and self._stays_suspended(now)):
            self._fail("hung")
            return
        if now >= self._silent_at:
            # a suspended process is killed after a second look; one that may only lack a core has more time
            wait_s = _SECOND_LOOK_S if is_suspended(self.pid) else (_STARVED - 1) * self._settings.heartbeat_ms / 1000
            self._silent_at, self._hung_at = _NEVER, now + wait_s
        if now >= self._ping_at:
            self._ping_at = _NEVER
            self._send(b"")
        self._next_check = self._loop.call_later(_CHECK_S, self._check)

    def _stays_suspended(self, now: float) -> bool:
        """Whether a process with tasks is suspended, and was a moment ago."""
        again, self._was_suspended = self._was_suspended, is_suspended(self.pid)
        self._look_at = now + (_SECOND_LOOK_S if self._was_suspended else self._settings.heartbeat_ms / 1000)
        return again and self._was_suspended

    def _fail(self, reason: str) -> None:
        """Kill a process that hangs; the end of its connection does the rest."""
        self._reason = reason
        log().error("worker killed", reason=reason)
        self.kill()
        if self._line is not None:
            self._line.abort()

    # --- the end ---

    def close(self) -> None:
        """Let the process end: it does when its connection is closed. Kill it if it does not."""
        if not self._closed:
            self._closed = True
            self._loop.call_later(END_S, self.kill)
        if self._line is not None:
            self._line.close()

    @property
    def alive(self) -> bool:
        """Whether the process has started and not ended.

        Multiprocessing takes a process for ended if the server that forked it has, so /proc counts where there is one.
        """
        return birth(self.pid) == self._birth if self._birth is not None else self._is_child_alive

    @property
    def _is_child_alive(self) -> bool:
        """Whether multiprocessing takes the process for alive."""
        return self._process is not None and self._process.pid is not None and self._process.is_alive()

    def _release(self) -> None:
        """Close the descriptors of a process once it has ended.

        They would stay open until a full pass of the garbage collector, which may be many reloads later.
        """
        if self.alive or self._is_child_alive:
            self._loop.call_later(_CHECK_S, self._release)
        elif self._process is not None and self.pid is not None:
            self._process.close()
            self._process = None

    def kill(self) -> None:
        """End the process now, if it lives; SIGKILL ends a suspended process too."""
        if self.pid is not None and self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Close, and wait until the process has ended; it is killed after ``END_S``."""
        self.close()
        latest = time.monotonic() + 2 * END_S
        while self.alive and time.monotonic() < latest:
            await asyncio.sleep(_END_CHECK_S)
        self._release()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._line = cast(asyncio.Transport, transport)  # uvloop's transports have its methods, not its type
        if self._closed:  # before it was open, because another worker could not open the artifact
            transport.close()

    def data_received(self, data: bytes) -> None:
        """A part of a message, or several messages."""
        self._received += data
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            message = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            if message:
                self._handle(_MESSAGES.decode(message))
            else:
                self._acknowledged()

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended, or was killed."""
        self.lost = True
        if self._next_check is not None:
            self._next_check.cancel()
        if not self.opened.done():
            self.opened.set_result(_ENDED)
        unfinished = [*self._tasks]
        self._tasks.clear()
        if hasattr(self, "on_lost") and (unfinished or not self._closed):
            if self._reason == "ended":
                log().error("worker ended")
            self.on_lost(self, unfinished, self._reason)
        self.close()
        self._release()

    def _acknowledged(self) -> None:
        self._silent_at = self._hung_at = _NEVER
        self._unacknowledged -= 1
        if self._unacknowledged:
            self._expect_acknowledgement()
        elif not self._tasks:
            self._ping_later()

    def _handle(self, message: Reply | Opened | NotOpened) -> None:
        if not isinstance(message, Reply):
            if not self.opened.done():
                self.opened.set_result(message)
            return
        task = self._tasks.popleft()
        task.shown = message.shown
        task.finish(message.outcome)
        for timings, gap in message.slates:
            self._metrics.observe_slate(timings, gap)
        self._metrics.observe_shards(message.calls, message.partial)
        if not self._tasks:
            self._overdue_at = self._look_at = _NEVER
            self._ping_later()
            self.on_free(self, (time.monotonic() - self._began) / self._count)


@dataclass(frozen=True, eq=False)
class WorkerPool:
    """The workers of one artifact, and its description."""

    info: Info
    workers: list[Worker]
    launcher: Launcher
    copy: ExitStack  # removes the copy of the artifact

    @classmethod
    async def start(
        cls, folder: Path, settings: Settings, metrics: Metrics, cluster: Cluster | ListsOnly | None = None
    ) -> WorkerPool:
        """A pool for the artifact that ``folder`` holds now; with a ``cluster``, for the front of its shards or lists.

        The first worker starts alone: the others find in the cache what it compiles, and a bad artifact costs one
        process. All map one copy of the files.
        """
        workers: list[Worker] = []
        await in_daemon_thread(sweep)
        with ExitStack() as undo:
            undo.callback(_kill_all, workers)
            copy = undo.enter_context(ExitStack())
            artifact = copy.enter_context(private_folder(FRONT))
            version = ListsOnly.version
            if not isinstance(cluster, ListsOnly):
                source = folder if cluster is None else folder / FRONT
                version = await in_daemon_thread(copy_artifact, source, artifact)
            launcher = Launcher(folder, artifact, version, settings, metrics, cluster)
            info = await launcher.start(workers)
            await asyncio.gather(*(launcher.start(workers) for _ in range(1, settings.worker_count)))
            if any(worker.lost for worker in workers):
                raise DamagedArtifact(folder, _ENDED.reason, _ENDED.todo)
            undo.pop_all()
        return cls(info, workers, launcher, copy)

    async def start_worker(self) -> Worker:
        """One more worker of the same artifact, which is not in ``workers`` yet."""
        started: list[Worker] = []
        with ExitStack() as undo:
            undo.callback(_kill_all, started)
            await self.launcher.start(started)
            if started[0].lost:
                raise DamagedArtifact(self.launcher.folder, _ENDED.reason, _ENDED.todo)
            undo.pop_all()
        return started[0]

    async def end(self) -> None:
        """Close all workers and wait until they have ended."""
        self.copy.close()
        await asyncio.gather(*(worker.end() for worker in self.workers))


@dataclass(frozen=True)
class Launcher:
    """Starts the workers of a pool on a copy of the artifact; ``folder`` is where it came from, as errors name it."""

    folder: Path
    artifact: Path
    version: str
    settings: Settings
    metrics: Metrics
    cluster: Cluster | ListsOnly | None

    async def start(self, started: list[Worker]) -> Info:
        """Start a worker and append it to ``started``; the description of the artifact when it has opened it."""
        worker = Worker(self.settings, self.metrics)
        started.append(worker)
        try:
            report = await worker.start(self.artifact, self.version, self.cluster)
        except TimeoutError:
            raise StartTimeout(self.folder, self.settings.start_ms) from None
        if isinstance(report, NotOpened):
            raise DamagedArtifact(self.folder, report.reason, report.todo)
        return report.info


def _kill_all(workers: Sequence[Worker]) -> None:
    """End workers that have no task."""
    for worker in workers:
        worker.close()
        worker.kill()
