"""Admission: a bounded queue between the event loop and the threads that compute.

The event loop admits a request, or turns it away at once when the queue is full. A thread takes the oldest request and,
with it, its share of the waiting ones that are of the same kind: they are computed together, so that one pass over the
catalogue serves them all. Nobody waits for company: a lone request is taken as soon as a thread is free. A request
whose deadline passes while it waits is answered at that moment and never computed.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from setwise.serving.awake import Bell, looks_in
from setwise.serving.logs import log, where_it_failed
from setwise.serving.metrics import Metrics
from setwise.serving.refusals import Refusal, accident, busy, late
from setwise.serving.settings import Settings

Outcome = bytes | Refusal  # the body of an answer, or why there is none
Kind = tuple[Any, ...]
NICE = 5  # of the computing threads
_REMEMBERED = 0.1  # of the mean time of a request, how much the latest one counts


@dataclass(eq=False)
class Job:
    """A request on its way through the queue."""

    kind: Kind | None  # jobs of one kind may be computed together; None: alone
    task: Any
    arrived: float
    deadline: float
    answer: asyncio.Future[Outcome]
    made: list[Any] = field(default_factory=list)  # the slates of its answer, for those who count

    def left_ms(self) -> float:
        """Milliseconds until the deadline."""
        return 1000 * (self.deadline - time.monotonic())

    def waited_ms(self) -> float:
        """Milliseconds since it came."""
        return 1000 * (time.monotonic() - self.arrived)


Work = Callable[[Sequence[Job]], Iterable[tuple[Job, Outcome]]]


class Admission:
    """The queue and its threads."""

    def __init__(self, settings: Settings, work: Work, metrics: Metrics) -> None:
        self._settings, self._work, self._metrics = settings, work, metrics
        self._waiting: deque[Job] = deque()
        self._change = threading.Lock()
        self._idle: list[Bell] = []  # of threads that have nothing to do
        self._looks = looks_in(settings.awake_ms)
        self._closed = False
        self._mean_s = 0.0  # seconds of a thread for one request
        self._workers = settings.workers
        names = [f"setwise-{number}" for number in range(self._workers)]
        self._threads = [threading.Thread(target=self._serve, name=name, daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def refuse_when_full(self) -> None:
        """Turn a request away before anything was done for it."""
        if len(self._waiting) >= self._settings.queue:
            self._metrics.shed("queue")
            seconds = math.ceil(self._mean_s * len(self._waiting) / self._workers)
            raise busy(max(1, seconds))

    async def submit(self, kind: Kind | None, task: Any) -> bytes:
        """Have ``task`` computed: the body of the answer."""
        self.refuse_when_full()
        loop, now = asyncio.get_running_loop(), time.monotonic()
        deadline_s = self._settings.deadline_ms / 1000
        job = Job(kind, task, now, now + deadline_s, loop.create_future())
        with self._change:
            self._waiting.append(job)
            self._ring()
        alarm = loop.call_later(deadline_s, self._expire, job)
        try:
            outcome = await job.answer
        finally:
            alarm.cancel()
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    def _expire(self, job: Job) -> None:
        """The deadline: whoever still waits has waited in vain; who is being computed will be answered."""
        with self._change:
            if job not in self._waiting:
                return
            self._waiting.remove(job)
        self._metrics.shed("deadline")
        _deliver(job, late(self._settings.deadline_ms))

    def close(self) -> None:
        """Let the threads finish what waits, and end."""
        with self._change:
            self._closed = True
            while self._idle:
                self._ring()
        for thread in self._threads:
            thread.join()

    # --- in the threads ---

    def _serve(self) -> None:
        _step_back()
        bell = Bell(self._looks)
        while jobs := self._taken(bell):
            self._metrics.together(len(jobs))
            began, missing = time.monotonic(), dict.fromkeys(jobs)
            try:
                for job, outcome in self._work(jobs):
                    del missing[job]
                    _send(job, outcome)
            except Exception as error:  # one request's misfortune is not the thread's
                log().error("request failed", **where_it_failed(error))
                for job in missing:
                    _send(job, accident())
            spent = (time.monotonic() - began) / len(jobs)
            self._mean_s += _REMEMBERED * (spent - self._mean_s)

    def _taken(self, bell: Bell) -> list[Job]:
        """The oldest job and its company; nothing when the service ends."""
        while True:
            with self._change:
                if self._waiting:
                    return self._grouped()
                if self._closed:
                    return []
                self._idle.append(bell)
            bell.wait()

    def _ring(self) -> None:
        """Wake the thread that was busy last: what it needs is still in its core's caches."""
        if self._idle:
            self._idle.pop().ring()

    def _grouped(self) -> list[Job]:
        """The oldest job and its share of those of its kind."""
        share = min(self._settings.micro_batch, math.ceil(len(self._waiting) / self._workers))
        jobs = [self._waiting.popleft()]
        if jobs[0].kind is not None and share > 1:
            jobs += [job for job in self._waiting if job.kind == jobs[0].kind][: share - 1]
            for job in jobs[1:]:
                self._waiting.remove(job)
        return jobs


def _step_back() -> None:
    """Let the event loop go first where cores are scarce: turning away must stay quick while all threads compute."""
    if sys.platform == "linux":  # elsewhere niceness is the whole process's
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _send(job: Job, outcome: Outcome) -> None:
    """Hand an outcome to the event loop; one that has ended has nobody left to tell."""
    loop = job.answer.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(_deliver, job, outcome)


def _deliver(job: Job, outcome: Outcome) -> None:
    if not job.answer.done():  # the one who asked may have gone
        job.answer.set_result(outcome)
