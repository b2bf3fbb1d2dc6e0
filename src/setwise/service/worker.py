"""A worker process: it opens one artifact and computes tasks until its parent closes the connection.

Messages in both directions have a length before them. To the worker: a JSON list of tasks, or an empty message, a ping.
From the worker: an empty message as soon as a message has arrived, then one msgpack ``Reply`` for each task. An idle
worker that does not acknowledge hangs, and the parent replaces it.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from setwise.errors import DamagedArtifact, InvalidInput, MissingDependency, ShardUnavailable
from setwise.recommend.memory import keep_much
from setwise.service.handlers import Handlers, Reply, TaskMessage
from setwise.service.http_errors import internal_error
from setwise.service.logs import configure_logs, error_place, log
from setwise.service.schemas import Info
from setwise.service.served import Served, ServedArtifact
from setwise.service.served_cluster import Cluster
from setwise.service.served_lists import ListsOnly
from setwise.service.settings import Settings

NICE = 5  # workers yield to the event loop where cores are scarce, so that shedding stays quick under load


class Opened(msgspec.Struct, tag=True):
    """The artifact is open; its description."""

    info: Info


class NotOpened(msgspec.Struct, tag=True):
    """Why an artifact cannot be served, and what to do."""

    reason: str
    todo: str


# Tasks are JSON, since ids may be whole numbers of any size; replies are msgpack, since most of them are bytes.
TASKS: msgspec.json.Decoder[list[TaskMessage]] = msgspec.json.Decoder(list[TaskMessage])
encode_reply = msgspec.msgpack.Encoder().encode


def run_worker(
    line: socket.socket, artifact: Path, version: str, settings: Settings, cluster: Cluster | ListsOnly | None = None
) -> None:
    """The target of the process."""
    ignore_signals()
    os.nice(NICE)
    configure_logs()
    keep_much()
    try:
        serve_tasks(Connection(line.detach()), artifact, version, settings, cluster)
    except (EOFError, OSError):  # the parent has closed the connection, or has ended
        return


def ignore_signals() -> None:
    """A supervisor may send them to all processes: the parent handles them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def serve_tasks(
    line: Connection, artifact: Path, version: str, settings: Settings, cluster: Cluster | ListsOnly | None = None
) -> None:
    """Open the artifact, or the front of a cluster, report its description or what is wrong, and compute tasks."""
    served: Served
    try:
        if cluster is None:
            served = ServedArtifact.open(artifact, version)
        else:
            served = cluster.open(artifact, version, settings)
            ignore_signals()  # Ray may have set its own handlers
        info = served.info(settings)
    except Exception as error:  # whatever is wrong with the files, only this process ends
        log().error("artifact refused", **error_place(error))
        line.send_bytes(encode_reply(_not_opened(error)))
        return
    line.send_bytes(encode_reply(Opened(info)))
    handlers = Handlers(served, settings)
    # Keep what is loaded out of garbage collection: a full collection would walk through it for 80 ms.
    gc.collect()
    gc.freeze()
    while True:
        message = line.recv_bytes()
        line.send_bytes(b"")
        if message:
            for reply in replies_to(handlers, TASKS.decode(message)):
                line.send_bytes(encode_reply(reply))


def replies_to(handlers: Handlers, tasks: Sequence[TaskMessage]) -> Iterator[Reply]:
    """A reply to each task, in their order. An exception fails its group, not the worker."""
    undone = len(tasks)
    try:
        for reply in handlers.replies(tasks):
            undone -= 1
            yield reply
    except Exception as error:
        log().error("request failed", **error_place(error))
        yield from [Reply(internal_error())] * undone


def _not_opened(error: Exception) -> NotOpened:
    if isinstance(error, DamagedArtifact):
        return NotOpened(error.reason, error.todo)
    if isinstance(error, ShardUnavailable):
        return NotOpened(f"shard {error.shard} did not answer ({error.reason})", "look at its host")
    if isinstance(error, MissingDependency | InvalidInput):  # the log has the details
        todo = "see whether it runs, and set RAY_AUTH_MODE=token if it asks for a token"
        return NotOpened("the cluster of Ray could not be joined", todo)
    return NotOpened("it is not a saved recommender or index", "save it again")
