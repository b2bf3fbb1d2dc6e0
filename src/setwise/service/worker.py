"""A process that computes: it opens one artifact, and answers what comes over the line until nobody is at its end."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from setwise.errors import DamagedArtifact
from setwise.recommend.memory import keep_much
from setwise.service.artifact import Served
from setwise.service.handlers import Desk, Order, Reply, info
from setwise.service.http_errors import accident
from setwise.service.logs import configured, log, where_it_failed
from setwise.service.schemas import Info
from setwise.service.settings import Settings

NICE = 5  # the event loop goes first where cores are scarce: turning away must stay quick while all compute


class Fit(msgspec.Struct, tag=True):
    """The artifact is open, and this is in it."""

    info: Info


class Unfit(msgspec.Struct, tag=True):
    """Why an artifact cannot be served."""

    reason: str
    todo: str


# Orders go as JSON, for ids may be whole numbers of any size; what comes back is bytes for the most part.
ORDERS: msgspec.json.Decoder[list[Order]] = msgspec.json.Decoder(list[Order])
said = msgspec.msgpack.Encoder().encode


def work(line: socket.socket, artifact: Path, version: str, settings: Settings) -> None:
    """What the process does, all its life."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # sent to all of us, they are for the one that serves
    os.nice(NICE)
    configured()
    keep_much()
    try:
        serve(Connection(line.detach()), artifact, version, settings)
    except (EOFError, OSError):  # nobody is there any more
        return


def serve(line: Connection, artifact: Path, version: str, settings: Settings) -> None:
    """Open the artifact, say what is in it or what is wrong with it, and answer."""
    try:
        served = Served.opened(artifact, version)
    except Exception as error:  # whatever is wrong with a file, only this process is to end
        log().error("artifact refused", **where_it_failed(error))
        line.send_bytes(said(_unfit(error)))
        return
    line.send_bytes(said(Fit(info(served, settings))))
    # An empty message wakes the event loop while the answer is put into words.
    desk = Desk(served, settings, soon=lambda: line.send_bytes(b""))
    # What is loaded stays: else a full garbage collection walks through it all, and nobody is answered for 80 ms.
    gc.collect()
    gc.freeze()
    while True:
        _look_out(line, settings.awake_ms / 1000)
        for reply in answered(desk, ORDERS.decode(line.recv_bytes())):
            line.send_bytes(said(reply))


def answered(desk: Desk, orders: Sequence[Order]) -> Iterator[Reply]:
    """A reply to each order, in their order; one group's misfortune is not the process's."""
    undone = len(orders)
    try:
        for reply in desk.replies(orders):
            undone -= 1
            yield reply
    except Exception as error:
        log().error("request failed", **where_it_failed(error))
        yield from [Reply(accident())] * undone


def _look_out(line: Connection, seconds: float) -> None:
    """Stay awake for a while: a core that has slept finds its caches given to others and its clock turned down."""
    orders, end = select.poll(), time.perf_counter() + seconds
    orders.register(line, select.POLLIN)
    while time.perf_counter() < end and not orders.poll(0):
        pass


def _unfit(error: Exception) -> Unfit:
    if isinstance(error, DamagedArtifact):
        return Unfit(error.reason, error.todo)
    return Unfit("something in it is not as a recommender has it", "save it again")
