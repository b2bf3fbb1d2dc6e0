"""The log of a service: one thread writes slates and outcomes, and the difference between them is measured.

Entries that arrive while the thread writes are committed together by its next transaction, so a flush of the disk
serves many requests. Slates come before outcomes that wait, since people wait for them: a slate is in the log before
its outcomes can be. A slate that cannot be logged is served all the same, at its deadline if the disk stalls or another
process keeps the database; an outcome that cannot be is answered 503, and the caller sends it again. So it is while
very many outcomes wait; while very many slates do, further ones are not logged. A service that ends waits for a disk
that stalls for a limited time.

**Drift.** Every minute the slates of the last week that had time to get their outcomes are summed: predicted hits,
observed hits, and the standard error of their difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from queue import Empty, PriorityQueue
from typing import NamedTuple

from setwise.errors import InvalidInput
from setwise.service.daemon_thread import in_daemon_thread
from setwise.service.http_errors import log_unavailable
from setwise.service.logs import error_place, log
from setwise.service.metrics import Metrics
from setwise.service.settings import Settings
from setwise.storage.log_database import BUSY_S
from setwise.storage.slate_log import Entry, ItemOutcome, Recorded, ShownSlate, SlateLog, Totals, read_totals

DRIFT_S = 60.0  # between two measurements
WINDOW_S = 7 * 86_400.0  # of the slates that are measured
HOUR_S = 3600.0
LARGEST_COMMIT = 1000  # slates and outcomes, after which no further entry joins
WAITING = 20  # the largest requests with outcomes that may wait
MOST_SLATES = 10_000  # that may wait: some 10 MB
END_S = BUSY_S + 5.0  # for the last entries when the service ends, longer than a wait for another process
_SLATES, _OUTCOMES, _END = range(3)  # in this order


class _Job(NamedTuple):
    entry: Entry
    done: asyncio.Future[Recorded]


class OutcomeLog:
    """The log in a folder: a writing thread, and a task that measures drift."""

    def __init__(self, folder: Path, settings: Settings, metrics: Metrics) -> None:
        self._folder, self._settings, self._metrics = folder, settings, metrics
        self._log = SlateLog(folder, settings.log_weeks)
        self._loop = asyncio.get_running_loop()
        self._jobs: PriorityQueue[tuple[int, int, _Job | None]] = PriorityQueue()
        self._numbers = count()  # of jobs: those of a kind are written in the order of their arrival
        self._waiting, self._unwritten = 0, 0  # outcomes, slates
        self._released = self._loop.create_future()  # requests wait no longer
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()
        self._drift = self._loop.create_task(self._measure())

    async def add_shown(self, slates: Sequence[ShownSlate], deadline: float) -> None:
        """Log slates; at the deadline, of the monotonic clock, they are left to the thread, and served meanwhile.

        Those that cannot be logged are counted, and their outcomes will be of unknown slates.
        """
        if not slates:
            return
        if self._unwritten and self._unwritten + len(slates) > MOST_SLATES:
            self._metrics.count_unlogged(len(slates))
            return
        self._unwritten += len(slates)
        done = self._put(_SLATES, slates)
        done.add_done_callback(partial(self._end_slates, len(slates)))
        await self._wait(done, max(0.0, deadline - time.monotonic()))

    def _end_slates(self, slates: int, done: asyncio.Future[Recorded]) -> None:
        self._unwritten -= slates
        if done.exception() is not None:
            self._metrics.count_unlogged(slates)

    async def add_outcomes(self, outcomes: Sequence[ItemOutcome]) -> Recorded:
        """Log outcomes; when this returns, they are on the disk."""
        done = self._put(_OUTCOMES, outcomes)
        done.add_done_callback(asyncio.Future.exception)  # of requests that have ended it is not an error
        await self._wait(done)
        if not done.done() or done.exception() is not None:
            raise log_unavailable()
        recorded = done.result()
        self._metrics.count_outcomes(recorded.new, recorded.repeated, len(outcomes) - recorded.new - recorded.repeated)
        return recorded

    @contextlib.contextmanager
    def room(self, outcomes: int) -> Iterator[None]:
        """Room for outcomes until they are written; 503 if too many wait: they are in memory."""
        if self._waiting and self._waiting + outcomes > WAITING * self._settings.outcomes:
            raise log_unavailable()
        self._waiting += outcomes
        try:
            yield
        finally:
            self._waiting -= outcomes

    async def _wait(self, done: asyncio.Future[Recorded], seconds: float | None = None) -> None:
        """Wait until this is written, for so many seconds at most; a client that disconnects changes nothing."""
        await asyncio.wait([done, self._released], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    def release(self) -> None:
        """The time for a drain is over: slates are served, and outcomes that still wait are answered 503."""
        if not self._released.done():
            self._released.set_result(None)

    async def end(self) -> None:
        """Write what was accepted, and close; while the log cannot be written, this takes ``END_S`` at most."""
        self._drift.cancel()
        self._jobs.put((_END, next(self._numbers), None))
        await asyncio.to_thread(self._thread.join, END_S)
        if self._thread.is_alive():
            log().error("log not written", slates=self._unwritten)
        with contextlib.suppress(asyncio.CancelledError):
            await self._drift

    # --- the writing thread ---

    def _put(self, kind: int, entry: Entry) -> asyncio.Future[Recorded]:
        job = _Job(entry, self._loop.create_future())
        self._jobs.put((kind, next(self._numbers), job))
        return job.done

    def _write_all(self) -> None:
        """The thread: commit jobs that are waiting, again and again, until None comes."""
        last = False
        while not last:
            *_, job = self._jobs.get()
            jobs, size = [job], 0
            with contextlib.suppress(Empty):
                while job is not None and (size := size + len(job.entry)) < LARGEST_COMMIT:
                    *_, job = self._jobs.get_nowait()
                    jobs.append(job)
            last = job is None
            self._commit([job for job in jobs if job is not None])
        self._log.close()

    def _commit(self, jobs: Sequence[_Job]) -> None:
        if not jobs:
            return
        outcome: Sequence[Recorded] | Exception
        try:
            outcome = self._log.write([job.entry for job in jobs])
        except Exception as error:  # the thread must not end: every request would wait for it
            log().error("log not written", **error_place(error))
            known = isinstance(error, (sqlite3.Error, OSError))
            outcome = error if known else OSError("the log could not be written")
        with contextlib.suppress(RuntimeError):  # the service has ended without waiting any longer
            self._loop.call_soon_threadsafe(_finish, jobs, outcome)

    # --- drift ---

    async def _measure(self) -> None:
        while True:
            try:
                self._metrics.set_drift(await in_daemon_thread(self._recent))
            except InvalidInput as error:  # another process may have removed the files
                log().error("drift not measured", **error_place(error))
            await asyncio.sleep(DRIFT_S)

    def _recent(self) -> Totals:
        """The sums over the slates of the last week that are old enough."""
        before, total = time.time() - HOUR_S * self._settings.log_wait_h, Totals()
        for *_, part in read_totals(self._folder, before - WINDOW_S, before):
            total = total.plus(part)
        return total


def _finish(jobs: Sequence[_Job], outcome: Sequence[Recorded] | Exception) -> None:
    for number, job in enumerate(jobs):
        if job.done.done():
            continue
        if isinstance(outcome, Exception):
            job.done.set_exception(outcome)
        else:
            job.done.set_result(outcome[number])
