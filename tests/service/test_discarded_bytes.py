"""What a client sends after the response to its request is discarded, one piece of each connection at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from setwise.service.connections import Connection, ConnectionLimits
from setwise.service.exchange import Request, Response
from setwise.service.metrics import Metrics
from setwise.service.settings import Settings


class Transport(asyncio.Transport):
    """It keeps what is written, and knows whether the connection reads."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.reads, self.ended = b"", True, False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.ended

    def close(self) -> None:
        self.ended = True

    abort = close


async def refuse(_: Request) -> Response:
    return Response(b"{}", 401)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", b"401"),
        (b"BAD\0 / HTTP/1.1\r\n\r\n", b"400"),
    ],
)
def test_discarding_waits_for_turns(head: bytes, status: bytes) -> None:
    """One client of 200 connections without a key that sent as fast as it could delayed others by four seconds.

    The event loop reads a connection up to 32 times in a pass, unless it is paused.
    """

    async def pieces() -> None:
        limits, transport = ConnectionLimits(Settings(), Metrics()), Transport()
        connection = Connection(respond=refuse, limits=limits, security=b"")
        connection.connection_made(transport)
        connection.data_received(head)
        while not transport.written:
            await asyncio.sleep(0)
        assert transport.written.startswith(b"HTTP/1.1 " + status)
        for _ in range(5):
            assert transport.reads
            connection.data_received(b"x" * 1000)
            assert not transport.reads
            while not transport.reads:
                await asyncio.sleep(0)
        assert not transport.ended
        connection.connection_lost(None)

    asyncio.run(pieces())
