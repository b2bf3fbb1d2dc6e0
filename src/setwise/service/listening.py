"""Listening: a pass of the event loop accepts several of the connections that wait.

uvloop accepts one connection of a listening socket in each pass. While a pass is long, because connections that are
open have much to parse (turns.py), the system queues new ones, 2,048 of them: the last, which may be a probe, waits for
so many passes, and no limit of connections refuses those before it. Duplicates of the socket's descriptor have the same
queue, and each accepts one in each pass.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

ACCEPTED = 16  # connections in one pass


async def listen_more(
    server: asyncio.Server, connection: Callable[[], asyncio.Protocol], backlog: int
) -> list[asyncio.Server]:
    """Further servers at the sockets of this one; they accept ``ACCEPTED`` connections of each in a pass, with it."""
    loop, more = asyncio.get_running_loop(), list[asyncio.Server]()
    for line in server.sockets:
        for _ in range(ACCEPTED - 1):
            same = socket.socket(fileno=os.dup(line.fileno()))
            same.setblocking(False)
            more.append(await loop.create_server(connection, sock=same, backlog=backlog))
    return more
