"""The tutorial of whole sets: every command and snippet runs in order, and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from services import here, post

from saved_songs import run

pytestmark = pytest.mark.nightly

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "whole-sets.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def shape(text: str) -> str:
    """The words, without line ends and rules of tables, and with # for every number: those differ between machines."""
    words = re.sub(r"[━┏┓┡┩└┘┳╇┴─┃│]", " ", text).split()
    return " ".join(re.sub(r"[+-]?\d[\d.,e-]*", "#", word) for word in words)


def served(folder: str, body: str) -> dict:
    with here(Path(folder)) as service:
        return post(service, "/v1/recommend", json.loads(body))


def test_the_page_runs_and_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    printed, folder, answers = "", "", []
    for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language == "text":
            assert shape(text) in shape(printed), f"{PAGE.name} shows other output than:\n{printed}"
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, PAGE.name, "exec"), namespace)
            printed = out.getvalue()
        elif text.startswith("curl "):
            answers.append(served(folder, shlex.split(text)[-1]))
        elif text.startswith("setwise serve "):
            folder = shlex.split(text)[2]
        else:
            results = [run(*shlex.split(line)[1:]) for line in text.splitlines()]
            assert all(result.exit_code == 0 for result in results), [one.output or one.exception for one in results]
            printed = "".join(result.output for result in results)
    variant, portfolio = answers
    assert sorted(item["attributes"]["site"] for item in variant["items"]) == ["1", "2", "3", "4"]
    assert namespace["better"] < 13, "the found variant is one of the best hundredth"
    assert variant["proven"]
    assert len(portfolio["items"]) == 2
    assert portfolio["proven"]
    chosen = {item["id"] for item in portfolio["items"]}
    assert "restart" in chosen
    assert len(chosen & {"descent", "descent-2"}) == 1, "those two fail together"
