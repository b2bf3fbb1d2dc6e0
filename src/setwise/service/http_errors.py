"""HTTP errors: a status, a code for programs and one sentence for people.

No error names a path of the server or shows a traceback. Messages of the library are passed on: they name the
parameter, what it must be and what came. Control characters in them are escaped, so that a message can be logged and
shown on a terminal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from setwise._validation import escaped
from setwise.errors import (
    DamagedArtifact,
    Infeasible,
    InvalidInput,
    SetwiseError,
    ShardUnavailable,
    StartTimeout,
    TooLarge,
    UnknownId,
)

JSON = "application/json"
LONGEST = 400  # characters of a message: it may quote a value of a megabyte
_CLOSE = {"Connection": "close"}  # the rest of the body is not read

REASONS = {  # what each status means, for the OpenAPI document
    400: "The body is not JSON of this form, or the request is not valid HTTP.",
    401: "The API key is missing or wrong.",
    403: "The page of another site sent this, the key is a read key, or the route needs a service with an API key.",
    408: "The body or the head took too long to arrive.",
    404: "The service has no log of slates.",
    409: "A reload is in progress.",
    413: "The body is too large.",
    421: "The Host header names a host that this service does not serve.",
    422: "A value of the request is not valid.",
    431: "The URL and headers are too large.",
    503: "The service is busy, or no worker is ready: see Retry-After.",
    504: "The deadline was exceeded.",
}


@dataclass(eq=False)
class HttpError(Exception):
    """Raised where a request cannot be answered with status 200."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def as_dict(self) -> dict[str, dict[str, str]]:
        """The body, before encoding."""
        shown = escaped(self.message[: LONGEST + 1])
        shown = shown if len(shown) <= LONGEST else shown[:LONGEST] + "…"
        return {"error": {"code": self.code, "message": shown}}

    def body(self) -> bytes:
        """The body, encoded."""
        return msgspec.json.encode(self.as_dict())


_CODES: dict[type[SetwiseError], tuple[int, str]] = {  # the first that matches
    UnknownId: (422, "unknown_id"),
    Infeasible: (422, "infeasible"),
    InvalidInput: (422, "invalid"),
    TooLarge: (422, "too_large"),
    ShardUnavailable: (503, "shard_unavailable"),
}


def from_error(error: SetwiseError) -> HttpError:
    """The HTTP error for an error of the library."""
    for kind, (status, code) in _CODES.items():
        if isinstance(error, kind):
            return HttpError(status, code, str(error), {"Retry-After": "1"} if status == 503 else {})
    return HttpError(500, "internal", "The service could not compute this; the operator's log has the details.")


@dataclass(frozen=True)
class Kind:
    """A kind of error: called with the values of its message and headers, it makes one."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *values: object) -> HttpError:
        headers = {name: value.format(*values) for name, value in self.headers.items()}
        return HttpError(self.status, self.code, self.message.format(*values), headers)


_SOON = {"Retry-After": "1"}

# --- the request ---

bad_request = Kind(400, "bad_request", "The request must be valid HTTP/1.1: {}.", _CLOSE)
malformed = Kind(400, "malformed", "The body must be JSON as /docs describes it: {}.")
incomplete_body = Kind(400, "incomplete", "The body must be complete, got a part of it; send it again.")
client_gone = Kind(400, "disconnected", "The client disconnected before its request was answered.")  # not sent
unauthorized = Kind(
    401,
    "unauthorized",
    "The API key must be the one the service was started with, got none or another; send the header Authorization: "
    "Bearer KEY.",
    {"WWW-Authenticate": "Bearer"},
)
foreign_origin = Kind(
    403,
    "foreign",
    "The request must come from this service's own page, got another site's; a proxy in front must pass the Host "
    "header on.",
)
needs_key = Kind(
    403,
    "needs_key",
    "Reload over HTTP must be protected by an API key, got a service without; start the service with --api-key, or "
    "send its process SIGHUP.",
)
read_only = Kind(403, "read_only", "This route must be used with the full API key, got the read key; use the other.")
not_found = Kind(404, "not_found", "The address must be one that /docs lists, got another; look there.")
no_log = Kind(
    404,
    "no_log",
    "Outcomes must be sent to a service with a log of slates, got one without; start it with --log DIR.",
)
wrong_method = Kind(
    405, "method", "The method must be one that /docs lists for this address, got another; look there.", {"Allow": "{}"}
)
slow_head = Kind(
    408, "too_slow", "The URL and headers must arrive within {} ms, got a part of them; send them faster.", _CLOSE
)
slow_body = Kind(408, "too_slow", "The body must arrive within {} ms, got a part of it; send it faster.", _CLOSE)
large_body = Kind(413, "too_large", "The body must have at most {} bytes, got more; send a smaller one.", _CLOSE)
unknown_host = Kind(  # the sign of DNS rebinding
    421,
    "unknown_host",
    "The Host header must name this service, got another; use the address of the service, or start it with "
    "--allow-host NAME.",
)
large_head = Kind(
    431, "too_large", "URL and headers must have at most {} bytes and {} headers, got more; send fewer.", _CLOSE
)

# --- the service ---

internal_error = Kind(500, "internal", "The service failed here; the operator's log has the details.")
bodies_full = Kind(
    503, "busy", "The service is reading too many large bodies; try again in 1 second.", {**_SOON, **_CLOSE}
)
too_many_connections = Kind(
    503,
    "connections",
    "Too many connections are open; close some, and try again in 1 second.",
    {**_SOON, **_CLOSE},
)
log_unavailable = Kind(  # the disk may be full
    503,
    "log_unavailable",
    "The outcomes could not be stored; send them again in 5 seconds. The operator's log has the details.",
    {"Retry-After": "5"},
)
not_ready = Kind(503, "not_ready", "No worker is ready; try again in 1 second.", _SOON)
worker_lost = Kind(  # the second one too
    503, "worker_lost", "The worker that computed this request failed; try again in 1 second.", _SOON
)
shutting_down = Kind(503, "shutting_down", "The service is shutting down; send the request again.", _SOON)
deadline_exceeded = Kind(504, "deadline", "The request was not answered within its deadline of {} ms; try again.")


def busy(seconds: int) -> HttpError:
    """The queue is full."""
    message = f"The service is busy; try again in {seconds} second{'s' if seconds > 1 else ''}."
    return HttpError(503, "busy", message, {"Retry-After": str(seconds)})


def reload_failed(error: Exception) -> HttpError:
    """A reload that failed: the artifact was refused, the disk failed, or a worker did not open it in time."""
    if isinstance(error, StartTimeout):
        message = (
            f"A worker did not open the new artifact within {error.start_ms} ms; the old one is still served. "
            "Try again, or restart with a larger --start-ms."
        )
        return HttpError(503, "start_timeout", message, {"Retry-After": "5"})
    if isinstance(error, OSError) and error.errno is not None:
        message = (
            f"The new artifact could not be copied or read ({os.strerror(error.errno)}); the old one is still served. "
            "Make room in the folder for temporary files, or check the disk, and try again."
        )
        return HttpError(503, "disk", message, {"Retry-After": "5"})
    reason = error.reason if isinstance(error, DamagedArtifact) else "it is not a saved recommender or index"
    message = f"The new artifact was refused ({reason}); the old one is still served."
    return HttpError(422, "bad_artifact", message)
