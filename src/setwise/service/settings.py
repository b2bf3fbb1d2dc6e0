"""One table of settings: name, default, bounds and help.

The options of the command line, the variables of the environment, the table in the documentation and every limit that
the service keeps come from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from setwise._validation import available_cores, whole_number
from setwise.errors import InvalidInput

PREFIX = "SETWISE_"  # of the variables in the environment


def _setting(default: int, least: int, most: int, help_: str) -> Any:
    return field(default=default, metadata={"least": least, "most": most, "help": help_})


@dataclass(frozen=True)
class Settings:
    """What the service allows itself and others; whole numbers all."""

    body_bytes: int = _setting(1 << 20, 1 << 10, 1 << 30, "The most bytes of a request's body.")
    body_ms: int = _setting(10_000, 10, 600_000, "Milliseconds that a body may take to arrive.")
    k: int = _setting(100, 1, 10_000, "The most items in a slate.")
    slow_k: int = _setting(
        20, 1, 10_000, "The most items in a slate by beam search, and in an explanation, which compares with it."
    )
    history: int = _setting(1000, 1, 100_000, "The most ids in a history.")
    exclude: int = _setting(10_000, 1, 1_000_000, "The most ids in a list of exclusions.")
    batch: int = _setting(256, 1, 10_000, "The most requests in one batch.")
    queue: int = _setting(64, 1, 100_000, "Requests that wait to be computed; the next one is answered 503.")
    deadline_ms: int = _setting(2000, 10, 600_000, "Milliseconds until a request that still waits is answered 504.")
    budget_ms: int = _setting(100, 1, 600_000, "Milliseconds to compute a slate in, where a request names none.")
    workers: int = _setting(0, 0, 256, "Processes that compute, one request or group each; 0 for one a core.")
    micro_batch: int = _setting(4, 1, 256, "Waiting requests of one kind that share a retrieval pass.")
    awake_ms: int = _setting(2, 0, 1000, "Milliseconds that a process looks out for the next request before it sleeps.")

    def __post_init__(self) -> None:
        for row in table():
            number = whole_number(row.name, getattr(self, row.name), row.least)
            if number > row.most:
                raise InvalidInput(row.name, f"at most {row.most}", number, "choose a smaller one")

    @property
    def crew(self) -> int:
        """How many processes that makes."""
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
        """Its name in the environment."""
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")


def table() -> Iterator[Setting]:
    """Every setting, in the order of the table."""
    for one in fields(Settings):
        yield Setting(one.name, one.default, **{"least": 0, "most": 0, "help": ""} | dict(one.metadata))  # type: ignore[arg-type]
