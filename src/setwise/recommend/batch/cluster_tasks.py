"""The parts of a batch as tasks of a Ray cluster, in place of processes of this machine.

A task opens the model, which every machine must see under the same path, unless its process has done so for an earlier
part. It returns the part, and the process that runs the batch writes it: machines need not see the output. A task whose
machine was lost is computed again by Ray; a part is written once, so there is one row a user.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from setwise.errors import InvalidInput
from setwise.recommend.batch.jobs import Job, opened_model, part_table
from setwise.recommend.batch.workers import Rows, Workers
from setwise.recommend.cluster.joining import joined
from setwise.recommend.recommender import Recommender

_OPEN: dict[str, Recommender] = {}  # the model of this process, by the job's text


class ClusterTasks(Workers):
    """Computes parts by tasks, each on one core of the cluster at ``address``; on all its cores unless stated."""

    def __init__(self, job: Job, address: str, processes: int | None = None) -> None:
        ray = joined(address).ray
        cores = int(ray.cluster_resources().get("CPU", 0))
        if cores < 1:
            todo = "start Ray on one machine more, with ray start --address"
            raise InvalidInput("cluster", "one with a core for tasks", "none", todo)
        super().__init__(processes or cores)
        self._cancel, self._job, self._parts = ray.cancel, ray.put(replace(job, model=job.model.resolve())), job.parts
        self._task = ray.remote(num_cpus=1, max_retries=-1)(computed_part)
        self._tasks: dict[Future[Any], Any] = {}

    def started(self, number: int, rows: Rows) -> Future[Any]:
        """Begin to compute a part."""
        task = self._task.remote(self._job, rows)
        future: Future[Any] = task.future()
        self._tasks[future] = task
        return future

    def saved(self, number: int, done: Future[Any]) -> int:
        """Save a part."""
        del self._tasks[done]
        return self._parts.write(number, done.result())

    def end(self, failed: bool) -> None:
        """Cancel what is not finished; the cluster goes on."""
        for task in self._tasks.values():
            self._cancel(task)


def computed_part(job: Job, rows: Rows) -> Any:
    """The table of a part, computed in a process of the cluster."""
    text = f"{job.model} {job.parts.job}"
    if text not in _OPEN:
        _OPEN.clear()
        _OPEN[text] = opened_model(job.model, job.digest, job.options)
    return part_table(job, _OPEN[text], rows)
