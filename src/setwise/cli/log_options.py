"""Options of the commands that read the log of a service: ``train --from-log`` and ``evaluate --log``."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from setwise.errors import InvalidInput

HOUR_S = 3600.0
WAIT_H = 24.0  # by default a slate counts after so many hours

FromLog = Annotated[
    Path | None, typer.Option("--from-log", help="Train on the log of setwise serve --log, in place of FILE.")
]
Log = Annotated[Path | None, typer.Option("--log", help="Compare prediction and outcome in a log of setwise serve.")]
Model = Annotated[
    Path | None, typer.Option("--model", help="Log: the model that was served, to recalibrate or to replace.")
]
LogHistories = Annotated[
    Path | None,
    typer.Option("--log-histories", help=r'Log: histories by key, lines of {"key": text, "history": \[id, …]}.'),
]
Wait = Annotated[
    float, typer.Option("--wait", min=0, help="Log: hours that a slate has for its outcomes before it counts.")
]


def settled_before(wait_h: float) -> float:
    """Slates made before this time count: a slate that is younger may still get its outcomes."""
    return time.time() - HOUR_S * wait_h


def require_fitting(context: typer.Context, log: str, beside: Collection[str], with_log: Collection[str]) -> None:
    """Refuse options that would be ignored: beside the option ``log`` all but ``beside``, without it ``with_log``.

    ``log``, ``beside`` and ``with_log`` are parameters of the command.
    """
    given = {one.name: one for one in context.command.params if _is_given(context, one.name or "")}
    ignored = set(given) - {log, *beside} if log in given else set(given) & set(with_log)
    if ignored:
        first = min(ignored)
        option = str(given[first].opts[0]) if given[first].opts[0].startswith("-") else first.upper()
        name = f"--{log.replace('_', '-')}"
        must, todo = f"given with {name} only", f"leave it out, or add {name} DIR"
        if log in given:
            must, todo = f"left out beside {name}", "leave out one of the two"
        raise InvalidInput(option, must, context.params[first], todo)


def _is_given(context: typer.Context, parameter: str) -> bool:
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"
