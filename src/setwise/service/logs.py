"""Structured logs: one JSON object a line, on standard error. What users sent is never in them."""

from __future__ import annotations

import logging
import sys

import structlog


def configured() -> None:
    """Send all logs, ours and the server's, to standard error as JSON."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, structlog.processors.JSONRenderer()],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
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
    server.setLevel(logging.WARNING)


def log() -> structlog.typing.FilteringBoundLogger:
    """The service's log."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger


def where_it_failed(error: BaseException) -> dict[str, str]:
    """The kind of an error and the line that raised it: its text may hold what a user sent, so it stays out."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return {"error": type(error).__name__, "place": place}
