"""Calls of all shards at once, with the rules for faults of ``retrieval/shards.py``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from setwise.errors import InvalidInput, ShardUnavailable
from setwise.recommend.cluster.files import Layout, shard_folder
from setwise.recommend.cluster.shard_reader import Refused
from setwise.retrieval.shards import Patience, first_answers


class Host(Protocol):
    """A process with a ``ShardReader``."""

    def submit(self, *arguments: Any) -> Future[Any]:
        """``ShardReader.answer`` with these arguments; the answer or the error comes later."""
        ...


class Shards:
    """The shards of one layout; ``hosts[s]`` are the replicas of shard s."""

    def __init__(
        self, folder: Path, layout: Layout, hosts: Sequence[Sequence[Host]], patience: Patience | None = None
    ) -> None:
        if len(hosts) != len(layout.starts):
            todo = "open a front again: the items were split again"
            raise InvalidInput("the cluster", f"one of {len(hosts)} shards, as its hosts are", len(layout.starts), todo)
        self._folder, self._layout, self.hosts = folder, layout, [list(replicas) for replicas in hosts]
        self._patience, self._turn = patience or Patience(), itertools.count()

    def at(self, layout: Layout) -> Shards:
        """The same hosts, read as of another layout."""
        return Shards(self._folder, layout, self.hosts, self._patience)

    def __len__(self) -> int:
        return len(self.hosts)

    def ask(self, what: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """The answer of each shard to its arguments.

        ``ShardUnavailable`` names the first shard without an answer; an error of the request is raised as it is.
        """
        turn, asked = next(self._turn), list(arguments)  # replicas take turns to be the first
        calls = [self._calls(what, shard, arguments[shard], turn) for shard in asked]
        try:
            answers = first_answers(calls, self._patience)
        except ShardUnavailable as error:
            raise ShardUnavailable(asked[error.shard], error.reason) from error
        for reply in answers:
            if isinstance(reply, Refused):
                raise reply.error
        return dict(zip(asked, answers, strict=True))

    def _calls(self, what: str, shard: int, arguments: tuple[Any, ...], turn: int) -> list[Callable[[], Future[Any]]]:
        hosts, layout = self.hosts[shard], self._layout
        start, version = layout.starts[shard], layout.versions[shard]
        named = (what, str(shard_folder(self._folder, shard)), start, version, *arguments)
        return [partial(hosts[(turn + at) % len(hosts)].submit, *named) for at in range(len(hosts))]
