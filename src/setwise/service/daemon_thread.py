"""Calls that may never return, such as those of a suspended process or a stalled disk, in threads of their own.

``asyncio.to_thread`` has a pool of threads, and the process waits for all of them before it ends. These are daemons.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")


async def in_daemon_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of the call; the process may end before it is there."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = loop.create_future()

    def settle(how: Callable[[Any], None], outcome: Any) -> None:
        if not answer.done():  # unless the caller was cancelled
            how(outcome)

    def call() -> None:
        how: Callable[[Any], None] = answer.set_result
        outcome: Any
        try:
            outcome = function(*arguments)
        except BaseException as error:
            how, outcome = answer.set_exception, error
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(settle, how, outcome)
        del outcome  # an error refers to this frame by its traceback

    threading.Thread(target=call, daemon=True).start()
    return await answer
