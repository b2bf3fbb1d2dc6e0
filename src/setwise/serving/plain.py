"""Answers without a framework: a body or a refusal, straight to the server.

The route that everybody takes goes this way, and so do refusals at the door: a slate is computed with the caches full
of the catalogue, so that what a framework adds is fetched from memory anew for every request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from setwise.serving.logs import log, where_it_failed
from setwise.serving.refusals import Refusal, accident

JSON = "application/json"


class Plain:
    """An ASGI application of one route: ``answer`` makes the body, or raises a refusal."""

    def __init__(self, answer: Callable[[Any, Any], Awaitable[bytes]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self._answer(scope, receive)
        except Refusal as refusal:
            await refused(refusal, send)
        except Exception as error:
            log().error("request failed", **where_it_failed(error))
            await refused(accident(), send)
        else:
            await _said(200, body, {}, send)


async def refused(refusal: Refusal, send: Any) -> None:
    """Send a refusal."""
    await _said(refusal.status, refusal.body(), refusal.headers, send)


async def _said(status: int, body: bytes, others: Mapping[str, str], send: Any) -> None:
    headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
    headers += [(name.lower().encode(), value.encode()) for name, value in others.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
