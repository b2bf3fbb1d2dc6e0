"""Turns: what many connections have sent is parsed in small parts, so that it delays no other client.

Small chunks, and long extensions of chunks, take the event loop much longer than the network takes to bring them. A
connection that has more to parse than ``EVENTS`` at once waits here for its next turn, and reads nothing meanwhile; so
does one whose next request came before the response to the last. One pass of the event loop has at most ``TURNS`` turns
and begins none after ``TURNS_S``: another client waits no longer than that in each pass, however many connections send.
Responses that take long to write, those of ``/metrics``, have their turns too (``result``).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
EVENTS = 16  # that a connection parses in one turn; a request without a body has two, one with a small body three
TURNS, TURNS_S = 8, 0.003


class Turns:
    """The connections that wait for their next turn, in order."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._scheduled = False

    def add(self, turn: Callable[[], bool]) -> None:
        """Call ``turn`` until it returns that it needs no further turn."""
        self._waiting.append(turn)
        self._schedule()

    async def result(self, compute: Callable[[], Result]) -> Result:
        """What ``compute`` returns, in one turn."""
        outcome: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def turn() -> bool:
            if not outcome.done():  # else the client has gone
                try:
                    outcome.set_result(compute())
                except Exception as error:
                    outcome.set_exception(error)
            return False

        self.add(turn)
        return await outcome

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        self._scheduled, end = False, time.monotonic() + TURNS_S
        try:
            for _ in range(TURNS):
                if not self._waiting or time.monotonic() >= end:
                    return
                turn = self._waiting.popleft()
                if turn():
                    self._waiting.append(turn)
        finally:
            self._schedule()
