"""Handlers: from a request to the body of its response. They run in the worker processes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from setwise.errors import InvalidInput, SetwiseError, ShardUnavailable
from setwise.model import objective
from setwise.model.users import User
from setwise.ranking import DEFAULT, RANKERS
from setwise.recommend.arguments import ERROR
from setwise.recommend.clock import limited_to
from setwise.recommend.exploration import explore
from setwise.recommend.query import Query
from setwise.recommend.rerank import answer_data, rerank_data
from setwise.recommend.slate import CERTIFICATE, Slate
from setwise.service.decoding import DECODERS
from setwise.service.degradation import BUDGET_SHARES, FULL, GREEDY, SEARCH, TIME, USUAL_MS
from setwise.service.http_errors import HttpError, deadline_exceeded, from_error
from setwise.service.item_records import attributes, item
from setwise.service.list_schemas import RerankBatchRequest, RerankRequest
from setwise.service.schemas import (
    BatchRequest,
    ExplainRequest,
    ExplainResponse,
    GroupKey,
    ItemsRequest,
    RecommendRequest,
    RivalResponse,
    SlateItem,
    SlateResponse,
)
from setwise.service.served import Served, ShardCall
from setwise.service.settings import Settings
from setwise.storage.slate_log import ShownSlate, new_id

Outcome = bytes | HttpError  # the body of a response, or the error
EXPLAINED = 4  # budgets that an explanation takes: one for the slate, two for rivals, and one for all else
LEAST_MS = 1.0  # of a budget: a request close to its deadline is still computed, quickly


class TaskMessage(msgspec.Struct):
    """A request on its way to a worker. Times are of the monotonic clock, which all processes of a machine share."""

    handler: str
    request: msgspec.Raw
    arrived: float
    deadline: float
    logged: bool = False  # whether its slates get ids and are logged
    level: int = FULL  # of degradation.py: what its slates lose under load
    body: bytes = b""  # of a large request, in place of the request itself

    def left_ms(self) -> float:
        """Milliseconds until the deadline."""
        return 1000 * (self.deadline - time.monotonic())

    def elapsed_ms(self) -> float:
        """Milliseconds since the request arrived."""
        return 1000 * (time.monotonic() - self.arrived)


class Reply(msgspec.Struct, tag=True):
    """The outcome of a task, and what the metrics and the log get of it."""

    outcome: Outcome
    slates: list[tuple[dict[str, float], float | None]] = []  # timings and gap of each, for the metrics
    shown: list[ShownSlate] = []  # for the log
    calls: list[ShardCall] = []
    partial: int = 0  # slates that lack the items of a shard


# The fields in which the requests of a group differ, and the arguments of recommend_many for them.
DIFFERING = (("user", "users"), ("history", "histories"), ("features", "features"), ("scores", "scores"))


class Handlers:
    """Computes the replies to tasks, alone or in a group of equal ``group_key``."""

    def __init__(self, artifact: Served, settings: Settings) -> None:
        self._artifact, self._settings = artifact, settings
        self._made: list[SlateResponse] = []  # the slates of the reply in progress
        self._shown: list[ShownSlate] = []  # those of them that are logged
        self._rng = np.random.default_rng()  # of exploration

    def replies(self, tasks: Sequence[TaskMessage]) -> Iterator[Reply]:
        """The reply to each task, in their order, as soon as it is known."""
        self._made, self._shown = [], []
        for outcome in self._outcomes(tasks):
            made, shown, self._made, self._shown = self._made, self._shown, [], []
            slates, partial = [(slate.timings, slate.gap) for slate in made], sum(slate.partial for slate in made)
            yield Reply(outcome, slates, shown, self._artifact.shard_calls(), partial)

    def _outcomes(self, tasks: Sequence[TaskMessage]) -> Iterator[Outcome]:
        if len(tasks) == 1:
            yield self._outcome(tasks[0])
            return
        decoder = HANDLERS["recommend"][1]
        requests = [decoder.decode(task.request) for task in tasks]
        queued = [task.elapsed_ms() for task in tasks]
        slates = self._slates(requests, min(task.left_ms() for task in tasks), tasks[0].level)
        for task, request, slate, queue_ms in zip(tasks, requests, slates, queued, strict=True):
            yield self._encoded(slate, queue_ms, task, request)

    def _outcome(self, task: TaskMessage) -> Outcome:
        handle, decoder = HANDLERS[task.handler]
        try:
            large = bool(task.body)
            request = DECODERS[task.handler](task.body, self._settings) if large else decoder.decode(task.request)
            return handle(self, request, task)
        except HttpError as error:
            return error
        except SetwiseError as error:
            return from_error(error)

    # --- one method for each kind of task ---

    def recommend(self, request: RecommendRequest, task: TaskMessage) -> Outcome:
        """One slate."""
        queued = task.elapsed_ms()
        slate = self._slate(request, task.left_ms(), task.level)
        return self._encoded(slate, queued, task, request)

    def batch(self, batch: BatchRequest, task: TaskMessage) -> Outcome:
        """Many slates: those of one group in one pass each; an error where the deadline leaves no time."""
        queued, requests = task.elapsed_ms(), batch.requests
        groups: dict[GroupKey, list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(request.group_key(), []).append(number)
        answers: list[Any] = [None] * len(requests)
        undone = len(requests)
        for numbers in groups.values():
            for part in _parts(numbers, self._settings.micro_batch):
                members, left_ms = [requests[number] for number in part], task.left_ms()
                slates: Sequence[Slate | HttpError] = [deadline_exceeded(self._settings.deadline_ms)] * len(part)
                if left_ms > 0:
                    slates = self._slates(members, left_ms * len(part) / undone, task.level)
                for number, slate in zip(part, slates, strict=True):
                    if isinstance(slate, HttpError):
                        answers[number] = slate.as_dict()
                    else:
                        answers[number] = self._response(slate, queued, task, requests[number])
                undone -= len(part)
        return msgspec.json.encode({"answers": answers, "version": self._artifact.version})

    def explain(self, request: ExplainRequest, task: TaskMessage) -> Outcome:
        """One slate and its explanation."""
        queued = task.elapsed_ms()
        left_ms = task.left_ms() / EXPLAINED
        slate = self._slate_of_items(request, left_ms) if request.items else self._slate(request, left_ms, task.level)
        with limited_to(left_ms):
            explanation = self._artifact.recommender.explain(slate)
        rivals = [
            RivalResponse(
                rival.ranker, [item(rival.catalog, row) for row in rival.indices], rival.value, rival.milliseconds
            )
            for rival in explanation.rivals
        ]
        return msgspec.json.encode(
            ExplainResponse(
                slate=self._response(slate, queued, task, request),
                attention=explanation.attention.tolist(),
                sink=None if explanation.sink is None else explanation.sink.tolist(),
                rewards=explanation.rewards.tolist(),
                alone=explanation.alone.tolist(),
                lent=explanation.lent.tolist(),
                rivals=rivals,
                gain_over_top_k=explanation.gain_over_top_k,
                gain_over_greedy=explanation.gain_over_greedy,
            )
        )

    def rerank(self, request: RerankRequest, task: TaskMessage) -> Outcome:
        """The best set of a list."""
        return msgspec.json.encode(self._reranked(request.content(), task))

    def rerank_batch(self, batch: RerankBatchRequest, task: TaskMessage) -> Outcome:
        """The best set of each list; an error where a list is wrong, or the deadline leaves no time."""
        answers: dict[str, Any] = {}
        for name, content in batch.contents().items():
            try:
                answers[name] = self._reranked(content, task)
            except HttpError as error:
                answers[name] = error.as_dict()
            except SetwiseError as error:
                answers[name] = from_error(error).as_dict()
        return msgspec.json.encode({"lists": answers})

    def _reranked(self, content: dict[str, Any], task: TaskMessage) -> dict[str, Any]:
        left_ms = task.left_ms()
        if left_ms <= 0:
            raise deadline_exceeded(self._settings.deadline_ms)
        if content.get("budget_ms") is not None:
            content["budget_ms"] = min(content["budget_ms"], left_ms)
        effects = getattr(self._artifact, "effects", None) if content.pop("effects", True) else None
        return answer_data(rerank_data(content, effects), bool(content.get("certify")))

    def items(self, request: ItemsRequest, _: TaskMessage) -> Outcome:
        """Items by words or by ids."""
        return msgspec.json.encode(self._artifact.items(request))

    # --- slates ---

    def _slate(self, request: RecommendRequest, left_ms: float, level: int) -> Slate:
        with limited_to(left_ms):
            slate = self._artifact.recommender.recommend(**request.arguments() | self._limits(request, level))
        return self._noted(slate, request, left_ms, level)

    def _slate_of_items(self, request: ExplainRequest, left_ms: float) -> Slate:
        """The slate of the request's items, as an answer to its query: pinned, they are the only slate."""
        recommend, items = self._artifact.recommender.recommend, request.items or []
        if len(set(items)) < len(items):
            raise InvalidInput("items", "ids that differ", "one twice", "send each once")
        arguments = request.arguments() | {"budget_ms": LEAST_MS}
        try:
            slate = recommend(**arguments | {"include": items, "k": len(items), "certify": False})
        except InvalidInput as error:
            raise error.about(error.parameter.replace("include", "items")) from None
        query, budget_ms = recommend(**arguments).query, self._budget_ms(request, FULL)
        slate = self._noted(slate, request, left_ms, FULL)
        if query.catalog is slate.catalog:
            return _revalued(slate, replace(query, budget_ms=budget_ms))
        with limited_to(left_ms):
            unpinned = recommend(**arguments | {"budget_ms": budget_ms, "certify": False})  # of a cluster: once more
        user = User(unpinned.user.heads, unpinned.user.base, slate.user.scores)
        query = replace(slate.query, user=user, budget_ms=budget_ms)
        return replace(_revalued(slate, query), improver=unpinned.improver)

    def _slates(self, requests: Sequence[RecommendRequest], left_ms: float, level: int) -> list[Slate | HttpError]:
        """The slates of a group by one pass over the catalogue; if one request is invalid, each alone."""
        share = left_ms / len(requests)
        try:
            stated = [request.arguments() for request in requests]
            arguments = stated[0] | self._limits(requests[0], level)
            for name, plural in DIFFERING:
                if arguments.pop(name, None) is not None:
                    arguments[plural] = [of_request[name] for of_request in stated]
            with limited_to(share):
                slates = self._artifact.recommender.recommend_many(**arguments, threads=1)
            return [self._noted(slate, requests[0], share, level) for slate in slates]
        except ShardUnavailable as error:
            if requests[0].unknown != ERROR:  # else it may be one history alone that the other shards cannot answer
                return [from_error(error)] * len(requests)  # each alone would wait for it again
        except SetwiseError:
            pass
        return [self._slate_or_error(request, share, level) for request in requests]

    def _slate_or_error(self, request: RecommendRequest, left_ms: float, level: int) -> Slate | HttpError:
        try:
            return self._slate(request, left_ms, level)
        except SetwiseError as error:
            return from_error(error)

    def _limits(self, request: RecommendRequest, level: int) -> dict[str, Any]:
        """The budget of a request and what it loses at this level; the deadline is no budget (recommend/clock.py)."""
        lost, budget_ms = self._left_out(request, level), self._budget_ms(request, level)
        limits: dict[str, Any] = {} if budget_ms is None else {"budget_ms": budget_ms}
        if CERTIFICATE in lost:
            limits["certify"] = False
        if SEARCH in lost:
            limits["ranker"] = DEFAULT.name
        return limits

    def _noted(self, slate: Slate, request: RecommendRequest, left_ms: float, level: int) -> Slate:
        """The slate, which says what it lost at this level, and whether its deadline left less time than its budget."""
        budget_ms, lost = self._budget_ms(request, level), self._left_out(request, level)
        if self._artifact.attends and left_ms < (USUAL_MS if budget_ms is None else budget_ms):
            lost.append(TIME)
        return replace(slate, left_out=(*dict.fromkeys([*slate.left_out, *lost]),))

    def _budget_ms(self, request: RecommendRequest, level: int) -> float | None:
        """The budget of the request, or else of the service, at this level; None without one."""
        budget_ms = request.budget_ms if request.budget_ms is not None else self._settings.budget_ms or None
        if not self._left_out(request, level):
            return budget_ms
        return BUDGET_SHARES[level] * (USUAL_MS if budget_ms is None else budget_ms)

    def _left_out(self, request: RecommendRequest, level: int) -> list[str]:
        """What a request loses at this level, of what it would have; nothing where the answer takes no search."""
        recommender = self._artifact.recommender
        if level == FULL or not self._artifact.attends:
            return []
        ranker = RANKERS[recommender.ranker if request.ranker is None else request.ranker]
        certified = recommender.certifies if request.certify is None else request.certify
        lost = [CERTIFICATE] if certified else []
        searches = ranker.takes_budget or ranker.slow_growth
        return [*lost, SEARCH] if level == GREEDY and searches else lost

    # --- responses ---

    def _encoded(
        self, slate: Slate | HttpError, queue_ms: float, task: TaskMessage, request: RecommendRequest
    ) -> Outcome:
        if isinstance(slate, HttpError):
            return slate
        return msgspec.json.encode(self._response(slate, queue_ms, task, request))

    def _response(self, slate: Slate, queue_ms: float, task: TaskMessage, request: RecommendRequest) -> SlateResponse:
        slate_id = None
        if task.logged and request.log:
            slate, shown = self._logged(slate, request.key)
            self._shown.append(shown)
            slate_id = shown.id
        timings = {"queue": queue_ms, **slate.timings, "total": task.elapsed_ms()}
        certified = math.isfinite(slate.upper_bound)
        items = zip(slate.items.tolist(), slate.rewards.tolist(), slate.indices.tolist(), strict=True)
        response = SlateResponse(
            items=[SlateItem(id_, reward, attributes(slate.catalog, row)) for id_, reward, row in items],
            value=slate.value,
            upper_bound=slate.upper_bound if certified else None,
            gap=slate.gap if certified else None,
            proven=slate.proven,
            ignored=slate.ignored,
            timings={phase: round(ms, 3) for phase, ms in timings.items()},
            version=self._artifact.version,
            slate=slate_id,
            left_out=[*slate.left_out],
            partial=slate.partial,
        )
        self._made.append(response)
        return response

    def _logged(self, slate: Slate, key: str | None) -> tuple[Slate, ShownSlate]:
        """The slate that is shown, explored or not, and its entry of the log."""
        share = self._settings.explore_permille / 1000
        slate, propensity, explored = explore(slate, share, self._rng) if share else (slate, 1.0, False)
        ids = msgspec.json.encode(slate.items.tolist()).decode()
        version, rewards = self._artifact.version, slate.rewards.tolist()
        return slate, ShownSlate(new_id(), key, version, ids, rewards, propensity, explored)


Handle = Callable[[Handlers, Any, TaskMessage], Outcome]
HANDLERS: dict[str, tuple[Handle, msgspec.json.Decoder[Any]]] = {
    "recommend": (Handlers.recommend, msgspec.json.Decoder(RecommendRequest)),
    "batch": (Handlers.batch, msgspec.json.Decoder(BatchRequest)),
    "explain": (Handlers.explain, msgspec.json.Decoder(ExplainRequest)),
    "items": (Handlers.items, msgspec.json.Decoder(ItemsRequest)),
    "rerank": (Handlers.rerank, msgspec.json.Decoder(RerankRequest)),
    "rerank_batch": (Handlers.rerank_batch, msgspec.json.Decoder(RerankBatchRequest)),
}


def _revalued(slate: Slate, query: Query) -> Slate:
    """The slate as an answer to this query: the user of features depends on k."""
    rewards = objective.item_rewards(slate.catalog, query.user, slate.members)[: len(slate)]
    return replace(slate, query=query, rewards=rewards, value=float(rewards.sum()))


def _parts(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
