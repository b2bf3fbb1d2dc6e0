"""Refusals: every answer that is not what was asked for is a status, a code for programs and one sentence for people.

No refusal names a path or shows a traceback. Sentences of the library are passed on: they name the parameter, what it
must be and what came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from setwise.errors import DamagedArtifact, Infeasible, InvalidInput, SetwiseError, TooLarge, UnknownId

JSON = "application/json"
LONGEST = 400  # characters of a sentence: what came may be a megabyte
_CLOSE = {"Connection": "close"}  # the rest of the body is not waited for


@dataclass(eq=False)
class Refusal(Exception):
    """Raised wherever a request cannot be answered as asked."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def plain(self) -> dict[str, dict[str, str]]:
        """The body."""
        shown = self.message if len(self.message) <= LONGEST else self.message[:LONGEST] + "…"
        return {"error": {"code": self.code, "message": shown}}

    def body(self) -> bytes:
        """The body, encoded."""
        return msgspec.json.encode(self.plain())

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """Its headers, as a server has them."""
        return [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]


_CODES: dict[type[SetwiseError], tuple[int, str]] = {  # the first that fits
    UnknownId: (422, "unknown_id"),
    Infeasible: (422, "infeasible"),
    InvalidInput: (422, "invalid"),
    TooLarge: (422, "too_large"),
}


def from_error(error: SetwiseError) -> Refusal:
    """The refusal that an error of the library becomes."""
    for kind, (status, code) in _CODES.items():
        if isinstance(error, kind):
            return Refusal(status, code, str(error))
    return Refusal(500, "internal", "The service could not compute this; the operator's log says more.")


def busy(seconds: int) -> Refusal:
    """Too much waits already."""
    message = f"The service is busy; try again in {seconds} second{'s' if seconds > 1 else ''}."
    return Refusal(503, "busy", message, {"Retry-After": str(seconds)})


def not_ready() -> Refusal:
    """Every process that computes has died, and none has taken its place yet."""
    return Refusal(503, "not_ready", "Nobody is there to compute; try again in 1 second.", {"Retry-After": "1"})


def late(milliseconds: int) -> Refusal:
    """The deadline passed."""
    return Refusal(504, "deadline", f"The request waited {milliseconds} ms, its whole deadline; try again later.")


def too_large(limit: int) -> Refusal:
    """More bytes than a body may have."""
    message = f"The body must have at most {limit} bytes, got more; send a smaller one."
    return Refusal(413, "too_large", message, _CLOSE)


def too_slow(milliseconds: int) -> Refusal:
    """A body that took too long to arrive."""
    message = f"The body must arrive within {milliseconds} ms, got a part of it; send it faster."
    return Refusal(408, "too_slow", message, _CLOSE)


def accident() -> Refusal:
    """Our own mistake."""
    return Refusal(500, "internal", "The service failed here; the operator's log says more.")


def unreadable(reason: str) -> Refusal:
    """A body that is not JSON of the right form."""
    return Refusal(400, "malformed", f"The body must be JSON as /docs describes it: {reason}.")


def bad_artifact(error: Exception) -> Refusal:
    """An artifact that cannot be served in place of the old one."""
    reason = error.reason if isinstance(error, DamagedArtifact) else "something in it is not as a recommender has it"
    message = f"The new artifact was refused ({reason}); the old one is still served."
    return Refusal(422, "bad_artifact", message)
