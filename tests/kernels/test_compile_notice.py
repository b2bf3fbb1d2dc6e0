"""Compilation that takes long is announced once; cached code and short compilation are not."""

from __future__ import annotations

import pytest
from numba.core import event

from setwise.kernels import compile_notice, options

COMPILE = "numba:compile"


def said(monkeypatch: pytest.MonkeyPatch, patience: float, times: int = 3) -> list[str]:
    """What a new listener says while functions are compiled that contain others."""
    words: list[str] = []
    monkeypatch.setattr(compile_notice, "PATIENCE", patience)
    monkeypatch.setattr(compile_notice, "say", lambda: words.append(compile_notice.TEXT))
    kept = list(event._registered[COMPILE])
    event._registered[COMPILE].clear()
    try:
        compile_notice.listen()
        for _ in range(times):
            with event.trigger_event(COMPILE), event.trigger_event(COMPILE):
                pass
    finally:
        event._registered[COMPILE][:] = kept
    return words


def test_long_compilation_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, patience=-1.0) == [compile_notice.TEXT]


def test_short_compilation_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, patience=3600.0) == []


def test_importing_compiled_code_listens_and_says_nothing_by_itself() -> None:
    assert options.OUTER["cache"] is True
    assert event._registered[COMPILE]
    assert compile_notice.say is None
