"""Join a cluster of Ray, with an error that says what is wrong: no Ray, no address, or no cluster there."""

from __future__ import annotations

import socket
from types import ModuleType

from setwise.errors import InvalidInput, MissingDependency

AUTO = "auto"  # the cluster of this machine, as Ray finds it
SECONDS = 5.0  # to reach the head of the cluster; Ray itself would try for minutes


def joined(address: str) -> ModuleType:
    """``cluster/actors.py`` of a process that has joined the cluster of Ray at ``address``."""
    try:
        from setwise.recommend.cluster import actors
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "a cluster", "ray") from None
    check_address(address)
    try:
        actors.connect(address)
    except (ConnectionError, ValueError, RuntimeError) as error:  # Ray's own message has many lines
        raise _not_joined(address, f"Ray could not join it, {type(error).__name__}") from error
    return actors


def check_address(address: str) -> None:
    """Refuse an address that is none, or where no process listens."""
    if address == AUTO:
        return
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 2**16:
        must = f"the address of a cluster of Ray, such as 10.0.0.1:6379, or {AUTO}"
        raise InvalidInput("cluster", must, repr(address), "use the one that setwise cluster up printed")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
    except OSError:
        raise _not_joined(address, "no process listens there") from None


def _not_joined(address: str, got: str) -> InvalidInput:
    todo = "start it with setwise cluster up or ray start, and set RAY_AUTH_MODE=token if it asks for a token"
    return InvalidInput("cluster", "the address of a running cluster of Ray", f"{address!r} ({got})", todo)
