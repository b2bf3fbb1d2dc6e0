"""Hosts as actors of Ray: started once, found by name from every process of the cluster, restarted when they end.

An actor opens its shard when it starts, and again when Ray starts it anew, from the files of the cluster: machines need
setwise and the same folder. Calls that an actor had not answered when it ended are made again by Ray, within the
deadline of the request.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import ray

from setwise.errors import DamagedArtifact
from setwise.recommend.cluster.files import FrontFiles, Version, read_front, shard_folder
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.cluster.shard_reader import ShardReader
from setwise.retrieval.shards import Patience

NAMESPACE = "setwise"
NICENESS = "RAY_worker_niceness"  # read by Ray when it is started
THREADS = 4  # calls that one actor answers at a time


class ShardActor:
    """A ``ShardReader`` that has opened its shard.

    Ray starts an actor anew with its first arguments. If the items were split again since, that version is gone: then
    the first request opens the one that it names.
    """

    def __init__(self, folder: str, first: int, version: Version) -> None:
        self._reader = ShardReader()
        with contextlib.suppress(DamagedArtifact):
            self.opened(folder, first, version)

    def opened(self, folder: str, first: int, version: Version) -> None:
        """Open the shard, unless it is open."""
        self._reader.answer("located", folder, first, version, [])

    def answer(self, arguments: tuple[Any, ...]) -> Any:
        """``ShardReader.answer``."""
        return self._reader.answer(*arguments)

    def pid(self) -> int:
        """The process."""
        return os.getpid()


class ActorHost:
    """An actor, as the front calls it."""

    def __init__(self, actor: Any, shard: tuple[str, int, Version]) -> None:
        self.actor, self._shard = actor, shard

    def opening(self) -> Future[Any]:
        """An answer says that the actor has opened the shard, an error that it cannot."""
        future: Future[Any] = self.actor.opened.remote(*self._shard).future()
        return future

    def submit(self, *arguments: Any) -> Future[Any]:
        """Ask the actor, with one argument: Ray takes as long for each."""
        future: Future[Any] = self.actor.answer.remote(arguments).future()
        return future


def connect(address: str | None = None, **options: Any) -> None:
    """Join the cluster of Ray at ``address``; without one, start a cluster on this machine that ends with the process.

    A process that has joined one already stays there. Ray runs actors at a low priority (nice 15), where they wait for
    every other process of the machine. One that is started here runs them at that of this process; of others,
    ``RAY_worker_niceness`` says it where they are started.
    """
    if ray.is_initialized():
        return
    os.environ.setdefault(NICENESS, "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces changes of later versions
        wanted = {"address": address} if address else {"include_dashboard": False}
        ray.init(**wanted, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.WARNING, **options)


def address() -> str:
    """Where other processes join the cluster of this one."""
    return str(ray.get_runtime_context().gcs_address)


def actor_hosts(folder: Path, files: FrontFiles, replicas: int) -> list[list[ActorHost]]:
    """The actors of each shard, started where they do not run yet; they outlive this process, not the cluster."""
    options: dict[str, Any] = {
        "num_cpus": 0,
        "max_restarts": -1,
        "max_task_retries": -1,
        "max_concurrency": THREADS,
        "lifetime": "detached",
        "get_if_exists": True,
        "namespace": NAMESPACE,
    }
    layout, kind = files.layout, ray.remote(ShardActor)
    hosts: list[list[ActorHost]] = []
    for shard, start in enumerate(layout.starts):
        opened = str(shard_folder(folder, shard)), start, layout.versions[shard]
        names = [_name(folder, shard, copy) for copy in range(replicas)]
        hosts.append([ActorHost(kind.options(name=name, **options).remote(*opened), opened) for name in names])
    return hosts


def open_front(
    folder: str | Path,
    address: str | None = None,
    replicas: int = 1,
    patience: Patience | None = None,
    partial: bool = False,
) -> ClusterRecommender:
    """The front of the cluster in ``folder``, with actors of Ray at ``address`` as hosts, all shards opened."""
    connect(address)
    place = Path(folder).resolve()
    files = read_front(place)
    hosts = actor_hosts(place, files, replicas)
    for opening in [host.opening() for replicas_of_shard in hosts for host in replicas_of_shard]:
        opening.result()
    return ClusterRecommender(place, files, hosts, patience, partial)


def _name(folder: Path, shard: int, copy: int) -> str:
    place = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    return f"shard-{place}-{shard}-{copy}"
