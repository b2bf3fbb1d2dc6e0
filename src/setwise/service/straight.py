"""The straight way: a request for one slate that comes quickly is answered without tasks, messages or a framework.

It is the request that everybody makes. A slate is computed with the caches full of the catalogue, so that whatever else
takes part is fetched from memory anew for every request; and when too many ask, to turn one away must cost little. Head
and body of the answer leave in one packet. A request that comes slowly, is long, or came before the answer to the last
one, goes the way of all others, and gets the same answer there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from setwise.service.handlers import Outcome
from setwise.service.http_errors import JSON, Refusal, accident
from setwise.service.logs import log, where_it_failed
from setwise.service.middleware import RAW_HEADERS, Door

QUICK_S = 0.05  # between a head and the end of its body, which some send by themselves
ROUTE = ("POST", "/v1/recommend")


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


_ALWAYS = _lines([(b"content-type", JSON.encode()), *RAW_HEADERS])


class Straight(HttpToolsProtocol):
    """uvicorn's HTTP, before a ``Door``."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._door = cast(Door, self.config.app)
        self._reading = False
        self._held: Any = None  # the application, kept from starting while the body may come quickly
        self._patience: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """What has come: whole requests, or parts of one."""
        self._reading = True
        super().data_received(data)
        self._reading = False
        if self._held is None:
            return
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:  # only the application reads on
            self._let_go()
        elif self._patience is None:
            self._patience = self.loop.call_later(QUICK_S, self._let_go)

    def on_message_complete(self) -> None:
        """A body has ended."""
        super().on_message_complete()
        if self._held is None:
            return
        if len(self.cycle.body) > self._door.longest_body:
            self._let_go()
        else:
            self._taken()
            self._answer(self.cycle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever asked has gone."""
        self._taken()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Outside of a reading it is a request that had to wait for the answer to the last one. Where the other end does
        # not read, the application waits until it does, and we would not.
        scope = cycle.scope
        if self._reading and (scope["method"], scope["path"]) == ROUTE and not self.flow.write_paused:
            self._held = app
        else:
            super()._start_asgi_task(cycle, app)

    def _let_go(self) -> None:
        super()._start_asgi_task(self.cycle, self._taken())

    def _taken(self) -> Any:
        """What was held, no more."""
        if self._patience is not None:
            self._patience.cancel()
        held, self._held, self._patience = self._held, None, None
        return held

    def _answer(self, cycle: RequestResponseCycle) -> None:
        tell = partial(self._tell, cycle)
        try:
            self._door.slate(cycle.scope, bytes(cycle.body), tell)
        except Refusal as refusal:
            tell(refusal)
        except Exception as error:
            tell(accident())
            # later, for a log that fails must not look to the parser as if the request had been no HTTP
            self.loop.call_soon(partial(log().error, "request failed", **where_it_failed(error)))

    def _tell(self, cycle: RequestResponseCycle, outcome: Outcome) -> None:
        """The end of a request, as uvicorn's own."""
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(_packet(cycle, outcome))
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        self._door.count(ROUTE[1], outcome.status if isinstance(outcome, Refusal) else 200)


def _packet(cycle: RequestResponseCycle, outcome: Outcome) -> bytes:
    """Head and body."""
    if isinstance(outcome, Refusal):
        status, body, own = outcome.status, outcome.body(), outcome.raw_headers()
    else:
        status, body, own = 200, outcome, []
    if not cycle.keep_alive:
        own.append((b"connection", b"close"))
    lines = _lines([*cycle.default_headers, *own, (b"content-length", b"%d" % len(body))])
    return b"".join((STATUS_LINE[status], _ALWAYS, lines, b"\r\n", body))
