"""The door: every request passes it on its way in, every answer on its way out.

In: the API key, where one is set, for /v1 and /admin; no requests that another site's page makes a browser send. Out:
headers that keep a browser from loading or running anything of other origins, and a count by route and status. Behind
it are the routes of the framework, and the straight way to a slate.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from setwise.service import openapi
from setwise.service.bodies import dropped
from setwise.service.http_errors import JSON, Refusal
from setwise.service.metrics import Metrics
from setwise.service.queue import Tell

GUARDED = ("/v1/", "/admin/")
ROUTES = frozenset({"/", "/metrics", "/docs", "/docs/openapi.json", *(path for _, path, *_ in openapi.ROUTES)})
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Door:
    """Stands before the application, and before ``slate``, which goes straight: a body, and whom to tell."""

    def __init__(
        self,
        application: Any,
        slate: Callable[[bytes, Tell], None],
        longest_body: int,
        key: str | None,
        metrics: Metrics,
    ) -> None:
        self._application, self._slate, self.longest_body, self._metrics = application, slate, longest_body, metrics
        self._key = None if key is None else f"Bearer {key}".encode()

    def slate(self, scope: Any, body: bytes, tell: Tell) -> None:
        """Let a request for one slate in, or raise a refusal."""
        refusal = self._refused(scope["path"], dict(scope["headers"]))
        if refusal is not None:
            raise refusal
        self._slate(body, tell)

    def count(self, path: str, status: int) -> None:
        """Count an answer."""
        self._metrics.answered(_route(path), status)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path, headers = scope["path"], dict(scope["headers"])
        sent = self._marked(path, receive, send)
        refusal = self._refused(path, headers)
        if refusal is None:
            await self._application(scope, receive, sent)
        else:
            await _say(refusal, sent)

    def _marked(self, path: str, receive: Any, send: Any) -> Callable[[Any], Awaitable[None]]:
        """``send``, with our headers and a count; and what is left of too long a body is read before the end."""
        too_long = False

        async def sent(message: Any) -> None:
            nonlocal too_long
            if message["type"] == "http.response.start":
                too_long = message["status"] == 413
                message = message | {"headers": [*message["headers"], *RAW_HEADERS]}
                self.count(path, message["status"])
            elif too_long and not message.get("more_body", False):
                await send(message | {"more_body": True})
                await dropped(receive)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        return sent

    def _refused(self, path: str, headers: dict[bytes, bytes]) -> Refusal | None:
        if _is_foreign(headers):
            return Refusal(403, "foreign", "The request must come from this service's own page, got another site's.")
        if self._key is None or not path.startswith(GUARDED):
            return None
        if hmac.compare_digest(headers.get(b"authorization", b""), self._key):
            return None
        todo = "send the header Authorization: Bearer KEY"
        message = f"The API key must be the one the service was started with, got none or another; {todo}."
        return Refusal(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})


async def _say(refusal: Refusal, send: Any) -> None:
    body = refusal.body()
    headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body)), *refusal.raw_headers()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_foreign(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser says that the page of another site sends this."""
    origin = headers.get(b"origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc != headers.get(b"host", b"")
    except ValueError:
        return True


def _route(path: str) -> str:
    """What the metrics call a path: one of ours, or nothing that a stranger could choose."""
    return path if path in ROUTES else "/page" if path.startswith("/page/") else "other"
