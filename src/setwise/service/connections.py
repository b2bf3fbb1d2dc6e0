"""Connections: HTTP/1.1 by uvicorn and h11, with limits on what one client can make the service hold.

h11 parses one request at a time: the next one on a connection is read when the response before it has been handed to
the transport, and reading is paused meanwhile, so pipelined requests cost one read buffer. It reads a body as a body
whatever the ``Upgrade`` header says. What it does not limit is limited here: connections in all and by client address,
time for a head, idle time, and output that the client does not read. Only public names of asyncio, uvicorn and h11 are
used or overridden.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from setwise.service.http_errors import JSON, HttpError, bad_request, large_head, slow_head, too_many_connections
from setwise.service.metrics import Metrics
from setwise.service.settings import Settings

LINGER_S = (
    2.0  # after an error, unread bytes of a request are discarded so long: closing at once would discard the error
)
SWEEP_S = 0.25  # between two checks of all connections
OTHER = "other"  # the metrics label of requests that match no route
SECURITY_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
RawHeaders = list[tuple[bytes, bytes]]


def raw_headers(body: bytes, content_type: str, more: dict[str, str]) -> RawHeaders:
    """The headers of a response."""
    own = [(name.lower().encode(), value.encode()) for name, value in more.items()]
    return [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body)), *own, *SECURITY_HEADERS]


class ConnectionLimits:
    """Counts the open connections of a service, in all and by client address."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self._open: Counter[str] = Counter()
        self._total = 0

    def add(self, address: str) -> bool:
        """Count a connection, unless it is one too many."""
        if self._total >= self.settings.connections:
            return False
        if self._open[address] >= self.settings.connections_per_address:
            return False
        self._open[address] += 1
        self._total += 1
        return True

    def remove(self, address: str) -> None:
        """A counted connection has ended."""
        self._total -= 1
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class Connection(H11Protocol):
    """One connection of a client."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits, self._settings = limits, limits.settings
        self._address: str | None = None  # where the connection is counted
        self._idle_since = time.monotonic()
        self._head_since: float | None = None  # a part of a head has arrived
        self._unread_since: float | None = None  # the write buffer is full
        self._closing_since: float | None = None
        self._discard_until: float | None = None  # an error was sent: what arrives is discarded

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self._limits.add(address):
            self._address = address
        else:
            self._send_error(too_many_connections())
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        if self._discard_until is not None or self._address is None:
            return
        if self._head_since is None and self.conn.their_state is h11.IDLE:
            self._head_since = time.monotonic()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head_since = None

    def pause_writing(self) -> None:
        """The client does not read its responses as fast as they are written."""
        self._unread_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has read."""
        self._unread_since = None
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended: its request leaves the queue."""
        if self._address is not None:
            self._limits.remove(self._address)
            self._address = None
        self._abandon_request()
        super().connection_lost(exc)

    def _abandon_request(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            abandon = self.cycle.scope.get("state", {}).get("abandon")
            if abandon is not None:
                abandon()

    # --- uvicorn ---

    def on_response_complete(self) -> None:
        """A response was handed to the transport."""
        self._idle_since = time.monotonic()
        if self.conn.their_state is h11.SEND_BODY and any(name == b"transfer-encoding" for name, _ in self.headers):
            self._discard_until = self._idle_since + LINGER_S  # small chunks are slow to parse, and of no use any more
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._head_since = time.monotonic()

    def send_400_response(self, msg: str) -> None:
        """h11 could not parse what has arrived; uvicorn calls this while it handles h11's error."""
        error = sys.exc_info()[1]
        if self.cycle is not None and not self.cycle.response_complete:
            self._abandon_request()
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if getattr(error, "error_status_hint", 400) == 431:
            self._reject(large_head(self._settings.head_bytes, self._settings.headers))
        else:
            self._reject(bad_request("it could not be parsed"))

    def shutdown(self) -> None:
        """The service ends."""
        if self._discard_until is None:
            super().shutdown()
        else:
            self.transport.abort()

    # --- limits ---

    def check(self, now: float) -> None:
        """Close the connection if it is over one of its limits of time."""
        if self._discard_until is not None:
            if now >= self._discard_until:
                self.transport.abort()
        elif self.transport.is_closing():
            self._closing_since = self._closing_since or now
            if now - self._closing_since > self._settings.unread_ms / 1000:
                self.transport.abort()
        elif self._unread_since is not None:
            if now - self._unread_since > self._settings.unread_ms / 1000:
                self.transport.abort()
        elif self.cycle is not None and not self.cycle.response_complete:
            return  # the application has its own limits of time
        elif self.conn.their_state is h11.SEND_BODY:
            if now - self._idle_since > LINGER_S:  # a body after its response
                self.transport.abort()
        elif self._head_since is not None:
            if now - self._head_since > self._settings.head_ms / 1000:
                self._reject(slow_head(self._settings.head_ms))
        elif now - self._idle_since > self._settings.idle_ms / 1000:
            self.transport.close()

    def _reject(self, error: HttpError) -> None:
        """Answer with an error, discard what else arrives, and close."""
        self._discard_until = time.monotonic() + LINGER_S
        self.flow.resume_reading()
        self._send_error(error)

    def _send_error(self, error: HttpError) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # within a response: nothing can be said
            self.transport.abort()
            return
        body = error.body()
        headers = raw_headers(body, JSON, dict(error.headers))
        for event in (
            h11.Response(status_code=error.status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self._limits.metrics.count_response(OTHER, error.status)


async def sweep(connections: set[Any]) -> None:
    """Check all connections, for ever."""
    while True:
        await asyncio.sleep(SWEEP_S)
        now = time.monotonic()
        for connection in [*connections]:
            connection.check(now)
