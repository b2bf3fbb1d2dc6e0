"""From requests to answers: what the processes compute, and how it is written."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from setwise.errors import SetwiseError
from setwise.model.users import User
from setwise.recommend.slate import Slate
from setwise.service.artifact import Served
from setwise.service.http_errors import Refusal, from_error, late
from setwise.service.schemas import RANKERS, Answer, Ask, Chosen, Explained, Info, Items, Range, Rivaling
from setwise.service.settings import Settings

Outcome = bytes | Refusal  # the body of an answer, or why there is none
Kind = tuple[Any, ...]

LEAST_MS = 1.0  # of a budget: what is nearly late is still computed, quickly


class One(msgspec.Struct, tag=True):
    """A slate is asked for."""

    ask: Ask


class Many(msgspec.Struct, tag=True):
    """Many slates are asked for at once."""

    asks: list[Ask]


class Why(msgspec.Struct, tag=True):
    """A slate is asked for, and its reasons."""

    ask: Ask


class Find(msgspec.Struct, tag=True):
    """Items are looked for: by words, or by ids."""

    query: str
    limit: int
    ids: list[str] | None


Task = One | Many | Why | Find


class Order(msgspec.Struct):
    """A task, when it came and until when it is to be done, by the clock that all processes of a machine share."""

    task: Task
    arrived: float
    deadline: float

    def left_ms(self) -> float:
        """Milliseconds until the deadline."""
        return 1000 * (self.deadline - time.monotonic())

    def waited_ms(self) -> float:
        """Milliseconds since it came."""
        return 1000 * (time.monotonic() - self.arrived)


class Reply(msgspec.Struct, tag=True):
    """What became of an order; and, for those who count, of each slate its milliseconds by phase and its gap."""

    outcome: Outcome
    slates: list[tuple[dict[str, float], float | None]] = []


def kind(ask: Ask) -> Kind:
    """What requests that share a pass have in common: everything but the user."""
    rest = msgspec.structs.replace(ask, history=None, user=None, vector=None)
    return (ask.history is not None, msgspec.json.encode(rest))


class Desk:
    """Answers orders, one or several of a kind at a time; ``soon`` is called when only words are missing."""

    def __init__(self, served: Served, settings: Settings, soon: Callable[[], None] = lambda: None) -> None:
        self._served, self._settings, self._soon = served, settings, soon
        self._made: list[Answer] = []  # the slates of the reply under way

    def replies(self, orders: Sequence[Order]) -> Iterator[Reply]:
        """The reply to each order, in their order, as soon as there is one."""
        self._made = []
        for outcome in self._outcomes(orders):
            made, self._made = self._made, []
            yield Reply(outcome, [(answer.timings, answer.gap) for answer in made])

    def _outcomes(self, orders: Sequence[Order]) -> Iterator[Outcome]:
        if len(orders) == 1:
            yield self._alone(orders[0])
            return
        asks = [order.task.ask for order in orders]  # type: ignore[union-attr]
        waited = [order.waited_ms() for order in orders]
        slates = self._slates(asks, min(order.left_ms() for order in orders))
        for order, slate, queued in zip(orders, slates, waited, strict=True):
            yield self._written(slate, queued, order.waited_ms())

    def _alone(self, order: Order) -> Outcome:
        task, queued = order.task, order.waited_ms()
        try:
            if isinstance(task, One):
                slate, total = self._slate(task.ask, order.left_ms()), order.waited_ms()
                self._soon()
                return self._written(slate, queued, total)
            if isinstance(task, Why):
                return self._explained(task.ask, order, queued)
            if isinstance(task, Many):
                return self._batch(task.asks, order, queued)
            return msgspec.json.encode(_found(self._served, task))
        except SetwiseError as error:
            return from_error(error)

    # --- slates ---

    def _slate(self, ask: Ask, left_ms: float) -> Slate:
        budget = self._budget(ask, left_ms)
        return self._served.recommender.recommend(**_asker(ask), **_wishes(ask), budget_ms=budget)

    def _slates(self, asks: Sequence[Ask], left_ms: float) -> list[Slate | SetwiseError]:
        """The slates of requests of one kind, by one pass over the catalogue; where one is refused, each alone."""
        budget = self._budget(asks[0], left_ms / len(asks))
        try:
            askers = [_asker(ask) for ask in asks]
            names = {"history": "histories", "user": "users"}
            users: dict[str, Any] = {names[name]: [one[name] for one in askers] for name in askers[0]}
            return [*self._served.recommender.recommend_many(**users, threads=1, **_wishes(asks[0]), budget_ms=budget)]
        except SetwiseError:
            return [self._tried(ask, left_ms / len(asks)) for ask in asks]

    def _tried(self, ask: Ask, left_ms: float) -> Slate | SetwiseError:
        try:
            return self._slate(ask, left_ms)
        except SetwiseError as error:
            return error

    def _budget(self, ask: Ask, left_ms: float) -> float:
        """What the request asks for, or what the service gives, within what is left."""
        wanted = self._settings.budget_ms if ask.budget_ms is None else ask.budget_ms
        return max(LEAST_MS, min(wanted, left_ms))

    # --- answers ---

    def _written(self, slate: Slate | SetwiseError, queued: float, total: float) -> Outcome:
        if isinstance(slate, SetwiseError):
            return from_error(slate)
        return msgspec.json.encode(self._answer(slate, queued, total))

    def _answer(self, slate: Slate, queued: float, total: float) -> Answer:
        timings = {"queue": queued, **slate.timings, "total": total}
        certified = math.isfinite(slate.upper_bound)
        shelf, rows = self._served.shelf, slate.indices.tolist()
        pairs = zip(slate.items.tolist(), slate.rewards.tolist(), rows, strict=True)
        answer = Answer(
            items=[Chosen(one, reward, shelf.attributes(row)) for one, reward, row in pairs],
            value=slate.value,
            upper_bound=slate.upper_bound if certified else None,
            gap=slate.gap if certified else None,
            proven=slate.proven,
            timings={phase: round(ms, 3) for phase, ms in timings.items()},
            version=self._served.version,
        )
        self._made.append(answer)
        return answer

    def _explained(self, ask: Ask, order: Order, queued: float) -> bytes:
        slate = self._slate(ask, order.left_ms())
        why = self._served.recommender.explain(slate)
        rivals = [
            Rivaling(one.ranker, [self._served.shelf.item(row) for row in one.indices], one.value, one.milliseconds)
            for one in why.rivals
        ]
        return msgspec.json.encode(
            Explained(
                slate=self._answer(slate, queued, order.waited_ms()),
                attention=why.attention.tolist(),
                sink=None if why.sink is None else why.sink.tolist(),
                rewards=why.rewards.tolist(),
                alone=why.alone.tolist(),
                lent=why.lent.tolist(),
                rivals=rivals,
                gain_over_top_k=why.gain_over_top_k,
                gain_over_greedy=why.gain_over_greedy,
            )
        )

    def _batch(self, asks: list[Ask], order: Order, queued: float) -> bytes:
        """Requests of one kind in one pass each; those that the deadline leaves no time for are refused."""
        kinds: dict[Kind, list[int]] = {}
        for number, ask in enumerate(asks):
            kinds.setdefault(kind(ask), []).append(number)
        answers: list[Any] = [None] * len(asks)
        undone = len(asks)
        for numbers in kinds.values():
            for part in _parts(numbers, self._settings.micro_batch):
                self._fill(asks, part, answers, order, queued, share=len(part) / undone)
                undone -= len(part)
        return msgspec.json.encode({"answers": answers, "version": self._served.version})

    def _fill(
        self,
        asks: list[Ask],
        part: Sequence[int],
        answers: list[Any],
        order: Order,
        queued: float,
        share: float,
    ) -> None:
        """Answer a part of a batch, in its share of the time that is left."""
        left = order.left_ms()
        if left <= 0:
            refusal = late(self._settings.deadline_ms).plain()
            for number in part:
                answers[number] = refusal
            return
        for number, slate in zip(part, self._slates([asks[i] for i in part], left * share), strict=True):
            failed = isinstance(slate, SetwiseError)
            answers[number] = (
                from_error(slate).plain() if failed else self._answer(slate, queued, order.waited_ms())  # type: ignore[arg-type]
            )


def _parts(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


def _asker(ask: Ask) -> dict[str, Any]:
    """Who asks, as the library takes it."""
    if ask.history is not None:
        return {"history": ask.history}
    return {"user": User(ask.user.heads, ask.user.base) if ask.user is not None else User(ask.vector or [])}


def _wishes(ask: Ask) -> dict[str, Any]:
    """The wishes as the library takes them."""
    return {
        "k": ask.k,
        "exclude": ask.exclude,
        "include": ask.include,
        "where": {name: _condition(wanted) for name, wanted in ask.where.items()} or None,
        "at_most": ask.at_most or None,
        "ranker": ask.ranker,
        "certify": ask.certify,
    }


def _condition(wanted: Any) -> Any:
    return (wanted.low, wanted.high) if isinstance(wanted, Range) else wanted


def _found(served: Served, task: Find) -> Items:
    if task.ids is not None:
        rows = served.shelf.written(task.ids)
        return Items([served.shelf.item(row) for row in rows[: task.limit].tolist()], len(rows))
    rows, total = served.shelf.search(task.query, task.limit)
    return Items([served.shelf.item(row) for row in rows.tolist()], total)


def info(served: Served, settings: Settings) -> Info:
    """What is served, for people and pages."""
    recommender, catalog = served.recommender, served.recommender.index.catalog
    return Info(
        service="setwise",
        version=served.version,
        items=catalog.n_items,
        heads=catalog.heads,
        cells=recommender.index.partition.n_cells,
        understands_history=recommender.encoder is not None,
        attributes=served.shelf.columns(),
        title=served.shelf.title,
        group=served.shelf.group,
        rankers=list(RANKERS),
        limits={name: getattr(settings, name) for name in ("k", "slow_k", "history", "batch", "body_bytes")},
    )
