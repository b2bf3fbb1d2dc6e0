"""Head and body of an answer in one piece: one call to the system and one packet, where the server would make two."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_END = b"\r\n\r\n"


class Joined:
    """A transport that keeps a head back until its body follows, or until the event loop's next turn."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send ``data``, with the head that waits for it."""
        if not self._head and data.endswith(_END):
            self._head = data
            asyncio.get_running_loop().call_soon(self._flush)
        else:
            joined, self._head = self._head + data, b""
            self._transport.write(joined)

    def close(self) -> None:
        """Send what is left, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            self.write(b"")


class OnePiece(HttpToolsProtocol):
    """uvicorn's HTTP, writing through ``Joined``."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Joined(transport))  # type: ignore[arg-type]
