"""A task: a request that a worker computes, with its deadline and its outcome."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import cast

import msgspec

from setwise.service.degradation import FULL
from setwise.service.handlers import Outcome, TaskMessage
from setwise.service.http_errors import HttpError
from setwise.service.schemas import GroupKey, HttpRequest, RecommendRequest
from setwise.storage.slate_log import ShownSlate


class Task:
    """A request in the queue or at a worker, or the body of a large one, and its outcome when there is one."""

    def __init__(
        self, handler: str, request: HttpRequest | bytes, arrived: float, deadline: float, logged: bool = False
    ) -> None:
        self.handler, self.request, self._logged = handler, request, logged
        self.arrived, self.deadline, self.attempts = arrived, deadline, 0
        self.level = FULL  # what it loses under load
        self.shown: list[ShownSlate] = []  # its slates, if they are logged
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def finish(self, outcome: Outcome) -> None:
        """Set the outcome; the first one counts."""
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    @property
    def finished(self) -> bool:
        """Whether there is an outcome, or it is not awaited any more."""
        return self._outcome.done()

    async def body(self) -> bytes:
        """The body of the response, or the error."""
        outcome = await self._outcome
        if isinstance(outcome, HttpError):
            raise outcome
        return outcome

    @cached_property
    def _group_key(self) -> GroupKey:
        return cast(RecommendRequest, self.request).group_key()

    @property
    def group_key(self) -> GroupKey | None:
        """Tasks of equal keys may be computed together; None: alone, as is a task whose first worker failed."""
        grouped = self.handler == "recommend" and self.attempts == 0 and not isinstance(self.request, bytes)
        return self._group_key if grouped else None

    def message(self) -> TaskMessage:
        """What the worker receives."""
        body, request = b"", msgspec.Raw(b"null")
        if isinstance(self.request, bytes):
            body = self.request
        else:
            request = msgspec.Raw(msgspec.json.encode(self.request))
        return TaskMessage(self.handler, request, self.arrived, self.deadline, self._logged, self.level, body)
