"""Standard error as a stream that loses what it cannot write: its disk may be full, or its pipe without a reader.

Progress and logs go there. No training, request or command ends for a line of them.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TextIO, cast


class _File(io.FileIO):
    """A file that takes all that it is given, and loses what the system refuses."""

    def write(self, data: object) -> int:
        """Write, without an error: nothing stays in a buffer, where it would fail again at the end of the process."""
        with suppress(OSError):
            return super().write(data)  # type: ignore[arg-type]
        return memoryview(data).nbytes  # type: ignore[arg-type]


def standard_error() -> TextIO:
    """The standard error of the moment, or nowhere if it is closed. That of a notebook is returned as it is."""
    stream = sys.stderr
    if stream is None:
        return _nowhere()
    if isinstance(stream, io.TextIOWrapper):
        with suppress(OSError, ValueError):  # it has no file
            return _text(_File(stream.fileno(), "w", closefd=False), stream.encoding)
    return stream


@cache
def _nowhere() -> TextIO:
    return _text(_File(os.open(os.devnull, os.O_WRONLY), "w", closefd=False), "utf-8")


def _text(file: _File, encoding: str) -> TextIO:
    return io.TextIOWrapper(cast(io.BufferedWriter, file), encoding, "backslashreplace", write_through=True)


def say(line: str) -> None:
    """Print a line to standard error."""
    stream = standard_error()
    with suppress(OSError, ValueError):  # of a stream that is no file
        stream.write(f"{line}\n")  # in one piece: other processes write there too
        stream.flush()


def is_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def lasting_streams() -> Iterator[None]:
    """A block in which standard error loses lines rather than to fail, and standard output has a form for each letter.

    A letter that the encoding of standard output lacks is written as its number.
    """
    _occupy_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    former, sys.stderr = sys.stderr, standard_error()
    try:
        yield
    finally:
        sys.stderr = former


def _occupy_closed() -> None:
    """Open what is closed of the numbers 0, 1, 2: the event loop of the service aborts when it closes one of them.

    A socket or a file of data with such a number would also take what other programs write there.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
