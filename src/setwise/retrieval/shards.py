"""Shards: the vectors of a catalogue split by rows over several hosts, and searched together as one backend.

A shard is a range of rows with a single-machine backend over it, saved as an artifact. A *host* is a process that opens
shards and searches them. A search asks every shard for the best p rows of every cell, and keeps the best p of all
answers, by (score descending, row ascending).

**Equality.** The best p of a cell are among the best p of each shard's part of the cell, so nothing is lost. A backend
whose score of a row does not depend on the other rows, and which breaks ties by row (``scan``), returns the same rows
and the same bits from any number of shards.

**Faults.** A shard may have several replicas: hosts that answer the same. The first is asked; if it fails, or has not
answered after ``hedge_ms``, the next is asked too, and the first answer counts. If no replica has answered after
``deadline_ms``, the search raises ``ShardUnavailable``: there is no answer from some of the shards alone. A host opens
a shard when it is first asked for it, so one that was restarted needs no other message.

**Versions.** A search names the folders that it reads, and a folder is written once. An index that is replaced has
other folders: no answer mixes two.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from setwise._types import Floats32, Ints, Mask
from setwise.errors import ShardUnavailable
from setwise.retrieval.backends.protocol import Hits, Neighbors, resolved
from setwise.storage import artifact

Answer = TypeVar("Answer")

KIND = "shard"
OPEN_SHARDS = 64  # of a host; the one that was searched longest ago is closed first
DEADLINE_MS, HEDGE_MS = 10_000.0, 200.0


class Shard(NamedTuple):
    """Rows ``first`` … ``last`` − 1, saved in a folder that every host of the shard can read."""

    folder: str
    first: int
    last: int


class Host(Protocol):
    """A process that searches shards."""

    def submit(self, folder: str, users: Floats32, per_cell: int, eligible: Mask | None) -> Future[Hits]:
        """Search the shard in ``folder``; the answer or the error comes later."""
        ...


@dataclass(frozen=True)
class Patience:
    """How long a search waits for a shard in all, and before it asks a second replica."""

    deadline_ms: float = DEADLINE_MS
    hedge_ms: float = HEDGE_MS


# --- shards on disk ---


def row_ranges(n: int, shards: int) -> list[tuple[int, int]]:
    """0 … n − 1 in at most ``shards`` ranges of nearly equal length, none of them empty."""
    ends = np.linspace(0, n, min(shards, n) + 1).astype(int).tolist()
    return list(itertools.pairwise(ends))


def write_shards(folder: Path, vectors: Floats32, order: Ints, start: Ints, shards: int, backend: str) -> list[Shard]:
    """Split vectors that are sorted by cell into shards of rows, each indexed by ``backend``, below ``folder``."""
    cells, written = len(start) - 1, list[Shard]()
    name, kind = resolved(backend)
    cell_of = np.repeat(np.arange(cells, dtype=np.int32), np.diff(start))
    place = np.argsort(order)  # of each row
    for number, (first, last) in enumerate(row_ranges(len(vectors), shards)):
        mine = place[first:last]
        part = kind.build(np.ascontiguousarray(vectors[mine]), cell_of[mine], cells)
        target = folder / f"shard-{number}"
        artifact.write(target, KIND, part.arrays(), {"backend": name})
        written.append(Shard(str(target), first, last))
    return written


class ShardHost:
    """Opens shards when they are first searched, and keeps the most recent ones open. Many threads may call it."""

    def __init__(self, most: int = OPEN_SHARDS) -> None:
        self._most, self._lock = most, threading.Lock()
        self._open: OrderedDict[str, Neighbors] = OrderedDict()

    def search(self, folder: str, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        """The best rows of every cell of this shard; rows are counted from the first of the shard."""
        return self._shard(folder).search(users, per_cell, eligible)

    def forget(self, folder: str) -> None:
        """Close a shard that is not needed any more."""
        with self._lock:
            self._open.pop(folder, None)

    def pid(self) -> int:
        """The process of this host."""
        return os.getpid()

    def _shard(self, folder: str) -> Neighbors:
        with self._lock:
            if folder in self._open:
                self._open.move_to_end(folder)
                return self._open[folder]
        saved = artifact.read(folder, KIND)
        with artifact.restoring(folder):
            opened = resolved(saved.meta["backend"])[1].from_arrays(saved.arrays)
        with self._lock:
            self._open[folder] = opened
            while len(self._open) > self._most:
                self._open.popitem(last=False)
        return opened


# --- one search of all shards ---


class ShardedSearch:
    """The search of all shards; ``hosts[s]`` are the replicas of shard s."""

    def __init__(
        self, shards: Sequence[Shard], hosts: Sequence[Sequence[Host]], patience: Patience | None = None
    ) -> None:
        self._shards, self._hosts, self._patience = list(shards), [list(some) for some in hosts], patience or Patience()
        self._turn = itertools.count()

    def search(self, users: Floats32, per_cell: int, eligible: Mask | None = None) -> Hits:
        """The best rows of every cell for each user among all shards; ``ShardUnavailable`` if a shard has no answer."""
        turn = next(self._turn)  # replicas take turns to be the first

        def call(shard: Shard, host: Host) -> Callable[[], Future[Hits]]:
            mask = None if eligible is None else np.ascontiguousarray(eligible[shard.first : shard.last])
            return lambda: host.submit(shard.folder, users, per_cell, mask)

        calls = [
            [call(shard, hosts[(turn + at) % len(hosts)]) for at in range(len(hosts))]
            for shard, hosts in zip(self._shards, self._hosts, strict=True)
        ]
        return merged(self._shards, first_answers(calls, self._patience), per_cell)


def merged(shards: Sequence[Shard], answers: Sequence[Hits], per_cell: int) -> Hits:
    """The best of all answers, by (score descending, row ascending): shards are in the order of their rows."""
    rows = [np.where(one.rows >= 0, one.rows + shard.first, -1) for shard, one in zip(shards, answers, strict=True)]
    every, scores = np.concatenate(rows, axis=2), np.concatenate([one.scores for one in answers], axis=2)
    overflown = (every >= 0) & np.isneginf(scores)  # rows that look like empty places, and go before them
    keys = (every < 0, -scores) if overflown.any() else (-scores,)
    best = np.lexsort(keys, axis=2)[:, :, :per_cell]
    return Hits(np.take_along_axis(every, best, axis=2), np.take_along_axis(scores, best, axis=2))


def first_answers(calls: Sequence[Sequence[Callable[[], Future[Answer]]]], patience: Patience) -> list[Answer]:
    """For each shard the first answer of its ``calls``: the next one is made if one fails or takes too long."""
    asked = _Asked(calls)
    began = time.monotonic()
    hedge, deadline = began + patience.hedge_ms / 1000, began + patience.deadline_ms / 1000
    for shard in range(len(calls)):
        asked.ask(shard)
    while asked.missing:
        asked.take(max(0.0, min(hedge, deadline) - time.monotonic()))
        if not asked.missing:
            break  # what is there counts, however late this process looks
        now = time.monotonic()
        if now >= deadline:
            raise ShardUnavailable(min(asked.missing), f"no answer within {patience.deadline_ms:.0f} ms")
        if now >= hedge:
            hedge = deadline
            for shard in sorted(asked.missing):
                asked.ask(shard)
    return [asked.answers[shard] for shard in range(len(calls))]


class _Asked(Generic[Answer]):
    """The calls of one search that are running, and the answers so far."""

    def __init__(self, calls: Sequence[Sequence[Callable[[], Future[Answer]]]]) -> None:
        self._left = [iter(some) for some in calls]
        self._running: dict[Future[Answer], int] = {}
        self.answers: dict[int, Answer] = {}
        self.missing = set(range(len(calls)))

    def ask(self, shard: int) -> None:
        """Make the next call of this shard, if there is one."""
        for call in self._left[shard]:
            self._running[call()] = shard
            return

    def take(self, seconds: float) -> None:
        """Wait so long for the next answers. A call that failed is followed by the next one of its shard."""
        done, _ = wait(self._running, seconds, FIRST_COMPLETED)
        for one in done:
            shard = self._running.pop(one)
            if shard not in self.missing:
                continue
            error = one.exception()
            if error is None:
                self.answers[shard] = one.result()
                self.missing.discard(shard)
                continue
            self.ask(shard)
            if shard not in self._running.values():
                raise ShardUnavailable(shard, f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
