"""Connections: HTTP/1.1 as h11 reads and writes it, with limits on what one client can make the service hold.

h11 parses one request at a time: the next one on a connection is read when the response before it has been handed to
the transport, and reading is paused meanwhile, so pipelined requests cost one read buffer. It reads a body as a body
whatever the ``Upgrade`` header says. What it does not limit is limited here: connections in all and by client address,
time for a head, idle time, and output that the client does not read, in the system's buffers too. uvicorn accepts the
connections and ends them (server.py).

A client may end its sending side after a request and wait for the response. TCP shows the same if the client has closed
the connection, until something is sent to it. So the first bytes of the response, which are the same for every one, are
sent at once: a client that is gone answers them with a reset, and its request leaves the queue.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.server import ServerState

from setwise.service.chunks import Parser, SmallChunks
from setwise.service.exchange import LINGER_S, Request, Response
from setwise.service.http_errors import JSON, HttpError, bad_request, large_head, slow_head, too_many_connections
from setwise.service.metrics import Metrics
from setwise.service.settings import Settings
from setwise.service.turns import EVENTS, Turns

SWEEP_S = 0.25  # between two checks of all connections
SEND_BYTES = 1 << 17  # that the system buffers for one client; its own default grows to megabytes
OTHER = "other"  # the metrics label of requests that match no route
_PREFIX = b"HTTP/1.1 "  # of every response
_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}


class ConnectionLimits:
    """Counts the open connections of a service, in all and by client address, and gives them turns."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics, self.turns = settings, metrics, Turns()
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


class Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(
        self,
        config: Any = None,
        server_state: ServerState | None = None,
        app_state: Any = None,
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        respond: Callable[[Request], Awaitable[Response]],
        limits: ConnectionLimits,
        security: bytes,
    ) -> None:
        """The first four arguments are those of uvicorn; all connections of a server share its state."""
        self._respond, self._limits, self._settings, self._security = respond, limits, limits.settings, security
        self._server = server_state or ServerState()
        self._http = Parser(h11.SERVER, self._settings.head_bytes)
        self._request: Request | None = None  # in progress: its response is not complete
        self._keep_alive = True
        self._address: str | None = None  # where the connection is counted
        self._idle_since = time.monotonic()
        self._head_since: float | None = None  # a part of a head has arrived
        self._unread_since: float | None = None  # the write buffer is full
        self._closing_since: float | None = None
        self._discard_until: float | None = None  # an error was sent: what arrives is discarded
        self._sending_ended = False  # the client sends no more
        self._full = False  # what arrives now could not be used yet: nothing is read
        self._waits_for_turn = False  # more has arrived than one turn can parse: nothing is read
        self._begun = b""  # what was sent of the next response before it was known

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, or refuse it."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports have its methods, not its type
        self._flow = FlowControl(self.transport)
        line = transport.get_extra_info("socket")
        if line is not None:
            with suppress(OSError):  # of a connection that has ended already
                line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        self._server.connections.add(cast(Any, self))
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._limits.add(address):
            self._address = address
        else:
            self._send_error(too_many_connections())
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        if self._discard_until is not None or self._address is None:
            if self._address is not None and not self._waits_for_turn:
                self._wait_for_turn()  # to read more: a pass would read megabytes of each such connection
            return
        if self._head_since is None and self._http.their_state is h11.IDLE:
            self._head_since = time.monotonic()
        self._http.receive_data(data)
        if not self._waits_for_turn:
            self._parse()
        if self._http.their_state is not h11.IDLE:
            self._head_since = None

    def eof_received(self) -> bool:
        """The client sends no more, or is gone: True keeps the connection for the response to a complete request."""
        self._sending_ended = True
        if not self._awaits_response or self._discard_until is not None:
            return False
        self._begun = _PREFIX
        self.transport.write(_PREFIX)
        return True

    @property
    def _awaits_response(self) -> bool:
        return self._request is not None and self._request.complete

    def pause_writing(self) -> None:
        """The client does not read its responses as fast as they are written."""
        self._unread_since = time.monotonic()
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        """The client has read."""
        self._unread_since = None
        self._flow.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended: its request leaves the queue."""
        if self._address is not None:
            self._limits.remove(self._address)
            self._address = None
        self._server.connections.discard(cast(Any, self))
        self._abandon_request()
        self._flow.resume_writing()

    # --- requests ---

    def _parse(self) -> None:
        """Handle the events that h11 has read, until it needs data or the response to a complete request.

        If there are many, the others wait for further turns.
        """
        if not self._waits_for_turn and self._parse_some():
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        self._waits_for_turn = True
        self._set_reading()
        self._limits.turns.add(self._take_turn)

    def _take_turn(self) -> bool:
        """Parse some events; whether there are more."""
        try:
            self._waits_for_turn = self._is_open and self._parse_some()
        except BaseException:
            self.transport.abort()
            raise
        if not self._waits_for_turn and not self.transport.is_closing():
            self._set_reading()
            self._note_next_head()
        return self._waits_for_turn

    @property
    def _is_open(self) -> bool:
        return self._address is not None and self._discard_until is None and not self.transport.is_closing()

    def _parse_some(self) -> bool:
        """Handle some events; whether there may be more."""
        for _ in range(EVENTS):
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._reject_invalid(error)
                return False
            if event is h11.NEED_DATA:
                return False
            if event is h11.PAUSED:  # more has arrived: the next request waits for the response to this one
                self._pause_reading()
                return False
            if isinstance(event, h11.Request):
                self._begin(event)
            elif self._request is None:  # the rest of a body after its response
                if isinstance(event, h11.EndOfMessage):
                    self._resume_reading()
                    self._http.start_next_cycle()
                else:
                    return True  # as above
            elif isinstance(event, h11.Data):
                if self._request.add(bytes(event.data)) > HIGH_WATER_LIMIT:
                    self._pause_reading()
            elif isinstance(event, h11.EndOfMessage):
                self._request.set_complete()
                if not self._http.trailing_data[0]:
                    return False  # reading goes on: what arrives before the response pauses it
        return True

    def _pause_reading(self) -> None:
        self._full = True
        self._set_reading()

    def _resume_reading(self) -> None:
        self._full = False
        self._set_reading()

    def _set_reading(self) -> None:
        if not (self._full or self._waits_for_turn):
            self._flow.resume_reading()
        elif not self._sending_ended:
            self._flow.pause_reading()

    def _begin(self, event: h11.Request) -> None:
        """Have a request answered."""
        path, _, query = event.target.partition(b"?")
        request = Request(event.method, path, query, event.http_version, [*event.headers], self._wait_for_body)
        self._request = request
        task = asyncio.get_running_loop().create_task(self._answer(request))
        self._server.tasks.add(task)  # the loop keeps no reference
        task.add_done_callback(self._server.tasks.discard)

    def _wait_for_body(self) -> None:
        if self._http.they_are_waiting_for_100_continue and not self.transport.is_closing():
            self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
        self._resume_reading()

    def _abandon_request(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            request.end()
            if request.abandon is not None:
                request.abandon()

    def _reject_invalid(self, error: h11.RemoteProtocolError) -> None:
        self._abandon_request()
        if error.error_status_hint == 431:
            self._reject(large_head(self._settings.head_bytes, self._settings.headers))
        else:
            small = isinstance(error, SmallChunks)
            reason = "its chunks are too small, or their extensions too long" if small else "it could not be parsed"
            self._reject(bad_request(reason))

    # --- responses ---

    async def _answer(self, request: Request) -> None:
        try:
            response = await self._respond(request)
            if self._flow.write_paused and not request.over:
                await self._flow.drain()
            if request.over:
                return
            chunks = not (request.complete or response.closes) and bool(request.header(b"transfer-encoding"))
            self._send_response(response, b"" if request.method == b"HEAD" else response.body, chunks)
            if response.closes:  # closing over unread bytes would discard the response
                await request.discard_body()
            if not request.over:
                self._complete(request, chunks)
        except BaseException:  # cancelled, when the time for a drain is over
            self.transport.abort()
            raise

    def _send_response(self, response: Response, body: bytes, closes: bool = False) -> None:
        """Write the head and the body; h11 frames them, and the headers that never change are put into its head."""
        headers = [(b"content-type", response.content_type.encode()), (b"content-length", b"%d" % len(response.body))]
        headers += [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
        if (closes or not self._keep_alive) and not response.closes:
            headers.append((b"connection", b"close"))  # what was pipelined behind this request is not answered
        reason = _PHRASES[response.status]
        head = self._http.send(h11.Response(status_code=response.status, headers=headers, reason=reason)) or b""
        data = self._http.send(h11.Data(data=body)) or b""
        more = b"".join(b"%s: %s\r\n" % header for header in self._server.default_headers)  # the date
        sent, self._begun = len(self._begun), b""
        self.transport.write(b"".join((head[sent:-2], more, self._security, head[-2:], data)))

    def _complete(self, request: Request, chunks: bool) -> None:
        """The response was handed to the transport: go on with the next request, or close, if ``chunks`` follow."""
        self._send(h11.EndOfMessage())
        request.end()
        self._request = None
        self._idle_since = time.monotonic()
        if chunks:
            self._discard_until = self._idle_since + LINGER_S  # small chunks are slow to parse, and of no use any more
        elif self._http.our_state is h11.MUST_CLOSE or not self._keep_alive:
            self.transport.close()
        if self.transport.is_closing():
            return
        self._resume_reading()
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            if self._http.trailing_data[0] and not self._waits_for_turn:  # other clients come before its next request
                self._wait_for_turn()
        if not self._waits_for_turn:
            self._note_next_head()

    def _note_next_head(self) -> None:
        """What has arrived was parsed after a response: close if no more comes, or wait for the rest of a head."""
        if self._sending_ended and not self._awaits_response:
            self.transport.close()
        elif self._head_since is None and self._http.their_state is h11.IDLE and self._http.trailing_data[0]:
            self._head_since = time.monotonic()

    def _send(self, event: h11.InformationalResponse | h11.EndOfMessage) -> None:
        data = self._http.send(event)
        if data:
            self.transport.write(data)

    # --- the end ---

    def shutdown(self) -> None:
        """The service ends."""
        if self._discard_until is not None:
            self.transport.abort()
        elif self._request is None:
            self.transport.close()
        else:
            self._keep_alive = False

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
        elif self._request is not None:  # the application has its own limits of time
            if self._sending_ended and self._is_reset():
                self.transport.abort()
        elif self._http.their_state is h11.SEND_BODY:
            if now - self._idle_since > LINGER_S:  # a body after its response
                self.transport.abort()
        elif self._head_since is not None:
            if now - self._head_since > self._settings.head_ms / 1000:
                self._reject(slow_head(self._settings.head_ms))
        elif now - self._idle_since > self._settings.idle_ms / 1000:
            self.transport.close()

    def _is_reset(self) -> bool:
        """Whether the client has answered what was sent to it with a reset; the transport reads no more by then."""
        line = self.transport.get_extra_info("socket")
        return line is not None and line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    def _reject(self, error: HttpError) -> None:
        """Answer with an error, discard what else arrives, and close."""
        self._discard_until = time.monotonic() + LINGER_S
        self._resume_reading()
        self._send_error(error)

    def _send_error(self, error: HttpError) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # within a response: nothing can be said
            self.transport.abort()
            return
        body = error.body()
        self._send_response(Response(body, error.status, JSON, dict(error.headers)), body)
        self._send(h11.EndOfMessage())
        self._limits.metrics.count_response(OTHER, error.status)


async def sweep(connections: set[Any]) -> None:
    """Check all connections, for ever."""
    while True:
        await asyncio.sleep(SWEEP_S)
        now = time.monotonic()
        for connection in [*connections]:
            connection.check(now)
