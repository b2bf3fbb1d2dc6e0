"""A cluster whose hosts are in the worker itself, for services without Ray; and the shards of a world."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import setwise as sw
from setwise.recommend.cluster.calls import Host
from setwise.recommend.cluster.files import FrontFiles, write_cluster
from setwise.recommend.cluster.shard_reader import ShardReader
from setwise.service.served_cluster import Cluster
from setwise.service.settings import Settings


class HostHere:
    """A host in this process. It fails, or waits with its answers, while a file of that name is in the folder."""

    def __init__(self, folder: Path, shard: int) -> None:
        self._reader, self._folder, self._shard = ShardReader(), folder, shard

    def submit(self, *arguments) -> Future:
        future: Future = Future()
        silent = self._folder / f"silent-{self._shard}"
        if (self._folder / f"fail-{self._shard}").exists():
            future.set_exception(ConnectionError("the host ended"))
        elif silent.exists():
            threading.Thread(target=self._answer_later, args=(future, silent, arguments), daemon=True).start()
        else:
            future.set_result(self._reader.answer(*arguments))
        return future

    def _answer_later(self, future: Future, silent: Path, arguments) -> None:
        while silent.exists():
            time.sleep(0.02)
        future.set_result(self._reader.answer(*arguments))


@dataclass(frozen=True)
class ClusterHere(Cluster):
    """A cluster without Ray."""

    def hosts(self, place: Path, files: FrontFiles, settings: Settings) -> Sequence[Sequence[Host]]:
        return [[HostHere(place, shard)] for shard in range(len(files.layout.starts))]


def split(recommender: sw.Recommender, folder: Path, shards: int = 3, **options: bool) -> ClusterHere:
    """The recommender in shards below ``folder``."""
    write_cluster(recommender, folder, shards, "scan")
    return ClusterHere(folder, "here", **options)
