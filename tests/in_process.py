"""Clusters whose hosts are in the process of the test."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from pathlib import Path

import numpy as np

import setwise as sw
from setwise.recommend.cluster.files import write_cluster
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.cluster.shard_reader import ShardReader
from setwise.retrieval.shards import Patience
from worlds import REWARDS, random_catalog

LONG = Patience(deadline_ms=3.6e6, hedge_ms=3.6e6)


class Here:
    """A host in this process; what crosses to it is pickled, as it is between processes. ``lost``: it fails."""

    def __init__(self) -> None:
        self.reader, self.lost, self.calls = ShardReader(), False, 0

    def submit(self, *arguments) -> Future:
        self.calls += 1
        future: Future = Future()
        if self.lost:
            future.set_exception(ConnectionError("the host ended"))
            return future
        try:
            future.set_result(pickle.loads(pickle.dumps(self.reader.answer(*pickle.loads(pickle.dumps(arguments))))))
        except Exception as error:
            future.set_exception(error)
        return future


def world(seed: int, n: int, first_id: int = 0, **others) -> tuple[sw.Catalog, sw.User]:
    rng = np.random.default_rng(seed)
    colours = rng.choice(["red", "green", "blue"], n).tolist()
    colours[3::7] = [None] * len(colours[3::7])
    ids = [f"item {first_id + row}" for row in range(n)]
    return random_catalog(
        seed, n=n, ids=ids, attributes={"colour": colours, "price": rng.integers(9, size=n)}, **others
    )


def shapes(seed: int) -> dict:
    return {"heads": 1 + seed % 2, "base": bool(seed % 3), "sink": seed % 4 == 0, "rewards": REWARDS[: 1 + seed % 2]}


def cluster_of(recommender: sw.Recommender, folder: Path, shards: int, partial: bool = False, bounds: bool = True):
    files = write_cluster(recommender, folder, shards, bounds=bounds)
    hosts = [Here() for _ in files.layout.starts]
    return ClusterRecommender.open(folder, [[host] for host in hosts], LONG, partial), hosts


def same(one: sw.Slate, other: sw.Slate) -> None:
    assert one.items.tolist() == other.items.tolist()
    assert (one.value, one.rewards.tolist()) == (other.value, other.rewards.tolist())
    assert not other.partial
