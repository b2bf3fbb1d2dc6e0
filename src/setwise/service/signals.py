"""What signals do while the service starts and while it ends. In between the server handles them (server.py).

While it starts, SIGHUP is noted, as without a handler it would end the process, and SIGTERM cancels the start. While it
ends, SIGTERM and SIGINT are ignored: a further one would interrupt the writing of outcomes.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Signals:
    """What has arrived. Only the main thread can handle signals; in another one nothing arrives."""

    def __init__(self) -> None:
        self.reload_asked = threading.Event()
        self.end_asked = False

    def _handle(self, number: int, handler: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, handler)

    def starting(self) -> None:
        """Note SIGHUP, and let SIGTERM cancel this task."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def end(*_: object) -> None:
            if not self.end_asked:
                self.end_asked = True
                loop.call_soon_threadsafe(task.cancel)

        self._handle(signal.SIGHUP, lambda *_: self.reload_asked.set())
        self._handle(signal.SIGTERM, end)

    def ending(self) -> None:
        """Ignore SIGTERM and SIGINT from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._handle(number, signal.SIG_IGN)


@contextmanager
def noted_signals() -> Iterator[Signals]:
    """Signals whose handlers are restored afterwards."""
    signals = Signals()
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signals._handle(number, handler)
