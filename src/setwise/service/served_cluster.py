"""The front of a cluster as the service has it: one in each worker, all of the same layout.

The pool copies the front's file, so all its workers read one layout; a reload starts a pool with the layout of then. A
field of a request, or a route, that the front does not have is refused as an error of the request.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setwise._types import Ints
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.recommend.cluster.calls import Host, Shards
from setwise.recommend.cluster.files import FrontFiles, read_front
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.cluster.joining import joined
from setwise.recommend.cluster.shard_items import merged_columns, merged_matches
from setwise.recommend.explanation import Explanation
from setwise.recommend.item_search import group_of, title_of
from setwise.recommend.recommender import zero_user
from setwise.recommend.slate import Slate
from setwise.retrieval.shards import HEDGE_MS, Patience
from setwise.service.item_records import columns, plain
from setwise.service.schemas import Info, Item, ItemsRequest, ItemsResponse
from setwise.service.served import ShardCall, feature_names, info_of
from setwise.service.settings import Settings

OF_MANY = {"users", "histories", "features", "scores", "threads"}  # arguments with one entry for each user
CALLS = 2  # of one shard, each as long as may be, fit into the deadline of a request


@dataclass(frozen=True)
class Cluster:
    """Where a service finds the hosts of its shards: the cluster of Ray at ``address``.

    ``folder`` is that of the shards, and ``partial`` says whether an answer may lack those that do not answer.
    """

    folder: Path
    address: str
    replicas: int = 1
    partial: bool = False

    def open(self, artifact: Path, version: str, settings: Settings) -> ServedCluster:
        """The front whose file was copied to ``artifact``, all shards opened."""
        files, place = read_front(artifact.parent), self.folder.resolve()
        deadline = settings.deadline_ms / CALLS
        timed, hosts_of = TimedCalls(deadline), self.hosts(place, files, settings)
        hosts = [[timed.host(shard, host) for host in replicas] for shard, replicas in enumerate(hosts_of)]
        patience = Patience(deadline, min(HEDGE_MS, deadline / 2))
        served = ServedCluster(place, files, hosts, version, timed, patience, self.partial)
        served.warm_up()
        return served

    def hosts(self, place: Path, files: FrontFiles, settings: Settings) -> Sequence[Sequence[Host]]:
        """The replicas of each shard, started where they do not run; they have opened it."""
        opened: list[list[Any]] = joined(self.address).actor_hosts(place, files, self.replicas)
        answers = [(shard, host.opening()) for shard, replicas in enumerate(opened) for host in replicas]
        for shard, answer in answers:
            try:
                answer.result(settings.start_ms / 1000)
            except Exception as error:  # of Ray, or of the host that it ran
                reason = f"its shard {shard} was not opened ({type(error).__name__})"
                raise DamagedArtifact(self.folder, reason, "look at the logs of Ray") from error
        return opened


class TimedCalls:
    """The calls of shards that have ended: the shard, and seconds or None."""

    def __init__(self, deadline_ms: float) -> None:
        self._ended: deque[ShardCall] = deque()
        self._deadline_s = deadline_ms / 1000

    def host(self, shard: int, host: Host) -> Host:
        """The host, with its calls timed."""
        return _TimedHost(shard, host, self._ended, self._deadline_s)

    def taken(self) -> list[ShardCall]:
        """Those that have ended since the last time."""
        return [self._ended.popleft() for _ in range(len(self._ended))]


class _TimedHost:
    """A host whose calls are timed. While one of them is overdue, others fail at once instead of waiting too.

    A host that comes back answers the overdue call, or Ray makes it again; that ends this state. An answer after the
    deadline counts as a failure.
    """

    def __init__(self, shard: int, host: Host, ended: deque[ShardCall], deadline_s: float) -> None:
        self._shard, self._host, self._ended, self._deadline_s = shard, host, ended, deadline_s
        self._lock, self._open = (
            threading.Lock(),
            dict[Future[Any], float](),
        )  # calls without an answer, and their start

    def submit(self, *arguments: Any) -> Future[Any]:
        """Ask the host, and note when its answer came."""
        began = time.monotonic()
        with self._lock:
            oldest = next(iter(self._open.values()), began)
        if began - oldest > self._deadline_s:
            refused: Future[Any] = Future()
            refused.set_exception(ConnectionError("an earlier call is not answered yet"))
            self._ended.append((self._shard, None))
            return refused
        future = self._host.submit(*arguments)
        with self._lock:
            self._open[future] = began
        future.add_done_callback(self._note)
        return future

    def _note(self, done: Future[Any]) -> None:
        with self._lock:
            began = self._open.pop(done)
        seconds = time.monotonic() - began
        failed = done.cancelled() or done.exception() is not None or seconds > self._deadline_s
        self._ended.append((self._shard, None if failed else seconds))


class FrontAnswers:
    """A front with the methods of a recommender; what it does not have is refused."""

    def __init__(self, front: ClusterRecommender) -> None:
        self._front, self.ranker, self.certifies = front, front.ranker, True
        self._known = {*inspect.signature(front.recommend).parameters}
        self._known_of_many = {*inspect.signature(front.recommend_many).parameters}

    def recommend(self, **arguments: Any) -> Slate:
        """One slate."""
        for name in arguments:
            if name not in self._known:
                raise _not_in_a_cluster(name)
        return self._front.recommend(**arguments)

    def recommend_many(self, threads: int = 1, **arguments: Any) -> list[Slate]:
        """The slates of many users."""
        for name in arguments:
            if name not in self._known_of_many and (name in OF_MANY or name not in self._known):
                raise _not_in_a_cluster(name)
        return self._front.recommend_many(**arguments, threads=threads)

    def explain(self, slate: Slate) -> Explanation:
        """What each item contributes, and what other rankers would have shown."""
        return self._front.explain(slate)


def _not_in_a_cluster(name: str) -> InvalidInput:
    return InvalidInput(name, "left out, as a cluster does not have it", "some", "send the request without it")


class ServedCluster:
    """The front of a cluster, its version, and the search among its items."""

    def __init__(
        self,
        folder: Path,
        files: FrontFiles,
        hosts: Sequence[Sequence[Host]],
        version: str,
        timed: TimedCalls,
        patience: Patience,
        partial: bool,
    ) -> None:
        self.version, self._files, self._timed = version, files, timed
        self._shards = Shards(folder, files.layout, hosts, patience)
        self.recommender = FrontAnswers(ClusterRecommender(folder, files, hosts, patience, partial))

    @property
    def attends(self) -> bool:
        """Whether items can contribute to each other."""
        return self._files.attends

    def warm_up(self) -> None:
        """Compute slates: code is compiled now, and a shard that cannot answer is noticed now."""
        self.recommender.recommend(user=zero_user(self._files.pattern), k=2)
        if self._files.encoder is not None:
            self.recommender.recommend(history=[], k=1)

    def info(self, settings: Settings) -> Info:
        """The description that /v1/info returns."""
        described = merged_columns(list(self._ask("describe_columns").values()))
        items = sum(self._ask("count_items").values())
        texts = {column.name: len(column.values or ()) for column in described if column.kind == "text"}
        return info_of(
            self._files.pattern,
            settings,
            version=self.version,
            items=items,
            cells=self._files.partition.n_cells,
            understands_history=self._files.encoder is not None,
            features=feature_names(self._files.features),
            attributes=columns(described),
            title=title_of(texts),
            group=group_of(texts, items),
            attends=self.attends,
            shards=len(self._shards),
        )

    def items(self, request: ItemsRequest) -> ItemsResponse:
        """Items by words or by ids, from all shards; they are in the order of one catalogue."""
        if request.ids is not None:
            wanted = self._ids(request.wanted())
            located = self._ask("located", wanted)
            places = {id_: int(row) for rows, ids in located.values() for row, id_ in zip(rows, ids, strict=True)}
            rows = [places[id_] for id_ in wanted if id_ in places]
            here = {shard: rows for shard, (rows, _) in located.items()}
            return ItemsResponse(self._records(here, rows[: request.limit]), len(rows))
        matches = self._ask("find_items", request.q, request.limit)
        places_found, total = merged_matches(list(matches.values()), request.limit)
        here = {shard: matched.rows for shard, matched in matches.items()}
        return ItemsResponse(self._records(here, places_found.tolist()), total)

    def shard_calls(self) -> list[ShardCall]:
        """The calls of shards that have ended since the last time."""
        return self._timed.taken()

    def _ask(self, what: str, *arguments: Any) -> dict[int, Any]:
        return self._shards.ask(what, dict.fromkeys(range(len(self._shards)), arguments))

    def _ids(self, texts: Sequence[str]) -> list[Any]:
        """Ids that were sent as texts; those that no item can have are left out."""
        if isinstance(self._files.pattern.ids[0], str):
            return list(texts)
        numbers = [int(text) for text in texts if text.removeprefix("-").isdecimal() and len(text) < 20]
        return [number for number in numbers if -(2**63) <= number < 2**63]

    def _records(self, here: Mapping[int, Ints], rows: Sequence[int]) -> list[Item]:
        """The items of these rows; ``here`` are rows of each shard, these among them."""
        wanted = {shard: (np.intersect1d(matched, rows),) for shard, matched in here.items()}
        answers = self._shards.ask("describe_items", {shard: asked for shard, asked in wanted.items() if len(asked[0])})
        records: dict[int, Item] = {}
        for shard, described in answers.items():
            for row, (id_, known) in zip(wanted[shard][0].tolist(), described, strict=True):
                records[row] = Item(plain(id_), {name: plain(cell) for name, cell in known.items()})
        return [records[row] for row in rows]
