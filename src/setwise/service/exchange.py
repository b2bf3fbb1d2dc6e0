"""A request and its response, as the routes see them; and bodies, which are read within limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from setwise.service import http_errors
from setwise.service.http_errors import JSON
from setwise.service.settings import Settings

LINGER_S = (
    2.0  # after an error, unread bytes of a request are discarded so long: closing at once would discard the error
)
FREE_BYTES = 1 << 14  # of each body that do not count in bodies_bytes: small requests are served while large ones wait
RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Response:
    """Status, body and headers of a response."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this response, although a part of the body may be unread."""
        return self.headers.get("Connection") == "close"


@dataclass(eq=False)
class Request:
    """An HTTP request: its head as it was sent, and its body as it arrives."""

    method: bytes
    path: bytes  # nothing in it is decoded
    query: bytes
    version: bytes
    headers: RawHeaders  # with names in lower case
    on_wait: Callable[[], None]  # called before more of the body is awaited
    abandon: Callable[[], None] | None = None  # called if the client disconnects before the response
    complete: bool = False  # the whole body has arrived
    over: bool = False  # the client has disconnected, or the response was sent
    _body: bytearray = field(default_factory=bytearray)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    # --- for the connection ---

    def add(self, data: bytes) -> int:
        """A part of the body has arrived; how many bytes wait to be read."""
        self._body += data
        self._changed.set()
        return len(self._body)

    def set_complete(self) -> None:
        """The end of the body has arrived."""
        self.complete = True
        self._changed.set()

    def end(self) -> None:
        """Nothing more will be read or sent."""
        self.over = True
        self._changed.set()

    # --- for the routes ---

    def header(self, name: bytes, default: bytes = b"") -> bytes:
        """The value of a header."""
        return next((value for key, value in self.headers if key == name), default)

    def parameters(self) -> dict[str, str]:
        """The query parameters; the last one of a name counts."""
        return dict(parse_qsl(self.query.decode("latin-1"), keep_blank_values=True))

    async def piece(self) -> bytes | None:
        """What has arrived of the body, at once or as soon as something has; None if the rest will not arrive."""
        if not (self.over or self.complete):
            self.on_wait()
            await self._changed.wait()
        self._changed.clear()
        if self.over:
            return None
        piece, self._body = bytes(self._body), bytearray()
        return piece

    async def discard_body(self) -> None:
        """Discard the rest of the body for a while, so that the client can read the error."""
        try:
            async with asyncio.timeout(LINGER_S):
                while not self.complete and await self.piece() is not None:
                    pass
        except TimeoutError:
            return


class Bodies:
    """Memory for the bodies that are being read: one budget for all connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._left = max(settings.bodies_bytes, settings.body_bytes)

    async def read(self, request: Request) -> bytes:
        """The body of a request, or an error as soon as it is known to be too large or too slow."""
        most, milliseconds = self._settings.body_bytes, self._settings.body_ms
        if int(request.header(b"content-length", b"0")) > most:  # h11 has checked that it is a number
            raise http_errors.large_body(most)
        if request.complete:  # as most bodies are: there is nothing to wait for
            return await self._read(request, most)
        try:
            async with asyncio.timeout(milliseconds / 1000):
                return await self._read(request, most)
        except TimeoutError:
            raise http_errors.slow_body(milliseconds) from None

    async def _read(self, request: Request, most: int) -> bytes:
        pieces: list[bytes] = []
        size, reserved, complete = 0, 0, False
        try:
            while not complete:
                piece = await request.piece()
                if piece is None:
                    raise http_errors.incomplete_body()
                pieces.append(piece)
                size += len(piece)
                if size > most:
                    raise http_errors.large_body(most)
                needed = max(0, size - FREE_BYTES) - reserved
                if needed > self._left:
                    raise http_errors.bodies_full()
                self._left -= needed
                reserved += needed
                complete = request.complete
            return b"".join(pieces)
        finally:
            self._left += reserved
