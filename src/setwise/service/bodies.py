"""The body of a request, read within limits: so many bytes, so much time, and nothing beyond them is kept."""

from __future__ import annotations

import asyncio
from typing import Any

from setwise.service.http_errors import Refusal, too_large, too_slow
from setwise.service.settings import Settings

LINGER_S = 2.0  # after a refusal, how long the rest of a body is read and dropped so that the refusal is seen


async def whole(scope: Any, receive: Any, settings: Settings) -> bytes:
    """The whole body, or a refusal as soon as it is known to be too long or too slow."""
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if int(announced) > settings.body_bytes:  # the server has checked that it is a number
        raise too_large(settings.body_bytes)
    try:
        async with asyncio.timeout(settings.body_ms / 1000):
            return await _read(receive, settings.body_bytes)
    except TimeoutError:
        raise too_slow(settings.body_ms) from None


async def _read(receive: Any, most: int) -> bytes:
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Refusal(400, "cut_short", "The body must be whole, got a part of it; send it again.")
        piece: bytes = event.get("body", b"")
        size += len(piece)
        if size > most:
            raise too_large(most)
        pieces.append(piece)
        more = event.get("more_body", False)
    return b"".join(pieces)


async def dropped(receive: Any) -> None:
    """Read on and keep nothing, for a while: who closes at once takes its own answer back."""
    try:
        async with asyncio.timeout(LINGER_S):
            while (event := await receive())["type"] == "http.request" and event.get("more_body", False):
                pass
    except TimeoutError:
        return
