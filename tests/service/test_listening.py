"""Listening: what waits at the socket is accepted in a few passes of the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from services import Here

from setwise.service.listening import ACCEPTED, listen_more
from setwise.service.server import _loop_factory

CLIENTS = 8 * ACCEPTED


async def passes_until_all_are_accepted() -> int:
    """How many passes the loop takes to accept connections that all wait."""
    accepted, count = list[asyncio.BaseTransport](), 0

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(transport)

    server = await asyncio.get_running_loop().create_server(Accepted, "127.0.0.1", 0, backlog=2 * CLIENTS)
    servers = [server, *await listen_more(server, Accepted, 2 * CLIENTS)]
    assert len(servers) == ACCEPTED
    address = server.sockets[0].getsockname()
    with ExitStack() as clients:
        for _ in range(CLIENTS):
            clients.enter_context(socket.create_connection(address))
        while len(accepted) < CLIENTS:
            await asyncio.sleep(0)
            count += 1
    for transport in accepted:
        transport.close()
    for one in servers:
        one.close()
        await one.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    return count


@pytest.mark.parametrize("loops", [_loop_factory(), asyncio.new_event_loop])
def test_a_flood_of_connections_does_not_wait_for_a_pass_each(loops: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A client that opened connections with much to parse made a probe of another wait for six seconds."""
    with asyncio.Runner(loop_factory=loops) as runner:
        assert runner.run(passes_until_all_are_accepted()) < CLIENTS / 2


def test_a_service_accepts_so_many_in_a_pass(service: Here) -> None:
    assert service.listeners == ACCEPTED
    assert all(service.client.get("/healthz").status_code == 200 for _ in range(3))
