"""ClusterRecommender: recommends from shards on several hosts, and holds no catalogue.

    front = ClusterRecommender.open("cluster/", hosts)        hosts[s] are the replicas of shard s
    slate = front.recommend(user, k=10, where={"city": "Rome"})

A request takes two rounds of calls (rounds.py), after which the front has a small catalogue of the candidates. The
pipeline ranks that. ``slate.catalog`` is this small catalogue, and ``slate.indices`` are its rows: use ``slate.items``,
the ids.

**Equality.** Scores are merged by (score descending, row ascending), and all later steps see the rows of a single index
in the same order, so the slates are those of a single index, to the last bit.

**Bounds.** The search for a bound over all items takes the steps that it takes in a single index (remote_reader.py); it
has the same time, of which calls to the shards use some. Where items were added since the cluster was written, its
cells are others than those of a single index, and the bound is too; it holds all the same (front_cells.py). In a
cluster that was written without bounds, only requests whose eligible items are all candidates, or whose items do not
interact, have one.

**Faults.** A shard without an answer within the deadline raises ``ShardUnavailable``. With ``partial=True`` the request
is answered by the others; the slate says so (``slate.partial``) and has no bound. A request that they cannot answer, as
it pins an item that they do not have, raises ``ShardUnavailable`` all the same.

**Scores** of the caller are a mapping by id. Retrieval by them rounds otherwise than that of a single index, so of
items whose totals differ by rounding alone others may be candidates.

**Histories.** An item that was added later is unknown to the encoder, also where it has the id of a removed one: the
shard that has it knows nothing of the other.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from setwise._validation import whole_number
from setwise.errors import Infeasible, InvalidInput, ShardUnavailable, UnknownId
from setwise.model.catalog import Catalog
from setwise.model.ids import IdChoice
from setwise.model.users import User
from setwise.ranking import Ranker, ranker_named
from setwise.recommend.arguments import (
    IGNORE,
    SLATE_SIZE,
    Options,
    RequestArguments,
    description,
    require_names,
    takes,
)
from setwise.recommend.caller_scores import caller_scores, checked_floor, ids_of, values_of
from setwise.recommend.cluster.calls import Host, Shards
from setwise.recommend.cluster.changes import Changes, changing
from setwise.recommend.cluster.files import FrontFiles, Layout, read_front
from setwise.recommend.cluster.front_cells import warm_up_bounds
from setwise.recommend.cluster.rounds import Rounds
from setwise.recommend.cluster.seen_items import Encoded, encoded
from setwise.recommend.cluster.shard_reader import Filter
from setwise.recommend.descriptions import descriptions, featured
from setwise.recommend.explanation import Explanation, explained, rivals_of
from setwise.recommend.proofs import positive_seconds
from setwise.recommend.recommender import zero_user
from setwise.recommend.slate import Slate, proves
from setwise.retrieval.shards import Patience

ONE_PROCESS = (
    "weights",
    "sum_at_most",
    "sum_at_least",
    "after",
    "after_counts",
)  # arguments that a cluster does not take
THREADS = 4  # requests that ``recommend_many`` makes at a time


class ClusterRecommender:
    """The front of a cluster. Many threads may call it."""

    def __init__(
        self,
        folder: Path,
        files: FrontFiles,
        hosts: Sequence[Sequence[Host]],
        patience: Patience | None = None,
        partial: bool = False,
    ) -> None:
        if len(hosts) != len(files.layout.starts) or not all(hosts):
            must = f"a list of replicas for each of {len(files.layout.starts)} shards"
            raise InvalidInput("hosts", must, f"{len(hosts)}", "start one host for each shard at least")
        self._folder, self._files, self._partial = folder, files, partial
        self._shards = Shards(folder, files.layout, hosts, patience)
        self._change = threading.Lock()
        self.ranker, self.most_candidates = ranker_named(files.options["ranker"]).name, files.options["candidates"]
        if files.cells is not None:
            warm_up_bounds(files.pattern)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        hosts: Sequence[Sequence[Host]],
        patience: Patience | None = None,
        partial: bool = False,
    ) -> ClusterRecommender:
        """The front of the cluster whose files are in ``folder``."""
        return cls(Path(folder), read_front(Path(folder)), hosts, patience, partial)

    @property
    def hosts(self) -> list[list[Host]]:
        """The replicas of each shard."""
        return self._shards.hosts

    @property
    def layout(self) -> Layout:
        """The shards that requests read now."""
        return self._files.layout

    # --- changes ---

    def add(self, items: Catalog) -> None:
        """Add items of the same model: all to the smallest shard. Later requests see them all."""
        with self._change, changing(self._folder) as files:
            self._commit(files)  # the changes of other fronts come first
            self._commit(Changes(self._folder, self._files, self._shards).add(items))

    def remove(self, ids: IdChoice) -> None:
        """Make items ineligible, each at the shard that has it."""
        with self._change, changing(self._folder) as files:
            self._commit(files)  # the changes of other fronts come first
            self._commit(Changes(self._folder, self._files, self._shards).remove(ids))

    def refresh(self) -> None:
        """Read the layout again: the changes that another front has made."""
        with self._change:
            self._commit(read_front(self._folder))

    def _commit(self, files: FrontFiles) -> None:
        self._files, self._shards = files, self._shards.at(files.layout)

    # --- requests ---

    @takes(RequestArguments)
    def recommend(
        self, user: ArrayLike | User | None = None, k: int = SLATE_SIZE, **arguments: Unpack[RequestArguments]
    ) -> Slate:
        """``Recommender.recommend`` from all shards; the module's docstring says what differs."""
        began = time.perf_counter()
        require_names(arguments)
        stated: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
        history, features, scores, floor, where = (
            stated.pop(name, None) for name in ("history", "features", "scores", "scores_floor", "where")
        )
        exclude, include, unknown = stated.pop("exclude", ()), stated.pop("include", ()), stated.pop("unknown", IGNORE)
        filter_seen = stated.pop("filter_seen", True)
        description({"history": history, "user": user, "features": features}, scores is not None)
        for name in ONE_PROCESS:
            if not _is_left_out(stated.pop(name, None)):
                must = "left out over a cluster, whose shards do not read it"
                raise InvalidInput(name, must, "some", "ask an index in one process")
        if features is not None:
            user = featured(self._files.features, features, k, self._files.layout.items)
        if user is None and history is None:
            user = zero_user(self._files.pattern)
        if isinstance(user, User) and user.scores is not None:
            must, todo = "one without added scores, as a cluster's items have no order", "pass scores={id: score}"
            raise InvalidInput("user", must, "some", todo)
        request = Request(
            user,
            None if history is None else _ids(history),
            unknown,
            filter_seen,
            _ids(exclude),
            _ids(include),
            where,
            {"k": k, "ranker": self.ranker, "certify": True, **stated},
            self._files.layout,
            _scores(self._files.pattern, scores, floor),
            floor,
        )
        return replace(self._answer(request, began), improver=Improver(self, request))

    @takes(Options)
    def recommend_many(
        self,
        users: Iterable[ArrayLike | User] | None = None,
        k: int = SLATE_SIZE,
        *,
        histories: Iterable[IdChoice] | None = None,
        features: Iterable[Mapping[str, Any] | Sequence[Any]] | None = None,
        scores: Iterable[Mapping[Any, float]] | None = None,
        threads: int = THREADS,
        **options: Unpack[Options],
    ) -> list[Slate]:
        """``recommend`` for many users, histories or features with the same options, ``threads`` at a time."""
        name, people, of_user = descriptions(scores, users=users, histories=histories, features=features)
        argument = {"users": "user", "histories": "history", "features": "features", None: "user"}[name]
        calls = [
            partial(copy_context().run, self.recommend, k=k, scores=scored, **{argument: described}, **options)
            for described, scored in zip(people, of_user, strict=True)
        ]  # each in a copy of the context: the limit of the caller's thread holds in the others
        with ThreadPoolExecutor(whole_number("threads", threads)) as pool:
            return list(pool.map(lambda call: call(), calls))

    def _answer(self, request: Request, began: float) -> Slate:
        """The slate of a request; its budget counts from ``began``."""
        lost = dict[int, ShardUnavailable]()
        files, shards = self._files, self._shards  # one layout for all rounds
        while True:
            alive = [shard for shard in range(len(shards)) if shard not in lost]
            try:
                slate = _answered(request, files, shards, alive, began)
            except ShardUnavailable as error:
                if not self._partial or len(alive) == 1:
                    raise
                lost[error.shard] = error
                continue
            except (UnknownId, Infeasible):
                if lost:  # it may have the item that was not found
                    raise next(iter(lost.values())) from None
                raise
            return replace(slate, partial=True, upper_bound=math.inf, proven=False) if lost else slate

    def certify(self, slate: Slate, seconds: float = 1.0) -> Slate:
        """The slate after ``seconds`` more of search for its upper bound: ``slate.improve(seconds)``.

        The request is answered again in that time, from the items as they are now; if they have changed, so may the
        bound. Else it never rises, and a better set that is found becomes the slate.
        """
        return slate.improve(seconds)

    def explain(self, slate: Slate) -> Explanation:
        """What each item contributes to the slate, and what top-k, greedy and beam search would have shown.

        The others are requests of their own, from the items as they are now, each with the budget of the slate's.
        """
        made = slate.improver if isinstance(slate, Slate) else None
        if not isinstance(made, Improver) or made.front is not self:
            raise InvalidInput("slate", "a slate of this cluster", "another", "recommend again, then explain")
        with ThreadPoolExecutor(THREADS) as pool:
            return explained(slate, pool.map(partial(self._by_ranker, made.request, slate), rivals_of(slate)))

    def _by_ranker(self, request: Request, slate: Slate, ranker: Ranker) -> Slate:
        """The set that this ranker chooses."""
        if ranker == slate.query.ranker:
            return slate
        options = {**request.options, "ranker": ranker.name, "certify": False}
        return self._answer(replace(request, options=options), time.perf_counter())

    def improved(self, request: Request, slate: Slate, seconds: float) -> Slate:
        """The slate, or a better one of the same request, with the smaller bound."""
        budget_ms, layout = 1000 * positive_seconds(seconds), self._files.layout
        if slate.proven:
            return slate
        longer = replace(request, options={**request.options, "budget_ms": budget_ms, "certify": True})
        again = self._answer(longer, time.perf_counter())
        improver = Improver(self, request)
        if again.partial or slate.partial or layout != request.layout:
            return replace(again, improver=improver)
        best = again if again.value > slate.value else slate
        bound = max(best.value, min(slate.upper_bound, again.upper_bound))
        proven = proves(best.query, best.indices, best.rewards, bound)
        spent = {phase: took + slate.timings.get(phase, 0.0) for phase, took in again.timings.items()}
        return replace(best, upper_bound=bound, proven=proven, timings={**slate.timings, **spent}, improver=improver)


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked: ids as plain values."""

    user: Any
    history: list[Any] | None
    unknown: str
    filter_seen: bool
    exclude: list[Any]
    include: list[Any]
    where: Mapping[str, Any] | None
    options: Mapping[str, Any]
    layout: Layout
    scores: dict[Any, float] | None
    scores_floor: float | None


@dataclass(frozen=True, eq=False)
class Improver:
    """What ``Slate.improve`` calls: the front that made a slate, and what it was asked."""

    front: ClusterRecommender
    request: Request

    def __call__(self, slate: Slate, seconds: float) -> Slate:
        """The slate with a smaller bound, or a better one."""
        return self.front.improved(self.request, slate, seconds)


def _answered(request: Request, files: FrontFiles, shards: Shards, alive: Sequence[int], began: float) -> Slate:
    """The slate of a request from the shards that are ``alive``."""
    person = Encoded(request.user)
    if request.history is not None:
        person = encoded(files, shards, alive, request.history, request.unknown)
    hidden = request.exclude
    if request.filter_seen:
        hidden = [*hidden, *(id_ for id_ in person.seen if id_ not in request.include)]
    asked = Filter(request.where, hidden, request.include, request.scores, request.scores_floor, person.scores)
    rounds = Rounds(files, shards, alive, asked, request.options, request.unknown, person.ignored, began)
    return rounds.slate(person.user)


def _scores(pattern: Catalog, scores: Any, floor: float | None) -> dict[Any, float] | None:
    """The caller's scores by id, checked; None without any."""
    if scores is None:
        caller_scores(pattern, None, floor)
        return None
    if not isinstance(scores, Mapping):
        todo = "pass {id: score}, with scores_floor for all other items"
        raise InvalidInput("scores", "a mapping {id: score}, as a cluster's items have no order", "others", todo)
    ids = ids_of(pattern, scores, checked_floor(floor))
    return dict(zip(_ids(ids), values_of(scores).tolist(), strict=True))


def _is_left_out(stated: Any) -> bool:
    """Whether an argument is as if it had not been stated."""
    return stated is None or (not isinstance(stated, str) and not np.size(stated)) or stated is False or stated == {}


def _ids(ids: IdChoice) -> list[Any]:
    """The ids as a list of plain values."""
    return [id_.item() if hasattr(id_, "item") else id_ for id_ in ids]
