"""Calls to the hosts of shards: ranges of the rows of a catalogue, each with one or several hosts that answer the same.

A shard may have several replicas. The first is asked; if it fails, or has not answered after ``hedge_ms``, the next is
asked too, and the first answer counts. If no replica has answered after ``deadline_ms``, ``ShardUnavailable`` is
raised: there is no answer from some of the shards alone.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from setwise.errors import ShardUnavailable

Answer = TypeVar("Answer")

DEADLINE_MS, HEDGE_MS = 10_000.0, 200.0


@dataclass(frozen=True)
class Patience:
    """How long a search waits for a shard in all, and before it asks a second replica."""

    deadline_ms: float = DEADLINE_MS
    hedge_ms: float = HEDGE_MS


def row_ranges(n: int, shards: int) -> list[tuple[int, int]]:
    """0 … n − 1 in at most ``shards`` ranges of nearly equal length, none of them empty."""
    ends = np.linspace(0, n, min(shards, n) + 1).astype(int).tolist()
    return list(itertools.pairwise(ends))


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
        self._left = [iter(calls_of_shard) for calls_of_shard in calls]
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
        for call in done:
            shard = self._running.pop(call)
            if shard not in self.missing:
                continue
            error = call.exception()
            if error is None:
                self.answers[shard] = call.result()
                self.missing.discard(shard)
                continue
            self.ask(shard)
            if shard not in self._running.values():
                raise ShardUnavailable(shard, f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
