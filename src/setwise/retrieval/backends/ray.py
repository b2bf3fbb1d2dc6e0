"""``ray``: the vectors in shards, searched by actors of a Ray cluster; each shard has a single-machine backend.

The search is that of ``retrieval/shards.py``; here are only the hosts. A host is an actor that opens shards from their
folders when it is asked for them. An actor that ends is started again by Ray, and calls that it had not answered are
made again, within the deadline of the search. Hosts are shared by all indexes of a process.

Without a cluster, one is started on this machine. In a cluster of several machines, ``folder`` must be on storage that
all of them can read, and every machine needs setwise.

Options: ``shards``, ``replicas`` of each, ``shard_backend``, ``folder``, ``deadline_ms``, ``hedge_ms``.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
import ray

from setwise._types import Array, Floats32, Ints, Mask
from setwise._validation import real_number, whole_number
from setwise.retrieval.backends.protocol import Hits
from setwise.retrieval.backends.scan import checked
from setwise.retrieval.backends.sorted_vectors import SortedVectors
from setwise.retrieval.shards import DEADLINE_MS, HEDGE_MS, Patience, Shard, ShardedSearch, ShardHost, write_shards
from setwise.storage import saved_arrays

THREADS = 4  # searches of one host at a time

_once = threading.Lock()  # held while hosts are started
_hosts: dict[str, list[Any]] = {}  # the actors, by job of Ray


class RayShards(SortedVectors):
    """The vectors sorted by cell, which are saved, and shards of them, which are written again on loading."""

    fetches_more_than_masks = True  # a mask would travel to every shard

    def __init__(
        self,
        vectors: Floats32,
        order: Ints,
        start: Ints,
        shards: float = 2,
        replicas: float = 1,
        shard_backend: str = "scan",
        folder: str | None = None,
        deadline_ms: float = DEADLINE_MS,
        hedge_ms: float = HEDGE_MS,
    ) -> None:
        super().__init__(vectors, order, start)
        self._counts = whole_number("shards", _whole(shards)), whole_number("replicas", _whole(replicas))
        patience = Patience(real_number("deadline_ms", deadline_ms), real_number("hedge_ms", hedge_ms))
        below = Path(tempfile.gettempdir() if folder is None else folder) / f"setwise-shards-{uuid4().hex}"
        below.mkdir(parents=True)
        weakref.finalize(self, shutil.rmtree, below, ignore_errors=True)
        written = write_shards(below, vectors, order, start, self._counts[0], shard_backend)
        hosts = _replicas(len(written), self._counts[1])
        self._sharded = ShardedSearch(written, hosts, patience)
        weakref.finalize(self, _forget, hosts, written)

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        rows, count, _ = checked(self.vectors, users, per_cell, eligible)
        return self._sharded.search(rows, count, eligible)

    def arrays(self) -> dict[str, Array]:
        """The sorted vectors, and the numbers of shards and replicas."""
        return {**super().arrays(), "counts": np.array(self._counts, np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], **options: Any) -> Self:
        """The backend that ``arrays`` saved."""
        counts = saved_arrays.ranged("counts", saved_arrays.typed("counts", arrays["counts"], np.int64, (2,)), 1, 4096)
        saved = {"shards": int(counts[0]), "replicas": int(counts[1])}
        return super().from_arrays(arrays, **{**saved, **options})


def _whole(number: float) -> float:
    """Whole numbers are saved as floats with an index."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


# --- hosts ---


class ActorHost:
    """An actor, as ``ShardedSearch`` calls it."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def submit(self, folder: str, users: Floats32, per_cell: int, eligible: Mask | None) -> Future[Hits]:
        """Search a shard at the actor."""
        future: Future[Hits] = self.actor.search.remote(folder, users, per_cell, eligible).future()
        return future


def _replicas(shards: int, replicas: int) -> list[list[ActorHost]]:
    """The hosts of each shard, each on another actor where there are several."""
    actors = _started(shards * replicas)
    return [[ActorHost(actors[shard + shards * copy]) for copy in range(replicas)] for shard in range(shards)]


def _started(count: int) -> list[Any]:
    """So many actors, started where they are not there yet."""
    with _once:
        if not ray.is_initialized():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it announces changes of later versions
                ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        actors = _hosts.setdefault(ray.get_runtime_context().get_job_id(), [])
        options: dict[str, Any] = {
            "num_cpus": 0,
            "max_restarts": -1,
            "max_task_retries": -1,
            "max_concurrency": THREADS,
        }
        new: list[Any] = [ray.remote(**options)(ShardHost).remote() for _ in range(len(actors), count)]
        ray.get([actor.pid.remote() for actor in new])  # they run: the deadline of a search is not for their start
        actors += new
        return actors[:count]


def _forget(hosts: Sequence[Sequence[ActorHost]], shards: Sequence[Shard]) -> None:
    """Close the shards of an index that is gone; after the end of Ray there is nothing to do."""
    if not ray.is_initialized():
        return
    for some, shard in zip(hosts, shards, strict=True):
        for host in some:
            host.actor.forget.remote(shard.folder)
