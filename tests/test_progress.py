"""Progress where standard error is no terminal: silent for short operations, lines for long ones."""

from __future__ import annotations

import pytest

from setwise import _progress
from setwise._progress import Progress


def shown(capsys: pytest.CaptureFixture[str], show: bool | None = None) -> list[str]:
    with Progress("reading", 4, show) as bar:
        for _ in range(4):
            bar.advance(1, "rows")
    return capsys.readouterr().err.splitlines()


def test_short_operations_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == []


def test_long_operations_print_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "QUIET", 0.0)
    monkeypatch.setattr(_progress, "BETWEEN", 0.0)
    assert shown(capsys) == [f"reading: {part}%, rows" for part in (25, 50, 75, 100)] + ["reading: done"]
    monkeypatch.setattr(_progress, "BETWEEN", 3600.0)
    assert shown(capsys) == ["reading: 25%, rows", "reading: done"]
    assert shown(capsys, show=False) == []
