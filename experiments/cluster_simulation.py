"""A discrete-event simulation of a sharded index: queues, batches, stragglers, failures, replicas and hedging.

    python experiments/cluster_simulation.py --shards 10 --replicas 14 --rate 50000 --fronts 1300

A request is sent to one replica of every shard. A host serves its queue in batches: b users take fixed + b · each
milliseconds. When the last shard has answered, a core of the front ranks the candidates. The rules of faults are those
of ``setwise.retrieval.shards``: the next replica is asked when a call fails or takes longer than ``hedge_ms``, and the
request is refused when a shard has no answer after ``deadline_ms``. A host that ends loses its queue; where no other
replica is left, its calls are made again when it is back. Where all hosts run on one machine, they share its
``cores``, in the order in which they have something to do.

docs/explanation/scale.md has the constants and where they come from.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Cluster:
    """Sizes and times; times in milliseconds."""

    shards: int = 4
    replicas: int = 1
    fixed: float = 2.6  # a batch of users at one shard, whatever its size
    each: float = 0.1  # and for each user of it
    most_together: int = 256  # users of a batch
    network: float = 0.25  # one way, the mean of an exponential distribution
    straggler_share: float = 0.0  # of the batches that take longer
    straggler: float = 0.0  # by so much
    hedge_ms: float = 200.0
    deadline_ms: float = 10_000.0
    fronts: int = 1  # cores that rank
    rank: float = 20.0  # a request on such a core
    call: float = 0.0  # the front's own time for one call: calls leave one after the other
    cores: int = 0  # that all hosts share; 0: every host has its own
    spread: float = 0.0  # all times of a request are multiplied by exp(spread · a normal number)
    hours_between_failures: float = np.inf  # of one host
    restart: float = 10_000.0


@dataclass
class Result:
    """What became of the requests."""

    latency: list[float] = field(default_factory=list)
    refused: int = 0
    calls: int = 0  # of hosts, hedged and repeated ones included

    def summary(self) -> dict[str, float]:
        """Percentiles and shares."""
        took = np.array(self.latency) if self.latency else np.array([np.nan])
        every = len(self.latency) + self.refused
        shown = {f"p{q}": float(np.percentile(took, q)) for q in (50, 95, 99)}
        return {**shown, "mean": float(took.mean()), "refused": self.refused / max(every, 1), "calls": self.calls}


class _Host:
    """A server of batches; ``life`` counts its restarts, so that an answer of a former life is dropped."""

    def __init__(self) -> None:
        self.queue: deque[tuple[int, int]] = deque()
        self.batch: list[tuple[int, int]] = []
        self.life, self.back = 0, 0.0
        self.has_core = False


class Simulation:
    """One run: events in order of time, each a function that may schedule others."""

    def __init__(self, cluster: Cluster, rate: float, requests: int, seed: int = 0) -> None:
        self._cluster, self._rng, self.result = cluster, np.random.default_rng(seed), Result()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number, self._now = itertools.count(), 0.0
        self._hosts = [[_Host() for _ in range(cluster.replicas)] for _ in range(cluster.shards)]
        self._fronts = [0.0] * cluster.fronts  # when each core is free
        self._idle, self._waiting = cluster.cores, deque[_Host]()  # cores, and the hosts that wait for one
        self._factor = np.exp(cluster.spread * self._rng.normal(size=requests)) if cluster.spread else np.ones(requests)
        self._began: dict[int, float] = {}
        self._missing: dict[int, set[int]] = {}
        self._asked: dict[tuple[int, int], int] = {}  # replicas of a shard that a request has asked
        for request, time in enumerate(np.cumsum(self._rng.exponential(1000 / rate, requests)).tolist()):
            self._at(time, self._arrive, request)
        self._end = time
        if np.isfinite(cluster.hours_between_failures):
            for shard, copy in itertools.product(range(cluster.shards), range(cluster.replicas)):
                self._at(self._until_failure(), self._fail, shard, copy)

    def run(self) -> Result:
        """Handle all events."""
        while self._events:
            self._now, _, handle, arguments = heapq.heappop(self._events)
            handle(*arguments)
        return self.result

    def _at(self, time: float, handle: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (time, next(self._number), handle, arguments))

    def _travel(self) -> float:
        return float(self._rng.exponential(self._cluster.network)) if self._cluster.network else 0.0

    # --- requests ---

    def _arrive(self, request: int) -> None:
        cluster = self._cluster
        self._began[request], self._missing[request] = self._now, set(range(cluster.shards))
        for shard in range(cluster.shards):
            self._ask(request, shard, shard * cluster.call)
        self._at(self._now + cluster.deadline_ms, self._refuse, request)
        if cluster.replicas > 1:
            self._at(self._now + cluster.hedge_ms, self._hedge, request)

    def _ask(self, request: int, shard: int, later: float = 0.0) -> bool:
        """Ask the next replica, if one is left, so much later."""
        asked = self._asked.get((request, shard), 0)
        if asked == self._cluster.replicas:
            return False
        self._asked[request, shard] = asked + 1
        self._call(request, shard, (request + asked) % self._cluster.replicas, self._now + later)
        return True

    def _call(self, request: int, shard: int, copy: int, time: float) -> None:
        self.result.calls += 1
        self._at(time + self._travel(), self._reach, request, shard, copy)

    def _hedge(self, request: int) -> None:
        for shard in sorted(self._missing.get(request, ())):
            self._ask(request, shard)

    def _refuse(self, request: int) -> None:
        if self._missing.pop(request, None):
            self.result.refused += 1

    def _answer(self, request: int, shard: int) -> None:
        missing = self._missing.get(request)
        if missing is None:
            return
        missing.discard(shard)
        if not missing:
            del self._missing[request]
            free = heapq.heappop(self._fronts)
            done = max(free, self._now) + self._cluster.rank * self._factor[request]
            heapq.heappush(self._fronts, done)
            self.result.latency.append(done - self._began[request])

    # --- hosts ---

    def _reach(self, request: int, shard: int, copy: int) -> None:
        host = self._hosts[shard][copy]
        if self._now < host.back:
            self._lost(request, shard, copy)
            return
        host.queue.append((request, shard))
        if not host.batch and host not in self._waiting:
            self._start(host)

    def _start(self, host: _Host) -> None:
        """Begin the next batch; where hosts share cores, as soon as one is free."""
        cluster = self._cluster
        if cluster.cores and host.queue:
            if not self._idle:
                self._waiting.append(host)
                return
            self._idle, host.has_core = self._idle - 1, True
        host.batch = [host.queue.popleft() for _ in range(min(len(host.queue), cluster.most_together))]
        if not host.batch:
            return
        slow = cluster.straggler if self._rng.random() < cluster.straggler_share else 0.0
        took = (cluster.fixed + cluster.each * len(host.batch)) * self._factor[host.batch[0][0]]
        self._at(self._now + took + slow, self._finish, host, host.life)

    def _release(self, host: _Host) -> None:
        """Give the host's core to the one that has waited longest."""
        if host.has_core:
            self._idle, host.has_core = self._idle + 1, False
            if self._waiting:
                self._start(self._waiting.popleft())

    def _finish(self, host: _Host, life: int) -> None:
        if life != host.life:
            return
        for request, shard in host.batch:
            self._at(self._now + self._travel(), self._answer, request, shard)
        host.batch = []
        self._release(host)
        if host not in self._waiting:
            self._start(host)

    def _lost(self, request: int, shard: int, copy: int) -> None:
        """A call failed: ask the next replica, or the same one when it is back."""
        if shard in self._missing.get(request, ()) and not self._ask(request, shard):
            self._call(request, shard, copy, max(self._now, self._hosts[shard][copy].back))

    def _until_failure(self) -> float:
        return self._now + float(self._rng.exponential(3.6e6 * self._cluster.hours_between_failures))

    def _fail(self, shard: int, copy: int) -> None:
        host = self._hosts[shard][copy]
        lost = [*host.batch, *host.queue]
        host.batch, host.life, host.back = [], host.life + 1, self._now + self._cluster.restart
        host.queue.clear()
        self._release(host)
        for request, _ in lost:
            self._lost(request, shard, copy)
        if (time := self._until_failure()) < self._end:
            self._at(time, self._fail, shard, copy)


def simulate(cluster: Cluster, rate: float, requests: int, seed: int = 0) -> Result:
    """``requests`` requests at ``rate`` a second."""
    return Simulation(cluster, rate, requests, seed).run()


def main() -> None:
    """Simulate one cluster and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    for one in fields(Cluster):
        kind = int if isinstance(one.default, int) else float
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=kind, default=one.default)
    options = vars(parser.parse_args())
    rate, requests, seed = (options.pop(name) for name in ("rate", "requests", "seed"))
    print(json.dumps(simulate(Cluster(**options), rate, requests, seed).summary()))


if __name__ == "__main__":
    main()
