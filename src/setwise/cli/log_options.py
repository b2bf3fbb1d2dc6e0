"""Options of the commands that read the log of a service: ``train log`` and ``evaluate --log``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

HOUR_S = 3600.0
WAIT_H = 24.0  # by default a slate counts after so many hours

Log = Annotated[Path | None, typer.Option("--log", help="Compare prediction and outcome in a log of setwise serve.")]
Model = Annotated[Path | None, typer.Option("--model", help="The model that was served, to recalibrate or to replace.")]
LogHistories = Annotated[
    Path | None,
    typer.Option("--log-histories", help=r'Histories by key, lines of {"key": text, "history": \[id, …]}.'),
]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Hours that a slate has for its outcomes before it counts.")]


def settled_before(wait_h: float) -> float:
    """Slates made before this time count: a slate that is younger may still get its outcomes."""
    return time.time() - HOUR_S * wait_h
