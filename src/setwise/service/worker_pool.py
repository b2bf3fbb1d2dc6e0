"""The crew: the processes that compute, all of one artifact, as the event loop sees them.

Processes and not threads, because threads share the interpreter's lock: a computing thread that holds it while the
machine gives its core to another keeps the event loop from turning requests away. So the loop has a process for itself.

A worker has one artifact all its life. Another artifact means another crew, and no answer can be of two. Workers are
forked from a server of Python's that has imported everything and nothing else, so that it is safe and quick.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import struct
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import msgspec

from setwise.errors import DamagedArtifact
from setwise.service.artifact import copied
from setwise.service.handlers import Kind, One, Order, Outcome, Reply, Task, kind
from setwise.service.http_errors import accident
from setwise.service.logs import log
from setwise.service.metrics import Metrics
from setwise.service.schemas import Info
from setwise.service.settings import Settings
from setwise.service.worker import Fit, Unfit, work

PATIENCE_S = 10.0  # for a worker that was told to go
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([work.__module__])
_HEARD: msgspec.msgpack.Decoder[Reply | Fit | Unfit] = msgspec.msgpack.Decoder(Reply | Fit | Unfit)
_ENDED = Unfit("the process that opened it ended", "look into the log, and try again")
_LENGTH = struct.Struct("!i")  # before every message, as multiprocessing's connections have it


@dataclass(eq=False)
class Job:
    """A request on its way through the queue."""

    task: Task
    arrived: float
    deadline: float
    tell: Callable[[Outcome], None]

    @cached_property
    def kind(self) -> Kind | None:
        """Jobs of one kind may be computed together; None: alone. Asked for only when somebody waits."""
        return kind(self.task.ask) if isinstance(self.task, One) else None


class Worker(asyncio.Protocol):
    """A process that computes: hired, given jobs one group at a time, dismissed."""

    when_free: Callable[[Worker, float], None]  # by seconds a job
    when_lost: Callable[[Worker], None]

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._jobs: deque[Job] = deque()
        self._began, self._count = 0.0, 0
        self._heard = bytearray()
        self._line: asyncio.Transport | None = None
        self._dismissed = self.dead = False
        self._ready: asyncio.Future[Fit | Unfit] = asyncio.get_running_loop().create_future()

    async def hire(self, artifact: Path, version: str, settings: Settings) -> Fit | Unfit:
        """Start the process and wait until it has opened the artifact: what it has found there."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _PROCESSES.Process(target=work, args=(theirs, artifact, version, settings), daemon=True)
            await asyncio.to_thread(self._process.start)
        await self.connect(ours)
        return await self._ready

    async def connect(self, line: socket.socket) -> None:
        """Talk to whoever is at the other end of ``line``."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=line)

    def give(self, jobs: Sequence[Job]) -> None:
        """Have jobs of one kind computed."""
        self._jobs.extend(jobs)
        self._began, self._count = time.monotonic(), len(jobs)
        message = msgspec.json.encode([Order(job.task, job.arrived, job.deadline) for job in jobs])
        assert self._line is not None
        self._line.write(_LENGTH.pack(len(message)) + message)

    def dismiss(self) -> None:
        """Let the process end: it does when it finds nobody at the other end of the line."""
        self._dismissed = True
        if self._line is not None:
            self._line.close()

    async def gone(self) -> None:
        """Dismiss the process and wait until it has ended, but not for ever."""
        self.dismiss()
        await asyncio.to_thread(self._process.join, PATIENCE_S)
        if self._process.is_alive():
            self._process.kill()

    # --- what asyncio calls ---

    def connection_made(self, line: asyncio.BaseTransport) -> None:
        """The line is open."""
        self._line = cast(asyncio.Transport, line)  # uvloop's is one by its methods only
        if self._dismissed:  # before it came: another of its crew was unfit
            line.close()

    def data_received(self, data: bytes) -> None:
        """Part of a message, or several."""
        self._heard += data
        while len(self._heard) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._heard)[0]
            if len(self._heard) < end:
                return
            message = bytes(self._heard[_LENGTH.size : end])
            del self._heard[:end]
            if message:  # an empty one only says that another comes soon
                self._understand(_HEARD.decode(message))

    def connection_lost(self, error: Exception | None) -> None:
        """The process has ended, as it was told or by an accident."""
        self.dead = True
        if not self._ready.done():
            self._ready.set_result(_ENDED)
        if not self._dismissed and hasattr(self, "when_lost"):  # it had been put to work
            log().error("a computing process ended")
            self.when_lost(self)
        for job in self._jobs:
            job.tell(accident())

    def _understand(self, message: Reply | Fit | Unfit) -> None:
        if not isinstance(message, Reply):
            self._ready.set_result(message)
            return
        self._jobs.popleft().tell(message.outcome)
        if not self._jobs:
            self.when_free(self, (time.monotonic() - self._began) / self._count)
        for timings, gap in message.slates:
            self._metrics.slate(timings, gap)


@dataclass(frozen=True, eq=False)
class Crew:
    """Workers of one artifact, and what is known of it."""

    info: Info
    workers: list[Worker]

    @classmethod
    async def hired(cls, folder: Path, settings: Settings, metrics: Metrics) -> Crew:
        """A crew for what ``folder`` holds now.

        The first worker comes alone: what it must compile, the others find in the cache, and a bad artifact takes one
        process. All map one copy, which has no name any more when the last has opened it.
        """
        workers: list[Worker] = []

        async def found(artifact: Path, version: str) -> Info:
            worker = Worker(metrics)
            workers.append(worker)
            report = await worker.hire(artifact, version, settings)
            if isinstance(report, Unfit):
                raise DamagedArtifact(folder, report.reason, report.todo)
            return report.info

        try:
            with tempfile.TemporaryDirectory(prefix="setwise-") as private:
                artifact = Path(private) / "artifact"
                version = await asyncio.to_thread(copied, folder, artifact)
                info = await found(artifact, version)
                await asyncio.gather(*(found(artifact, version) for _ in range(1, settings.crew)))
            if any(worker.dead for worker in workers):
                raise DamagedArtifact(folder, _ENDED.reason, _ENDED.todo)
        except BaseException:
            for worker in workers:
                worker.dismiss()
            raise
        return cls(info, workers)

    async def gone(self) -> None:
        """Dismiss everybody and wait until they have ended."""
        await asyncio.gather(*(worker.gone() for worker in self.workers))
