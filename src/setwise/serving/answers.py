"""From requests to answers: what the threads compute, and how it is written.

An answer is made from one ``Served``, taken once: a reload in the middle does not reach it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from setwise.errors import SetwiseError
from setwise.serving.admission import Job, Kind, Outcome
from setwise.serving.artifacts import Artifacts, Served
from setwise.serving.metrics import Metrics
from setwise.serving.refusals import from_error, late
from setwise.serving.schemas import RANKERS, Answer, Ask, Chosen, Explained, Info, Items, Range, Rivaling
from setwise.serving.settings import Settings
from setwise.slate import Slate
from setwise.users import User

LEAST_MS = 1.0  # of a budget: what is nearly late is still computed, quickly


@dataclass(frozen=True, eq=False)
class One:
    """A slate is asked for."""

    ask: Ask


@dataclass(frozen=True, eq=False)
class Many:
    """Many slates are asked for at once."""

    asks: list[Ask]


@dataclass(frozen=True, eq=False)
class Why:
    """A slate is asked for, and its reasons."""

    ask: Ask


@dataclass(frozen=True, eq=False)
class Find:
    """Items are looked for: by words, or by ids."""

    query: str
    limit: int
    ids: list[str] | None


def kind(ask: Ask) -> Kind:
    """What requests that share a pass have in common: everything but the user."""
    rest = msgspec.structs.replace(ask, history=None, user=None, vector=None)
    return (ask.history is not None, msgspec.json.encode(rest))


class Desk:
    """Answers jobs, one or several of a kind at a time."""

    def __init__(self, artifacts: Artifacts, settings: Settings, metrics: Metrics) -> None:
        self._artifacts, self._settings, self._metrics = artifacts, settings, metrics

    def work(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """The outcome of each job, as soon as there is one; it is counted when it is on its way."""
        for job, outcome in self._outcomes(jobs):
            yield job, outcome
            for made in job.made:
                self._metrics.slate(made.timings, made.gap)

    def _outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        served = self._artifacts.current
        if len(jobs) > 1:
            asks = [job.task.ask for job in jobs]
            waited = [job.waited_ms() for job in jobs]
            slates = self._slates(served, asks, min(job.left_ms() for job in jobs))
            for job, slate, queued in zip(jobs, slates, waited, strict=True):
                yield job, self._written(served, slate, job, queued)
        else:
            yield jobs[0], self._alone(served, jobs[0])

    def _alone(self, served: Served, job: Job) -> Outcome:
        task, queued = job.task, job.waited_ms()
        try:
            if isinstance(task, One):
                slate = self._slate(served, task.ask, job.left_ms())
                return self._written(served, slate, job, queued)
            if isinstance(task, Why):
                return self._explained(served, task.ask, job, queued)
            if isinstance(task, Many):
                return self._batch(served, task.asks, job, queued)
            return msgspec.json.encode(_found(served, task))
        except SetwiseError as error:
            return from_error(error)

    # --- slates ---

    def _slate(self, served: Served, ask: Ask, left_ms: float) -> Slate:
        budget = self._budget(ask, left_ms)
        return served.recommender.recommend(**_asker(ask), **_wishes(ask), budget_ms=budget)

    def _slates(self, served: Served, asks: Sequence[Ask], left_ms: float) -> list[Slate | SetwiseError]:
        """The slates of requests of one kind, by one pass over the catalogue; where one is refused, each alone."""
        budget = self._budget(asks[0], left_ms / len(asks))
        try:
            askers = [_asker(ask) for ask in asks]
            names = {"history": "histories", "user": "users"}
            users: dict[str, Any] = {names[name]: [one[name] for one in askers] for name in askers[0]}
            return [*served.recommender.recommend_many(**users, threads=1, **_wishes(asks[0]), budget_ms=budget)]
        except SetwiseError:
            return [self._tried(served, ask, left_ms / len(asks)) for ask in asks]

    def _tried(self, served: Served, ask: Ask, left_ms: float) -> Slate | SetwiseError:
        try:
            return self._slate(served, ask, left_ms)
        except SetwiseError as error:
            return error

    def _budget(self, ask: Ask, left_ms: float) -> float:
        """What the request asks for, or what the service gives, within what is left."""
        wanted = self._settings.budget_ms if ask.budget_ms is None else ask.budget_ms
        return max(LEAST_MS, min(wanted, left_ms))

    # --- answers ---

    def _written(self, served: Served, slate: Slate | SetwiseError, job: Job, queued: float) -> Outcome:
        if isinstance(slate, SetwiseError):
            return from_error(slate)
        return msgspec.json.encode(self._answer(served, slate, job, queued))

    def _answer(self, served: Served, slate: Slate, job: Job, queued: float) -> Answer:
        timings = {"queue": queued, **slate.timings, "total": job.waited_ms()}
        certified = math.isfinite(slate.upper_bound)
        shelf, rows = served.shelf, slate.indices.tolist()
        pairs = zip(slate.items.tolist(), slate.rewards.tolist(), rows, strict=True)
        answer = Answer(
            items=[Chosen(one, reward, shelf.attributes(row)) for one, reward, row in pairs],
            value=slate.value,
            upper_bound=slate.upper_bound if certified else None,
            gap=slate.gap if certified else None,
            proven=slate.proven,
            timings={phase: round(ms, 3) for phase, ms in timings.items()},
            version=served.version,
        )
        job.made.append(answer)
        return answer

    def _explained(self, served: Served, ask: Ask, job: Job, queued: float) -> bytes:
        slate = self._slate(served, ask, job.left_ms())
        why = served.recommender.explain(slate)
        rivals = [
            Rivaling(one.ranker, [served.shelf.item(row) for row in one.indices], one.value, one.milliseconds)
            for one in why.rivals
        ]
        return msgspec.json.encode(
            Explained(
                slate=self._answer(served, slate, job, queued),
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

    def _batch(self, served: Served, asks: list[Ask], job: Job, queued: float) -> bytes:
        """Requests of one kind in one pass each; those that the deadline leaves no time for are refused."""
        kinds: dict[Kind, list[int]] = {}
        for number, ask in enumerate(asks):
            kinds.setdefault(kind(ask), []).append(number)
        answers: list[Any] = [None] * len(asks)
        undone = len(asks)
        for numbers in kinds.values():
            for part in _parts(numbers, self._settings.micro_batch):
                self._fill(served, asks, part, answers, job, queued, share=len(part) / undone)
                undone -= len(part)
        return msgspec.json.encode({"answers": answers, "version": served.version})

    def _fill(
        self,
        served: Served,
        asks: list[Ask],
        part: Sequence[int],
        answers: list[Any],
        job: Job,
        queued: float,
        share: float,
    ) -> None:
        """Answer a part of a batch, in its share of the time that is left."""
        left = job.left_ms()
        if left <= 0:
            refusal = late(self._settings.deadline_ms).plain()
            for number in part:
                answers[number] = refusal
            return
        for number, slate in zip(part, self._slates(served, [asks[i] for i in part], left * share), strict=True):
            failed = isinstance(slate, SetwiseError)
            answers[number] = (
                from_error(slate).plain() if failed else self._answer(served, slate, job, queued)  # type: ignore[arg-type]
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
