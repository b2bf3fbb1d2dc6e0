"""Structured logs: one JSON object a line, on standard error. They never hold what users sent."""

from __future__ import annotations

import logging
from typing import TextIO, cast

import structlog

from setwise._standard_error import say


class _Lines:
    """Standard error of the moment: it may be replaced."""

    def write(self, text: str) -> int:
        """Write a line, or lose it."""
        say(text.removesuffix("\n"))
        return len(text)

    def flush(self) -> None:
        """Nothing is kept."""


def configure_logs() -> None:
    """Send the logs of the service and of its HTTP server to standard error as JSON."""
    stamp, stream = structlog.processors.TimeStamper(fmt="iso", utc=True), _Lines()
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, structlog.processors.JSONRenderer()],
        logger_factory=lambda *_: structlog.WriteLogger(cast(TextIO, stream)),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.add_log_level,
                stamp,
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ]
        )
    )
    server = logging.getLogger("uvicorn")
    server.handlers, server.propagate = [handler], False
    server.setLevel(logging.ERROR)  # its warnings are one for each invalid request: a client could flood the log


def log() -> structlog.typing.FilteringBoundLogger:
    """The log of the service."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger


def error_place(error: BaseException) -> dict[str, str]:
    """The type of an error and the line that raised it. Its text is left out: it may hold what a user sent."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return {"error": type(error).__name__, "place": place}
