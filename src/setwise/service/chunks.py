"""HTTP/1.1 as h11 parses it, without bodies of many small chunks or of long extensions of chunks.

A chunk costs about ten microseconds of the event loop whatever its size: a body of a megabyte in chunks of one byte
would delay all other clients for many seconds. A body may have ``FREE_CHUNKS`` of any size, and one more for every
``CHUNK_BYTES`` that have arrived, so that a megabyte is parsed in a quarter of a second at most. That time is spread
over many passes of the event loop (turns.py). Extensions of chunks have no use here: what frames a body may be as long
as the body, and ``FREE_BYTES`` more.
"""

from __future__ import annotations

from typing import Any

import h11

FREE_CHUNKS = 4096  # of any size: programs that write JSON in small pieces are served
CHUNK_BYTES = 64  # the least average size of all others
FREE_BYTES = 1 << 19  # that frame chunks, or have arrived and are not parsed yet


class SmallChunks(h11.RemoteProtocolError):
    """A body in too many small chunks, or with too long extensions."""


class Parser(h11.Connection):
    """A connection of h11 that refuses bodies of many small chunks or long extensions."""

    _chunks, _bytes, _received = 0, 0, 0  # of this body; all bytes since its head

    def receive_data(self, data: bytes) -> None:
        """Count and keep what has arrived."""
        self._received += len(data)
        super().receive_data(data)

    def next_event(self) -> Any:
        """The next event; ``SmallChunks`` for a chunk too many."""
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > FREE_CHUNKS + self._bytes // CHUNK_BYTES:
                raise SmallChunks("too many small chunks")
            if self._received > FREE_BYTES + 2 * self._bytes:
                raise SmallChunks("too long extensions")
        elif isinstance(event, h11.Request):
            self._chunks = self._bytes = self._received = 0
        return event
