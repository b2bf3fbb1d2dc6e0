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
    429: "More requests a second than the key allows: see Retry-After.",
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


# --- the request ---


def bad_request(reason: str) -> HttpError:
    """Bytes that are not a valid HTTP request."""
    return HttpError(400, "bad_request", f"The request must be valid HTTP/1.1: {reason}.", _CLOSE)


def malformed(reason: str) -> HttpError:
    """A body that is not JSON of the right form."""
    return HttpError(400, "malformed", f"The body must be JSON as /docs describes it: {reason}.")


def incomplete_body() -> HttpError:
    """A client that disconnected before the end of its body."""
    return HttpError(400, "incomplete", "The body must be complete, got a part of it; send it again.")


def client_gone() -> HttpError:
    """A client that disconnected before the response, which is not sent."""
    return HttpError(400, "disconnected", "The client disconnected before its request was answered.")


def unauthorized() -> HttpError:
    """A missing or wrong API key."""
    todo = "send the header Authorization: Bearer KEY"
    message = f"The API key must be the one the service was started with, got none or another; {todo}."
    return HttpError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})


def foreign_origin() -> HttpError:
    """A browser says that the page of another site sent the request."""
    todo = "a proxy in front must pass the Host header on"
    return HttpError(403, "foreign", f"The request must come from this service's own page, got another site's; {todo}.")


def needs_key() -> HttpError:
    """A route that a service without an API key does not offer."""
    todo = "start the service with --api-key, or send its process SIGHUP"
    return HttpError(
        403, "needs_key", f"Reload over HTTP must be protected by an API key, got a service without; {todo}."
    )


def read_only() -> HttpError:
    """A read key for a route that changes something."""
    return HttpError(
        403, "read_only", "This route must be used with the full API key, got the read key; use the other."
    )


def too_many_requests(rate: int, seconds: int) -> HttpError:
    """More requests with one key than its rate."""
    message = f"A key must send at most {rate} requests a second, got more; try again in {seconds} s."
    return HttpError(429, "rate", message, {"Retry-After": str(seconds)})


def not_found() -> HttpError:
    """No route has this path."""
    return HttpError(404, "not_found", "The address must be one that /docs lists, got another; look there.")


def no_log() -> HttpError:
    """Outcomes for a service that does not log slates."""
    message = "Outcomes must be sent to a service with a log of slates, got one without; start it with --log DIR."
    return HttpError(404, "no_log", message)


def wrong_method(allowed: str) -> HttpError:
    """The route has another method."""
    message = "The method must be one that /docs lists for this address, got another; look there."
    return HttpError(405, "method", message, {"Allow": allowed})


def slow_head(milliseconds: int) -> HttpError:
    """A head that took too long to arrive."""
    message = f"The URL and headers must arrive within {milliseconds} ms, got a part of them; send them faster."
    return HttpError(408, "too_slow", message, _CLOSE)


def slow_body(milliseconds: int) -> HttpError:
    """A body that took too long to arrive."""
    message = f"The body must arrive within {milliseconds} ms, got a part of it; send it faster."
    return HttpError(408, "too_slow", message, _CLOSE)


def large_body(limit: int) -> HttpError:
    """More bytes than a body may have."""
    message = f"The body must have at most {limit} bytes, got more; send a smaller one."
    return HttpError(413, "too_large", message, _CLOSE)


def unknown_host() -> HttpError:
    """A Host header that names another service: the sign of DNS rebinding."""
    todo = "use the address of the service, or start it with --allow-host NAME"
    return HttpError(421, "unknown_host", f"The Host header must name this service, got another; {todo}.")


def large_head(bytes_: int, headers: int) -> HttpError:
    """More bytes or headers than a head may have."""
    message = f"URL and headers must have at most {bytes_} bytes and {headers} headers, got more; send fewer."
    return HttpError(431, "too_large", message, _CLOSE)


# --- the service ---


def internal_error() -> HttpError:
    """A defect of the service."""
    return HttpError(500, "internal", "The service failed here; the operator's log has the details.")


def busy(seconds: int) -> HttpError:
    """The queue is full."""
    message = f"The service is busy; try again in {seconds} second{'s' if seconds > 1 else ''}."
    return HttpError(503, "busy", message, {"Retry-After": str(seconds)})


def bodies_full() -> HttpError:
    """The bodies of other requests use all the memory that is set aside for them."""
    message = "The service is reading too many large bodies; try again in 1 second."
    return HttpError(503, "busy", message, {"Retry-After": "1", **_CLOSE})


def too_many_connections() -> HttpError:
    """The client address, or the service, has as many connections as are allowed."""
    message = "Too many connections are open; close some, and try again in 1 second."
    return HttpError(503, "connections", message, {"Retry-After": "1", **_CLOSE})


def log_unavailable() -> HttpError:
    """The log of slates and outcomes cannot be written: the disk may be full."""
    message = "The outcomes could not be stored; send them again in 5 seconds. The operator's log has the details."
    return HttpError(503, "log_unavailable", message, {"Retry-After": "5"})


def not_ready() -> HttpError:
    """Every worker has ended, and none has been replaced yet."""
    return HttpError(503, "not_ready", "No worker is ready; try again in 1 second.", {"Retry-After": "1"})


def worker_lost() -> HttpError:
    """The worker that computed the request ended or hung, and so did the one it was retried on."""
    message = "The worker that computed this request failed; try again in 1 second."
    return HttpError(503, "worker_lost", message, {"Retry-After": "1"})


def shutting_down() -> HttpError:
    """The service ends before the request could be answered."""
    return HttpError(
        503, "shutting_down", "The service is shutting down; send the request again.", {"Retry-After": "1"}
    )


def deadline_exceeded(milliseconds: int) -> HttpError:
    """The deadline of a request has passed."""
    return HttpError(
        504, "deadline", f"The request was not answered within its deadline of {milliseconds} ms; try again."
    )


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
