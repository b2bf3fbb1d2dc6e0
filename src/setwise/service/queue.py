"""Admission: a bounded queue between those who ask and the processes that compute.

The event loop admits a request, or turns it away at once when the queue is full. A process that is free gets the oldest
request and, with it, its share of the waiting ones that are of the same kind: they are computed together, so that one
pass over the catalogue serves them all. Nobody waits for company: a lone request goes out as soon as a process is free.
A request whose deadline passes while it waits is answered at that moment and never computed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

from setwise.service.handlers import Outcome, Task
from setwise.service.http_errors import Refusal, busy, late
from setwise.service.metrics import Metrics
from setwise.service.settings import Settings
from setwise.service.worker_pool import Crew, Job, Worker

Tell = Callable[[Outcome], None]  # how to answer the one who asked
_REMEMBERED = 0.1  # of the mean time of a request, how much the latest one counts


class Admission:
    """The queue, and the crew that it waits for. All of it is the event loop's: nothing here is locked."""

    def __init__(self, settings: Settings, metrics: Metrics, crew: Crew, when_short: Callable[[], None]) -> None:
        self._settings, self._metrics, self._when_short = settings, metrics, when_short
        self._waiting: deque[Job] = deque()
        self._mean_s = 0.0  # seconds of a process for one request
        self._alarm: asyncio.TimerHandle | None = None  # at the deadline of one that waits
        self._greet(crew)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def refuse_when_full(self) -> None:
        """Turn a request away before anything was done for it."""
        if len(self._waiting) >= self._settings.queue:
            self._metrics.shed("queue")
            seconds = math.ceil(self._mean_s * len(self._waiting) / self._settings.crew)
            raise busy(max(1, seconds))

    async def submit(self, task: Task) -> bytes:
        """Have ``task`` computed: the body of the answer."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def tell(outcome: Outcome) -> None:
            if not answer.done():  # else nobody waits for it any more
                answer.set_result(outcome)

        self.enter(task, tell)
        outcome = await answer
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    def enter(self, task: Task, tell: Tell) -> None:
        """The same for one who waits in another way, and is told once."""
        self.refuse_when_full()
        now = time.monotonic()
        self._waiting.append(Job(task, now, now + self._settings.deadline_ms / 1000, tell))
        self._hand_out()
        if self._waiting and self._alarm is None:
            self._set_alarm()

    def _set_alarm(self) -> None:
        """All wait equally long at most, so the first in the queue is the first to be late."""
        left_s = self._waiting[0].deadline - time.monotonic()
        self._alarm = asyncio.get_running_loop().call_later(max(left_s, 0.001), self._expire)

    def _expire(self) -> None:
        """The deadline: whoever still waits has waited in vain; who is being computed will be answered."""
        self._alarm = None
        while self._waiting and self._waiting[0].deadline <= time.monotonic():
            self._metrics.shed("deadline")
            self._waiting.popleft().tell(late(self._settings.deadline_ms))
        if self._waiting:
            self._set_alarm()

    # --- the crew ---

    def replace(self, crew: Crew) -> None:
        """Let another crew take over; the old one finishes what it has begun, and goes."""
        resting = self._idle
        self._greet(crew)
        for worker in resting:
            worker.dismiss()
        self._hand_out()

    def _greet(self, crew: Crew) -> None:
        self.crew, self._idle = crew, [*crew.workers]
        for worker in crew.workers:
            worker.when_free, worker.when_lost = self._take_back, self._lose

    def _hand_out(self) -> None:
        """Give what waits to those who are free: the last that worked first, as its caches know the catalogue."""
        while self._waiting and self._idle:
            worker, jobs = self._idle.pop(), self._grouped()
            worker.give(jobs)
            self._metrics.together(len(jobs))

    def _take_back(self, worker: Worker, seconds: float) -> None:
        """A worker is free; it took so long for each of its jobs."""
        self._mean_s += _REMEMBERED * (seconds - self._mean_s)
        if worker in self.crew.workers:
            self._idle.append(worker)
            self._hand_out()
        else:
            worker.dismiss()

    def _lose(self, worker: Worker) -> None:
        """Forget a worker that has died."""
        if worker in self._idle:
            self._idle.remove(worker)
        if worker in self.crew.workers:
            self.crew.workers.remove(worker)
            self._when_short()

    def _grouped(self) -> list[Job]:
        """The oldest job and its share of those of its kind."""
        share = min(self._settings.micro_batch, math.ceil(len(self._waiting) / self._settings.crew))
        jobs = [self._waiting.popleft()]
        if share > 1 and jobs[0].kind is not None:
            jobs += [job for job in self._waiting if job.kind == jobs[0].kind][: share - 1]
            for job in jobs[1:]:
                self._waiting.remove(job)
        return jobs
