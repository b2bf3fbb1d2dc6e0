"""Say when inner loops are being compiled: otherwise the first command after an installation is silent for minutes.

numba compiles a function at its first call and keeps the machine code, so this happens once. ``listen`` counts the time
that compilation takes, and calls ``say`` once when it exceeds ``PATIENCE``; ``say`` shows ``TEXT``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from setwise._standard_error import say as write
from setwise.kernels.cache import code_folder

PATIENCE = 2.0  # seconds of compilation that need no notice
ONCE = "compiling the inner loops, once after an installation; this takes some minutes"
EVERY_TIME = (
    "compiling the inner loops for some minutes; each process does so, as no folder for machine code can be written: "
    "set NUMBA_CACHE_DIR to one that can"
)
NOT_KEPT = (
    "the machine code of the inner loops cannot be kept, so that each process compiles for some minutes: make room in "
    "its folder, or set NUMBA_CACHE_DIR to one with room"
)
TEXT = EVERY_TIME if code_folder() is None else ONCE


def print_text() -> None:
    """Print what is being done to standard error."""
    write(f"setwise: {TEXT}")


say: Callable[[], None] | None = print_text


def listen() -> None:
    """Count the time of all compilation from now on. Importing kernels/options.py calls it."""
    from numba.core import event

    event.register("numba:compile", listener(lambda: None if say is None else say()))


def not_kept() -> None:
    """Say, once for a process, that code was compiled and could not be written."""
    global TEXT
    if TEXT != NOT_KEPT:
        TEXT = NOT_KEPT
        if say is not None:
            say()


def listener(announce: Callable[[], None]) -> Any:
    """A listener to numba's events of compilation, which calls ``announce`` at most once."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        """Compilation of a function contains that of the functions that it calls: only the outermost one is timed."""

        def __init__(self) -> None:
            self.depth, self.spent, self.began, self.said = 0, 0.0, 0.0, False

        def on_start(self, event: Any) -> None:
            """A function begins to be compiled."""
            if self.depth == 0:
                self.began = time.monotonic()
            self.depth += 1
            self._check()

        def on_end(self, event: Any) -> None:
            """A function is compiled, or could not be."""
            self._check()
            self.depth -= 1
            if self.depth == 0:
                self.spent += time.monotonic() - self.began

        def _check(self) -> None:
            if not self.said and self.spent + time.monotonic() - self.began > PATIENCE:
                self.said = True
                announce()

    return Listener()
