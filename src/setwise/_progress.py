"""A progress bar on standard error for long operations; shown on a terminal only, unless requested."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self


class Progress:
    """``with Progress("building", total) as bar: … bar.advance(n)``; ``show=None`` shows it on a terminal only."""

    def __init__(self, title: str, total: int, show: bool | None = None) -> None:
        self._title, self._total = title, total
        self._show = sys.stderr.isatty() if show is None else show
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self._show:
            import rich.progress
            from rich.console import Console

            self._bar = rich.progress.Progress(console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total)
        return self

    def advance(self, done: int, note: str | None = None) -> None:
        """Count ``done`` more items as finished; ``note`` is shown beside the title."""
        if self._bar is not None:
            self._bar.update(self._task, advance=done, description=f"{self._title}: {note}" if note else self._title)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
