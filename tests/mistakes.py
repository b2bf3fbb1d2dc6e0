"""Mistakes of new users: commands run as from a shell, and the form that every answer must have."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from setwise import cli

# what was expected, what came, what to do; a damaged file has a reason in place of what came
SENTENCE = re.compile(r".+ (must|cannot) .+(, got |, but|: |; ).+[.?)]", re.DOTALL)


def check_sentence(text: str, *words: str) -> None:
    """One sentence that says what to do, and holds all ``words``."""
    assert SENTENCE.fullmatch(text), text
    assert "\n" not in text, text
    assert any(remedy in text for remedy in ("; ", "--help", "/docs")), f"no remedy: {text}"
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str) -> str:
    """What ``setwise`` says about a mistake: exit status 2 and one sentence on standard error."""
    monkeypatch.setattr(sys, "argv", ["setwise", *shlex.split(command)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    printed = capsys.readouterr()
    assert caught.value.code == 2, printed
    assert not printed.out
    assert "Traceback" not in printed.err
    *notes, sentence = printed.err.strip().splitlines()
    assert not any(note.startswith("setwise: ") for note in notes), printed.err  # lines of progress may precede it
    assert sentence.startswith("setwise: "), printed.err
    return sentence.removeprefix("setwise: ")


def each_of(mistakes: Sequence[tuple[str, ...]]) -> pytest.MarkDecorator:
    """A test for every mistake: its command, and the words that the answer must hold."""
    return pytest.mark.parametrize(("command", "words"), [(command, words) for command, *words in mistakes])


def check_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, command: str, words: list[str]
) -> None:
    """The command, run in this folder, is refused with a sentence that holds the words, and writes nothing."""
    before = {path.name for path in folder.iterdir()}
    monkeypatch.chdir(folder)
    sentence = refused(monkeypatch, capsys, command)
    if "--help" in sentence and " must " not in sentence:  # of the parser of options
        sentence = f"The command must be complete, but: {sentence}"
    check_sentence(sentence, *words)
    assert {path.name for path in folder.iterdir()} == before, "nothing is written for a mistake"
