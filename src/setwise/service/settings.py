"""One table of settings: name, default, bounds and help.

The command line options, the environment variables, the table in the documentation and every limit that the service
enforces come from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from setwise._validation import available_cores, whole_number
from setwise.errors import InvalidInput

PREFIX = "SETWISE_"  # of the environment variables


def _setting(default: int, least: int, most: int, help_: str) -> Any:
    return field(default=default, metadata={"least": least, "most": most, "help": help_})


@dataclass(frozen=True)
class Settings:
    """The limits of the service; all are whole numbers."""

    body_bytes: int = _setting(1 << 20, 1 << 10, 1 << 30, "The most bytes of a request's body; more is answered 413.")
    body_ms: int = _setting(10_000, 10, 600_000, "Milliseconds that a body may take to arrive; then 408.")
    bodies_bytes: int = _setting(
        3 << 23, 1 << 10, 1 << 40, "The most bytes of all bodies that are being read, beyond 16 KiB of each; then 503."
    )
    head_bytes: int = _setting(1 << 14, 1 << 10, 1 << 20, "The most bytes of URL and headers; more is answered 431.")
    head_ms: int = _setting(10_000, 10, 600_000, "Milliseconds that a request's head may take to arrive; then 408.")
    headers: int = _setting(100, 4, 10_000, "The most headers of a request; more is answered 431.")
    idle_ms: int = _setting(75_000, 10, 3_600_000, "Milliseconds until a connection without a request is closed.")
    unread_ms: int = _setting(
        30_000, 10, 600_000, "Milliseconds until a connection is closed whose client does not read its responses."
    )
    connections: int = _setting(512, 1, 1 << 20, "The most open connections; the next one is answered 503.")
    connections_per_address: int = _setting(
        256, 1, 1 << 20, "The most open connections of one client address; the next one is answered 503."
    )
    candidates: int = _setting(2000, 1, 1_000_000, "The most candidates of a list that is re-ranked.")
    k: int = _setting(100, 1, 10_000, "The most items in a slate.")
    slow_k: int = _setting(
        20, 1, 10_000, "The most items in a slate by beam search, and in an explanation, which compares with it."
    )
    page_k: int = _setting(10, 1, 10_000, "Items in the slate that the page shows first; at most 20 on the page.")
    history: int = _setting(1000, 1, 100_000, "The most ids in a history.")
    exclude: int = _setting(10_000, 1, 1_000_000, "The most ids in a list of exclusions.")
    batch: int = _setting(256, 1, 10_000, "The most requests in one batch.")
    queue: int = _setting(128, 1, 100_000, "The most requests in the queue; the next one is answered 503.")
    deadline_ms: int = _setting(2000, 10, 600_000, "Milliseconds until a request in the queue is answered 504.")
    budget_ms: int = _setting(
        0, 0, 600_000, "Milliseconds to compute a slate in, where a request names none; 0 for none, as in Python."
    )
    workers: int = _setting(0, 0, 256, "Worker processes, each with one request or group at a time; 0 for one a core.")
    micro_batch: int = _setting(4, 1, 256, "Queued requests that differ only in the user and share a retrieval pass.")
    grace_ms: int = _setting(3000, 10, 600_000, "Milliseconds after a deadline until a worker still at it is replaced.")
    heartbeat_ms: int = _setting(
        1000,
        10,
        600_000,
        "Milliseconds between pings. A worker that does not answer is killed after one interval if it is suspended "
        "(SIGSTOP), else after five.",
    )
    start_ms: int = _setting(300_000, 100, 3_600_000, "Milliseconds that a worker may take to open the artifact.")
    outcomes: int = _setting(10_000, 1, 1_000_000, "The most outcomes in one request.")
    explore_permille: int = _setting(
        0, 0, 1000, "Of 1000 logged slates, so many have one item exchanged at random (see the log's propensities)."
    )
    log_wait_h: int = _setting(24, 0, 8760, "Hours until a logged slate without outcomes counts as one without hits.")
    log_weeks: int = _setting(0, 0, 10_000, "Weeks of the log that are kept; 0 for all.")
    drain_ms: int = _setting(10_000, 10, 600_000, "Milliseconds after SIGTERM to answer what was accepted.")

    def __post_init__(self) -> None:
        for row in table():
            number = whole_number(row.name, getattr(self, row.name), row.least)
            if number > row.most:
                raise InvalidInput(row.name, f"at most {row.most}", number, "choose a smaller one")

    @property
    def worker_count(self) -> int:
        """The number of worker processes."""
        return self.workers or available_cores()


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    default: int
    least: int
    most: int
    help: str

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        """The command line option."""
        return "--" + self.name.replace("_", "-")


def table() -> Iterator[Setting]:
    """Every setting, in the order of the table."""
    for one in fields(Settings):
        yield Setting(one.name, one.default, **{"least": 0, "most": 0, "help": ""} | dict(one.metadata))  # type: ignore[arg-type]
