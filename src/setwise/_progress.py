"""Progress of long operations on standard error: a bar on a terminal, and a line now and then elsewhere.

Where standard error is a file or a pipe, nothing is printed for the first ``QUIET`` seconds, so that short operations
stay silent; then one line at most every ``BETWEEN`` seconds.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from setwise._standard_error import is_terminal, say, standard_error

QUIET, BETWEEN = 2.0, 10.0  # seconds


class Progress:
    """``with Progress("building", total) as bar: … bar.advance(n)``.

    ``show=True`` shows the bar, False nothing; None shows the bar on a terminal and lines elsewhere.
    """

    def __init__(self, title: str, total: int, show: bool | None = None) -> None:
        self._title, self._total, self._done = title, total, 0
        self._show = is_terminal() if show is None else show
        self._lines = show is None and not self._show
        self._next = time.monotonic() + QUIET  # when the next line may be printed
        self._printed = False
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self._show:
            import rich.progress
            from rich.console import Console

            self._bar = rich.progress.Progress(console=Console(file=standard_error()))
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total)
        return self

    def advance(self, done: int, note: str | None = None) -> None:
        """Count ``done`` more items as finished; ``note`` is shown beside the title."""
        self._done += done
        if self._bar is not None:
            self._bar.update(self._task, advance=done, description=f"{self._title}: {note}" if note else self._title)
        elif self._lines and time.monotonic() >= self._next:
            self._print(f"{self._done / max(self._total, 1):.0%}" + (f", {note}" if note else ""))
            self._next = time.monotonic() + BETWEEN

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._printed and kind is None:
            self._print("done")

    def _print(self, text: str) -> None:
        self._printed = True
        say(f"{self._title}: {text}")
