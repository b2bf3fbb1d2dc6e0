"""The queue: bounded, between the HTTP routes and the worker pool. Under load it degrades requests (degradation.py).

A free worker gets the oldest task and, with it, its share of the queued tasks that differ only in the user: one pass
over the catalogue serves them all. No task waits for others to join it. A task is *shed*, that is dropped without being
computed, when the queue is full, when its deadline passes in the queue (it is answered at that moment), or when its
client disconnects. A task already at a worker runs to its end. A task whose worker fails is retried once on another
worker, if there is time.
"""

from __future__ import annotations

import asyncio
import bisect
import math
import time
from collections import deque
from collections.abc import Callable

from setwise.recommend.slate import CERTIFICATE
from setwise.service.degradation import GREEDY, SEARCH, Pace
from setwise.service.http_errors import busy, client_gone, deadline_exceeded, shutting_down, worker_lost
from setwise.service.metrics import Metrics
from setwise.service.schemas import HttpRequest
from setwise.service.settings import Settings
from setwise.service.task import Task
from setwise.service.worker_pool import Worker, WorkerPool

SLATE_HANDLERS = ("recommend", "batch", "explain")
_ATTEMPTS = 2
_LATEST = 0.1  # weight of the latest task in the mean time of a task


class TaskQueue:
    """The queue and the pool that serves it. Only the event loop's thread uses it, so nothing is locked."""

    def __init__(
        self, settings: Settings, metrics: Metrics, pool: WorkerPool, on_worker_lost: Callable[[], None]
    ) -> None:
        """``on_worker_lost`` is called for every worker that the pool has lost."""
        self._settings, self._metrics, self._on_worker_lost = settings, metrics, on_worker_lost
        self._waiting: deque[Task] = deque()  # by deadline, earliest first
        self._old: set[Worker] = set()  # of former pools, until their processes have ended
        self._mean_s = 0.0  # seconds of a worker for one task
        self._pace = Pace(settings)
        self._levels: dict[Worker, int] = {}  # of the slates that a worker computes
        self._alarm: asyncio.TimerHandle | None = None  # at the deadline of the first task
        self._use(pool)

    def __len__(self) -> int:
        return len(self._waiting)

    def shed_when_full(self) -> None:
        """Raise 503 when the queue is full, or its tasks take too long, before any work on the request."""
        if len(self._waiting) >= self._settings.queue or self._pace.refuses(len(self._waiting)):
            self._metrics.count_shed("queue")
            seconds = math.ceil(self._mean_s * len(self._waiting) / self._settings.worker_count)
            raise busy(max(1, seconds))

    def add(self, handler: str, request: HttpRequest | bytes, logged: bool = False) -> Task:
        """Queue a request for a handler of the workers; ``logged``: its slates get ids for the log."""
        self.shed_when_full()
        now = time.monotonic()
        task = Task(handler, request, now, now + self._settings.deadline_ms / 1000, logged)
        self._waiting.append(task)
        self._dispatch()
        return task

    def abandon(self, task: Task) -> None:
        """Drop a queued task whose client has disconnected; a task already at a worker runs to its end."""
        if task in self._waiting:
            self._waiting.remove(task)
            self._metrics.count_shed("disconnect")
            task.finish(client_gone())

    # --- deadlines ---

    def _set_alarm(self) -> None:
        """Wake at the deadline of the first task, which is the earliest."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._waiting:
            left_s = self._waiting[0].deadline - time.monotonic()
            self._alarm = asyncio.get_running_loop().call_later(max(left_s, 0.001), self._expire)

    def _expire(self) -> None:
        """Answer the tasks whose deadline has passed in the queue."""
        while self._waiting and self._waiting[0].deadline <= time.monotonic():
            self._metrics.count_shed("deadline")
            self._waiting.popleft().finish(deadline_exceeded(self._settings.deadline_ms))
        self._set_alarm()

    # --- workers ---

    def replace(self, pool: WorkerPool) -> None:
        """Use another pool; the workers of the old one finish their tasks and end."""
        idle = self._idle
        self.pool.copy.close()
        self._old = {worker for worker in (*self._old, *self.pool.workers) if worker.alive}
        self._use(pool)
        for worker in idle:
            worker.close()
        self._dispatch()

    def join(self, pool: WorkerPool, worker: Worker) -> None:
        """Let a worker take the place of a lost one; it ends if another pool is in use by now."""
        if pool is not self.pool:
            worker.close()
            return
        pool.workers.append(worker)
        self._idle.append(worker)
        worker.put_to_work(self._free, self._lose)
        self._dispatch()

    def _use(self, pool: WorkerPool) -> None:
        self.pool, self._idle = pool, [*pool.workers]
        for worker in pool.workers:
            worker.put_to_work(self._free, self._lose)

    def _dispatch(self) -> None:
        """Give queued tasks to idle workers, the most recently used first: the catalogue is still in its CPU cache."""
        while self._waiting and self._idle:
            worker, tasks = self._idle.pop(), self._group()
            if tasks[0].handler in SLATE_HANDLERS:
                self._degrade(worker, tasks)
            worker.compute(tasks)
            self._metrics.observe_group(len(tasks))
        if (self._alarm is None) == bool(self._waiting):
            self._set_alarm()

    def _degrade(self, worker: Worker, tasks: list[Task]) -> None:
        """Set how much the slates of these tasks lose."""
        level = self._pace.level(len(self._waiting))
        for task in tasks:
            task.level = level
        if level:
            self._metrics.count_degraded(SEARCH if level == GREEDY else CERTIFICATE, len(tasks))
        if tasks[0].handler == "recommend":  # others take another time
            self._levels[worker] = level

    def _group(self) -> list[Task]:
        """The oldest task and its share of those with its group key."""
        share = min(self._settings.micro_batch, math.ceil(len(self._waiting) / self._settings.worker_count))
        tasks = [self._waiting.popleft()]
        if share > 1 and tasks[0].group_key is not None:
            tasks += [task for task in self._waiting if task.group_key == tasks[0].group_key][: share - 1]
            for task in tasks[1:]:
                self._waiting.remove(task)
        return tasks

    def _free(self, worker: Worker, seconds: float) -> None:
        """A worker has finished its tasks, with so many seconds for each."""
        self._mean_s += _LATEST * (seconds - self._mean_s)
        level = self._levels.pop(worker, None)
        if level is not None:
            self._pace.observe(level, seconds)
        if worker in self.pool.workers:
            self._idle.append(worker)
            self._dispatch()
        else:
            worker.close()

    def _lose(self, worker: Worker, unfinished: list[Task], reason: str) -> None:
        """A worker has ended or was killed: retry its tasks where possible."""
        self._metrics.count_lost_worker(reason)
        self._levels.pop(worker, None)
        if worker in self._idle:
            self._idle.remove(worker)
        if worker in self.pool.workers:
            self.pool.workers.remove(worker)
            self._on_worker_lost()
        now = time.monotonic()
        for task in reversed(unfinished):
            if task.finished:
                continue
            if reason == "deadline" or task.deadline <= now:
                self._metrics.count_shed("deadline")
                task.finish(deadline_exceeded(self._settings.deadline_ms))
            elif task.attempts >= _ATTEMPTS:
                task.finish(worker_lost())
            else:
                bisect.insort_left(self._waiting, task, key=lambda queued: queued.deadline)
        self._set_alarm()
        self._dispatch()

    # --- the end ---

    def fail_all(self) -> None:
        """Answer every task, queued or at a worker, with 503: the service ends now."""
        workers = [*self.pool.workers, *self._old]
        tasks = [*self._waiting, *(task for worker in workers for task in worker.unfinished)]
        self._waiting.clear()
        for task in tasks:
            task.finish(shutting_down())

    async def end(self) -> None:
        """End all workers, those of former pools too."""
        await asyncio.gather(self.pool.end(), *(worker.end() for worker in self._old))
