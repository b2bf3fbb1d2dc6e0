"""A cluster on this machine against one index in one process: latency, and answers while shard actors are killed.

    python benchmarks/cluster.py --shards 4 --items 1000000 --requests 300 --more 10000 --kills 50     everything
    python benchmarks/cluster.py --shards 4 --items 20000 --requests 200 --kills 5                     a small one

``--items`` is the number of items of each shard, with d = 64 numbers a vector. Slates have no bounds, unless
``--certify`` asks for some. Every answer of the cluster is compared with that of the single index. The two answer the
``--requests`` in turns, ten at a time, so that other processes disturb both alike; ``added`` is the difference of the
percentiles. ``rounds`` are medians of each kind of call in a request: milliseconds until all shards have answered, and
kilobytes of the answers of all shards, counted for some further requests. ``phases`` are medians of the phases of a
slate. ``--more`` requests are then made by ``--threads`` threads; the single index answers them in batches. With
``--kills``, threads send requests all the time while actors are killed one after the other (SIGKILL); ``whole_s`` are
the seconds from a kill until that actor answers again. ``load`` is that of the machine before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import resource
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray

import setwise as sw
from setwise.errors import ShardUnavailable
from setwise.recommend.cluster import actors
from setwise.recommend.cluster.calls import Shards
from setwise.recommend.cluster.files import write_cluster
from setwise.retrieval.partition import Partition
from setwise.retrieval.shards import Patience

DIMENSION, CELLS, K = 64, 256, 10
TOGETHER = 10  # requests to one of the two before the other has its turn
BATCH = 256  # requests that the single index answers at a time
OUTCOMES = ("right", "wrong", "refused")


def single_index(n: int, seed: int = 0) -> sw.Recommender:
    """A recommender of n random items; cells are those of the nearest of so many directions."""
    rng = np.random.default_rng(seed)
    query, key, value = (rng.normal(size=(n, DIMENSION)).astype(np.float32) for _ in range(3))
    value *= 0.3
    catalog = sw.Catalog(query, key, value)
    directions = rng.normal(size=(DIMENSION, CELLS)).astype(np.float32)
    nearest = [np.argmax(query[at : at + 65536] @ directions, axis=1) for at in range(0, n, 65536)]
    partition = Partition.of(catalog, np.concatenate(nearest), CELLS)
    return sw.Recommender(sw.Index.build(catalog, partition=partition, progress=False), certify=False)


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Milliseconds."""
    return {f"p{q}": round(1000 * float(np.percentile(seconds, q)), 2) for q in (50, 95, 99)}


class Timed:
    """Requests to one recommender, one after the other: seconds, items and phases of each slate."""

    def __init__(self, recommend: Any, certify: bool) -> None:
        self._recommend, self._certify = recommend, certify
        self.seconds: list[float] = []
        self.items: list[list[Any]] = []
        self._phases: list[dict[str, float]] = []

    def ask(self, users: list[sw.User]) -> None:
        """Answer some more."""
        for user in users:
            start = time.perf_counter()
            slate = self._recommend(user, k=K, certify=self._certify)
            self.seconds.append(time.perf_counter() - start)
            self.items.append(slate.items.tolist())
            self._phases.append(dict(slate.timings))

    def phases(self) -> dict[str, float]:
        """The median of each phase."""
        return {name: round(float(np.median([one[name] for one in self._phases])), 2) for name in self._phases[0]}


def in_turns(single: Any, front: Any, users: list[sw.User], certify: bool) -> dict[str, Any]:
    """The latency of both, ``TOGETHER`` requests at a time."""
    for recommend in (single.recommend, front.recommend):
        Timed(recommend, certify).ask(users[:TOGETHER])
    one, many = Timed(single.recommend, certify), Timed(front.recommend, certify)
    for at in range(0, len(users), TOGETHER):
        one.ask(users[at : at + TOGETHER])
        many.ask(users[at : at + TOGETHER])
    alone, split = percentiles(one.seconds), percentiles(many.seconds)
    return {
        "single": alone,
        "cluster": split,
        "added": {q: round(split[q] - alone[q], 2) for q in alone},
        "phases": {"single": one.phases(), "cluster": many.phases()},
        "different": sum(mine != theirs for mine, theirs in zip(many.items, one.items, strict=True)),
        "requests": len(users),
    }


def many_requests(single: Any, front: Any, count: int, threads: int) -> dict[str, Any]:
    """So many requests by threads, every answer compared; the single index answers in batches."""
    rng = np.random.default_rng(3)
    users = [sw.User(rng.normal(size=(1, DIMENSION))) for _ in range(count)]
    start, outcomes = time.perf_counter(), list[str]()
    for at in range(0, count, BATCH):
        some = users[at : at + BATCH]
        expected = [one.items.tolist() for one in single.recommend_many(some, k=K, certify=False)]
        with ThreadPoolExecutor(threads) as pool:
            outcomes += pool.map(partial(outcome, front), some, expected)
    counts = {name: outcomes.count(name) for name in OUTCOMES}
    seconds = round(time.perf_counter() - start)
    return {"requests": count, **counts, "lost": count - len(outcomes), "seconds": seconds}


