"""Compilation that takes long is announced once; cached code and short compilation are not."""

from __future__ import annotations

import sys

import pytest
from numba.core import event

import processes
from setwise.kernels import compile_notice

COMPILE = "numba:compile"


def said(monkeypatch: pytest.MonkeyPatch, patience: float, times: int = 3) -> list[str]:
    """What a new listener says while functions are compiled that contain others."""
    words: list[str] = []
    monkeypatch.setattr(compile_notice, "PATIENCE", patience)
    with event.install_listener(COMPILE, compile_notice.listener(lambda: words.append(compile_notice.TEXT))):
        for _ in range(times):
            with event.trigger_event(COMPILE), event.trigger_event(COMPILE):
                pass
    return words


def test_long_compilation_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, patience=-1.0) == [compile_notice.TEXT]


def test_short_compilation_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, patience=3600.0) == []


@pytest.mark.nightly
def test_the_library_says_it_on_standard_error_by_itself() -> None:
    """A block of Python was silent for more than a minute."""
    code = "import numba; from setwise.kernels import compile_notice, options; compile_notice.PATIENCE = 0.0; "
    other = "compile_notice.say = lambda: print(compile_notice.TEXT); "
    text = compile_notice.TEXT
    for before, expected in (("", ("", f"setwise: {text}\n")), (other, (f"{text}\n", ""))):
        command = [sys.executable, "-c", f"{code}{before}numba.njit(lambda x: x + 1)(1)"]
        done = processes.run(command, check=True)
        assert (done.stdout, done.stderr) == expected
