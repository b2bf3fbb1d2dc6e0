"""What a client sends after the response to its request is discarded, one piece of each connection at a time."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from setwise.service.connections import Connection, ConnectionLimits
from setwise.service.exchange import Request, Response
from setwise.service.metrics import Metrics
from setwise.service.settings import Settings

PIECES = 5


class ObservedConnection(Connection):
    """It notes after each piece whether the connection still reads, and announces the piece."""

    def observe(self) -> None:
        self.reads: list[bool] = []
        self.arrived, self.lost = asyncio.Event(), asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.reads.append(self.transport.is_reading())
        self.arrived.set()


async def refuse(_: Request) -> Response:
    return Response(b"{}", 401)


async def reads_after_response(head: bytes, status: bytes) -> list[bool]:
    """Whether a connection reads after each of several pieces that a client sends over TCP after its response."""
    limits = ConnectionLimits(Settings(), Metrics())
    connection = ObservedConnection(respond=refuse, limits=limits, security=b"")
    connection.observe()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: connection, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(head)
        response = await reader.readuntil(b"\r\n")
        assert response.startswith(b"HTTP/1.1 " + status)
        connection.reads.clear()
        for _ in range(PIECES):
            connection.arrived.clear()
            writer.write(b"x" * 1000)
            await connection.arrived.wait()
        writer.transport.abort()
        await writer.wait_closed()
        await connection.lost.wait()
    return connection.reads


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", b"401"),
        (b"BAD\0 / HTTP/1.1\r\n\r\n", b"400"),
    ],
)
def test_discarding_waits_for_turns(new_loop, head: bytes, status: bytes) -> None:
    """One client of 200 connections without a key that sent as fast as it could delayed others by four seconds.

    The event loop reads a connection up to 32 times in a pass, unless it is paused. A piece that arrives after
    another one was paused for shows that reading is resumed.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        reads = runner.run(asyncio.wait_for(reads_after_response(head, status), 60))
    assert reads == [False] * PIECES