def outcome(front: Any, user: sw.User, expected: list[Any]) -> str:
    """What becomes of one request."""
    try:
        return OUTCOMES[front.recommend(user, k=K, certify=False).items.tolist() != expected]
    except ShardUnavailable:
        return OUTCOMES[2]


def rounds(front: Any, users: list[sw.User], certify: bool) -> dict[str, dict[str, float]]:
    """What the calls of a request take and return, by kind of call; ``all`` is the whole request."""
    taken: list[dict[str, tuple[float, int]]] = []
    original = Shards.ask

    def timed_ask(shards: Shards, what: str, arguments: Any) -> dict[int, Any]:
        start = time.perf_counter()
        answers = original(shards, what, arguments)
        ms, before = 1000 * (time.perf_counter() - start), taken[-1].get(what, (0.0, 0))
        taken[-1][what] = (before[0] + ms, before[1] + sum(len(pickle.dumps(one, 5)) for one in answers.values()))
        return answers

    Shards.ask = timed_ask  # type: ignore[method-assign]
    try:
        for user in users:
            taken.append({})
            start = time.perf_counter()
            front.recommend(user, k=K, certify=certify)
            ms = 1000 * (time.perf_counter() - start)
            taken[-1]["all"] = (ms, sum(size for _, size in taken[-1].values()))
    finally:
        Shards.ask = original  # type: ignore[method-assign]
    names = dict.fromkeys(name for one in taken for name in one)
    parts = {name: np.median([one.get(name, (0.0, 0)) for one in taken], axis=0) for name in names}
    return {name: {"ms": round(ms, 2), "kB": round(size / 1000, 1)} for name, (ms, size) in parts.items()}


class Load:
    """Threads that send requests until they are stopped, and count what comes back."""

    def __init__(self, front: Any, users: list[sw.User], expected: list[list[Any]], threads: int) -> None:
        self._front, self._users, self._expected = front, users, expected
        self._stop, self._lock = threading.Event(), threading.Lock()
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self._threads = [threading.Thread(target=self._send, args=(at,)) for at in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, at: int) -> None:
        while not self._stop.is_set():
            at = (at + 1) % len(self._users)
            became = outcome(self._front, self._users[at], self._expected[at])
            with self._lock:
                self.counts[became] += 1


def killed(front: Any, users: list[sw.User], expected: list[list[Any]], kills: int, threads: int) -> dict[str, Any]:
    """Kill an actor so many times under load."""
    rng, hosts = np.random.default_rng(1), [host for some in front.hosts for host in some]
    seconds, sizes = list[float](), list[float]()
    with Load(front, users, expected, threads) as load:
        for _ in range(kills):
            actor = hosts[rng.integers(len(hosts))].actor
            os.kill(ray.get(actor.pid.remote()), signal.SIGKILL)
            start = time.perf_counter()
            ray.get(actor.pid.remote())  # made again by Ray until the actor is back
            seconds.append(time.perf_counter() - start)
            time.sleep(1.0)
            sizes.append(resident_mb())
    whole = {"median": round(float(np.median(seconds)), 2), "largest": round(max(seconds), 2)}
    memory = {"first": sizes[0], "middle": sizes[len(sizes) // 2], "last": sizes[-1]}
    return {"kills": kills, **load.counts, "whole_s": whole, "front_mb": memory}


def resident_mb() -> float:
    """The memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--items", type=int, default=20_000, help="of each shard")
    parser.add_argument("--requests", type=int, default=200, help="whose latency is measured")
    parser.add_argument("--more", type=int, default=0, help="requests by several threads afterwards")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--certify", action="store_true", help="with upper bounds; the threads of --kills ask for none")
    parser.add_argument("--threads", type=int, default=2, help="that send requests for --more and --kills")
    parser.add_argument("--deadline-ms", type=float, default=15_000.0)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    options = parser.parse_args()
    figures: dict[str, Any] = {"shards": options.shards, "items": options.items, "load": [os.getloadavg()[0]]}
    rng = np.random.default_rng(2)
    users = [sw.User(rng.normal(size=(1, DIMENSION))) for _ in range(options.requests)]
    with tempfile.TemporaryDirectory() as folder:
        single = single_index(options.shards * options.items)
        write_cluster(single, Path(folder), options.shards, bounds=options.certify)
        actors.connect(object_store_memory=400_000_000)
        front = actors.open_front(folder, patience=Patience(options.deadline_ms, options.deadline_ms))
        figures["load"].append(os.getloadavg()[0])
        figures |= in_turns(single, front, users, options.certify)
        figures["load"].append(os.getloadavg()[0])
        figures["rounds"] = rounds(front, users[: max(1, len(users) // 4)], options.certify)
        print(json.dumps(figures, indent=1), flush=True)
        some = users[:BATCH]
        expected = [one.items.tolist() for one in single.recommend_many(some, k=K, certify=False)]
        if options.kills:
            figures["chaos"] = killed(front, some, expected, options.kills, options.threads)
            print(json.dumps(figures["chaos"], indent=1), flush=True)
        if options.more:
            figures["many"] = many_requests(single, front, options.more, options.threads)
        ray.shutdown()
    print(json.dumps(figures, indent=1))
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
