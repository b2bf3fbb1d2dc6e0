"""What computes and saves the parts of a batch: this process, or processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setwise.errors import DamagedArtifact, SetwiseError
from setwise.recommend.batch.parts import Parts
from setwise.recommend.batch.users import Columns, answers
from setwise.recommend.recommender import Recommender
from setwise.storage import artifact

AHEAD = 2  # parts that wait for a process, for each process: memory does not grow with the table
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Job:
    """What is computed; it travels to each process once."""

    table: Path
    model: Path
    digest: str  # of the model
    columns: Columns
    options: Mapping[str, Any]
    parts: Parts

    def write(self, recommender: Recommender, number: int, rows: Rows) -> int:
        """Compute and save a part; the number of its rows."""
        table = self.parts.table(rows, answers(recommender, self.columns, rows, self.options))
        return self.parts.write(number, table)


def opened_model(model: Path, digest: str, options: Mapping[str, Any]) -> Recommender:
    """The recommender saved in ``model``; refuse one that was replaced since its ``digest`` was read."""
    recommender = Recommender.load(model, certify=bool(options["certify"])).prepare()
    if artifact.digest(model) != digest:
        raise DamagedArtifact(model, "it was replaced during the run", "run the same command again")
    return recommender


class ThisProcess:
    """Computes parts here, one after the other."""

    def __init__(self, job: Job, recommender: Recommender) -> None:
        self._job, self._recommender = job, recommender

    def __enter__(self) -> ThisProcess:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing was started."""

    def submit(self, number: int, rows: Rows) -> Iterator[int]:
        """Compute a part; the rows of parts that are finished by then."""
        yield self._job.write(self._recommender, number, rows)

    def rest(self) -> Iterator[int]:
        """The rows of all other parts: there are none."""
        return iter(())


class LocalProcesses:
    """Processes of this machine, which save the parts that they compute."""

    def __init__(self, job: Job, processes: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks of threads of numerical libraries
        self._pool = ProcessPoolExecutor(processes, context, _start_worker, (job,))
        self._most, self._waiting = AHEAD * processes, set[Future[int]]()

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        """End the processes; after an error, without the parts that are not begun."""
        self._pool.shutdown(cancel_futures=kind is not None)

    def submit(self, number: int, rows: Rows) -> Iterator[int]:
        """Begin to compute a part; the rows of parts that are finished by then."""
        try:
            self._waiting.add(self._pool.submit(_work, number, rows))
        except BrokenProcessPool:
            raise _ended() from None
        if len(self._waiting) >= self._most:
            yield from self._finished()

    def rest(self) -> Iterator[int]:
        """The rows of all other parts, as they are finished."""
        while self._waiting:
            yield from self._finished()

    def _finished(self) -> Iterator[int]:
        done, self._waiting = wait(self._waiting, return_when=FIRST_COMPLETED)
        for part in done:
            try:
                yield part.result()
            except BrokenProcessPool:
                raise _ended() from None


Workers = ThisProcess | LocalProcesses


def _ended() -> SetwiseError:
    todo = "Free memory or use fewer --processes, and run the same command again: it continues."
    return SetwiseError(f"A worker process ended before its part was finished (was it killed for memory?). {todo}")


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
    return job.write(_OPEN[0], number, rows)
