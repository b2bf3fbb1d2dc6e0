"""Progress and messages where standard error is closed, full or without a reader: the work goes on."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

import processes
from setwise import _progress
from setwise._progress import Progress
from setwise._standard_error import lasting_streams, say, standard_error


def full() -> TextIO:
    return Path("/dev/full").open("w", buffering=1)


def without_a_reader() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w", buffering=1)


@pytest.fixture(params=[full, without_a_reader, lambda: None], ids=["full", "no-reader", "closed"])
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A standard error that takes nothing."""
    if request.param is full and not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    stream = request.param()
    monkeypatch.setattr(sys, "stderr", stream)
    yield
    if stream is not None:
        stream.close()  # fails if a line is left in its buffer


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("show", [None, True])
def test_progress(show: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "QUIET", 0.0)
    with Progress("building", 3, show) as bar:
        for _ in range(3):
            bar.advance(1)


@pytest.mark.usefixtures("broken")
def test_a_line() -> None:
    say("a line")
    with lasting_streams():
        print("a line", file=sys.stderr)


def test_what_can_be_written_is(capfd: pytest.CaptureFixture[str]) -> None:
    say("a line")
    with lasting_streams():
        print("another", file=sys.stderr)
    assert capfd.readouterr().err == "a line\nanother\n"


def test_a_stream_of_another_kind_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = io.StringIO()
    monkeypatch.setattr(sys, "stderr", notebook)
    say("a line")
    assert standard_error() is notebook
    assert notebook.getvalue() == "a line\n"


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_a_mistake_has_its_status(tmp_path: Path, closed: str) -> None:
    command = f"{sys.executable} -m setwise verify missing.json --catalog missing {closed}"
    assert processes.run(["/bin/sh", "-c", command], cwd=tmp_path).returncode == 2


def test_letters_that_the_encoding_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    with lasting_streams():
        print("1 ± 2")
    assert written.getvalue() == b"1 \\xb1 2\n"


def test_closed_streams_leave_their_numbers_to_no_file(tmp_path: Path) -> None:
    """The event loop of the service aborted at its end: one of its pipes had the number of a closed stream."""
    program = (
        "import os; from setwise._standard_error import lasting_streams\n"
        f"with lasting_streams(): os.write(os.open({str(tmp_path / 'number')!r}, 65, 0o600), b'%d' % os.dup(0))"
    )
    command = [sys.executable, "-c", program]
    processes.run(["/bin/sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command], check=True)
    assert int((tmp_path / "number").read_text()) > 3
