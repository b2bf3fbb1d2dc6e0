"""Structured logs: one JSON object a line, on standard error. They never hold what users sent."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog


class StandardError:
    """Standard error of the moment, which may refuse a line: its disk is full, or its pipe has no reader.

    Such a line is lost. No request and no thread of the service fails for it.
    """

    def write(self, text: str) -> int:
        """Write a text, or lose it."""
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed: ValueError; none at all: None
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Pass on what was written, as far as that is possible."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()


def configure_logs() -> None:
    """Send the logs of the service and of its HTTP server to standard error as JSON."""
    stamp, stream = structlog.processors.TimeStamper(fmt="iso", utc=True), StandardError()
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
