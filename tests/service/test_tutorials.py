"""Tutorials with commands: every command and snippet runs in order, and prints what the page shows."""

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

PAGES = Path(__file__).parents[2] / "docs" / "tutorial"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def shape(text: str) -> str:
    """The words, without line ends and rules of tables, and with # for every number: those differ between machines."""
    words = re.sub(r"[━┏┓┡┩└┘┳╇┴─┃│]", " ", text).split()
    return " ".join(re.sub(r"[+-]?\d[\d.,e-]*", "#", word) for word in words)


def served(folder: str, body: str) -> dict:
    with here(Path(folder)) as service:
        return post(service, "/v1/recommend", json.loads(body))


def run_page(page: Path) -> tuple[dict[str, object], list[dict]]:
    """Run all blocks of a page in the current folder; returns the names that are bound and the answers of services."""
    namespace: dict[str, object] = {}
    printed, folder, answers = "", "", []
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "text":
            assert shape(text) in shape(printed), f"{page.name} shows other output than:\n{printed}"
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, page.name, "exec"), namespace)
            printed = out.getvalue()
        elif text.startswith("curl "):
            answers.append(served(folder, shlex.split(text)[-1]))
        elif text.startswith("setwise serve "):
            folder = shlex.split(text)[2]
        else:
            results = [run(*shlex.split(line)[1:]) for line in text.splitlines()]
            assert all(result.exit_code == 0 for result in results), [one.output or one.exception for one in results]
            printed = "".join(result.output for result in results)
    return namespace, answers


def test_impressions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace, _ = run_page(PAGES / "impressions.md")
    (line,) = namespace["model"].summary["words"]
    assert line.startswith("each further item of the same category: -1.")


def test_whole_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace, (variant, portfolio) = run_page(PAGES / "whole-sets.md")
    assert sorted(item["attributes"]["site"] for item in variant["items"]) == ["1", "2", "3", "4"]
    assert namespace["better"] < 13, "the found variant is one of the best hundredth"
    assert variant["proven"]
    assert len(portfolio["items"]) == 2
    assert portfolio["proven"]
    chosen = {item["id"] for item in portfolio["items"]}
    assert "restart" in chosen
    assert len(chosen & {"descent", "descent-2"}) == 1, "those two fail together"
