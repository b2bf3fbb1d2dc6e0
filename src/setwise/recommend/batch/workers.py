"""What computes the parts of a batch: this process, or processes of this machine; cluster_tasks.py has a cluster."""

from __future__ import annotations

import multiprocessing
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from setwise.errors import SetwiseError
from setwise.recommend.batch.jobs import Job, opened_model, part_table
from setwise.recommend.recommender import Recommender

AHEAD = 2  # parts that wait for a process, for each process
Rows = list[tuple[Any, ...]]


class Workers(ABC):
    """Computes and saves parts; a few are ahead of their processes, so memory does not grow with the table."""

    def __init__(self, processes: int) -> None:
        self.processes, self._most = processes, AHEAD * processes
        self._waiting: dict[Future[Any], int] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.end(kind is not None)

    def submit(self, number: int, rows: Rows) -> Iterator[int]:
        """Compute a part; the rows of parts that are finished by then."""
        self._waiting[self.started(number, rows)] = number
        if len(self._waiting) >= self._most:
            yield from self._finished()

    def rest(self) -> Iterator[int]:
        """The rows of all other parts, as they are finished."""
        while self._waiting:
            yield from self._finished()

    def _finished(self) -> Iterator[int]:
        for one in wait(self._waiting, return_when=FIRST_COMPLETED).done:
            yield self.saved(self._waiting.pop(one), one)

    @abstractmethod
    def started(self, number: int, rows: Rows) -> Future[Any]:
        """Begin to compute a part."""

    @abstractmethod
    def saved(self, number: int, done: Future[Any]) -> int:
        """The rows of a part whose computation has ended; it is saved."""

    def end(self, failed: bool) -> None:
        """End what was started; ``failed``: do not wait for parts that are not begun."""
        self._waiting.clear()


class ThisProcess(Workers):
    """Computes parts here, one after the other."""

    def __init__(self, job: Job, recommender: Recommender) -> None:
        super().__init__(1)
        self._job, self._recommender, self._most = job, recommender, 1

    def started(self, number: int, rows: Rows) -> Future[Any]:
        """Compute and save a part."""
        done: Future[Any] = Future()
        done.set_result(_written(self._job, self._recommender, number, rows))
        return done

    def saved(self, number: int, done: Future[Any]) -> int:
        """The rows of a part."""
        return int(done.result())


class LocalProcesses(Workers):
    """Processes of this machine, which save the parts that they compute."""

    def __init__(self, job: Job, processes: int) -> None:
        super().__init__(processes)
        context = multiprocessing.get_context("spawn")  # a fork would copy locks of threads of numerical libraries
        self._pool = ProcessPoolExecutor(processes, context, _start_worker, (job,))

    def started(self, number: int, rows: Rows) -> Future[Any]:
        """Begin to compute and save a part."""
        try:
            return self._pool.submit(_work, number, rows)
        except BrokenProcessPool:
            raise _ended() from None

    def saved(self, number: int, done: Future[Any]) -> int:
        """The rows of a part that its process has saved."""
        try:
            return int(done.result())
        except BrokenProcessPool:
            raise _ended() from None

    def end(self, failed: bool) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=failed)


def _ended() -> SetwiseError:
    todo = "Free memory or use fewer --processes, and run the same command again: it continues."
    return SetwiseError(f"A worker process ended before its part was finished (was it killed for memory?). {todo}")


def _written(job: Job, recommender: Recommender, number: int, rows: Rows) -> int:
    return job.parts.write(number, part_table(job, recommender, rows))


# --- in a worker process ---

_JOB: list[Job] = []  # of this process
_OPEN: list[Recommender] = []


def _start_worker(job: Job) -> None:
    """Keep the job; end when the process that started this one ends, however it does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _JOB.append(job)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _work(number: int, rows: Rows) -> int:
    (job,) = _JOB
    if not _OPEN:  # here, as an error of the start would not reach the user
        _OPEN.append(opened_model(job.model, job.digest, job.options))
    return _written(job, _OPEN[0], number, rows)
