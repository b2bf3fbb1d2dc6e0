"""The README: short, and every command and snippet in it runs and prints what it shows."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import typer.main
from services import here, post

from saved_songs import run
from setwise import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
COMMANDS = [line for language, text in BLOCKS if not language for line in text.splitlines()]
SMALL = ("--items", "30", "--slates", "300")  # for `setwise demo`, unless --large is given


def shown_after(start: str) -> list[str]:
    """The lines of the block of output after the block that starts so."""
    at = next(at for at, (_, text) in enumerate(BLOCKS) if text.startswith(start))
    assert BLOCKS[at + 1][0] == "text"
    return BLOCKS[at + 1][1].splitlines()


def shape(text: str) -> str:
    """The words, without line ends and rules of tables, and with # for numbers; of dishes the ids alone."""
    text = re.sub(r"(dish-\d+ +│).*", r"\1", text)
    words = re.sub(r"[━┏┓┡┩└┘┳╇┴─┃│]", " ", text).split()
    return " ".join(re.sub(r"[+-]?\d[\d.,e-]*", "#", word) for word in words)


# --- what it says ---


def test_it_is_short_and_links_to_two_pages() -> None:
    assert len(README.encode()) <= 7000
    assert re.findall(r"(?<!!)\[[^]]+\]\(([^)]+)\)", README) == ["docs/index.md", "docs/explanation/reproduction.md"]


def test_its_blocks_have_five_lines() -> None:
    (block,) = [text for language, text in BLOCKS if language == "python"]
    assert len([line for line in block.splitlines() if line]) == 5
    assert len([line for line in COMMANDS if line.startswith(("setwise ", "curl "))]) == 5


def test_every_command_is_run_by_a_test() -> None:
    """Below, but for the installation (test_quick_start.py) and the rules of make (next)."""
    assert [shlex.split(line)[:2] for line in COMMANDS] == [
        ["make", "demo"], ["make", "test"], ["pip", "install"], ["setwise", "demo"], ["setwise", "recommend"],
        ["setwise", "verify"], ["setwise", "serve"], ["curl", "-d"],
    ]  # fmt: skip


def test_the_rules_of_make_do_what_it_says() -> None:
    """`make` is too slow for a test that `make test` runs: its rules are read."""
    rules = dict(re.findall(r"^([\w$()]+):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert "$(BIN)/setwise demo\n" in rules["demo"]
    assert "$(INSTALL) '.[demo]'" in rules["$(DEMO)"]
    assert "$(INSTALL) '.[dev]'" in rules["$(DEV)"]
    assert "-m pytest" in rules["test"]
    assert "lint" in rules["test"]


@pytest.mark.parametrize("span", re.findall(r"`(setwise [^`]+)`", README.replace("\n", " ")))
def test_commands_in_sentences_exist(span: str) -> None:
    """Their options too; with a file that is missing they would go no further."""
    _, name, *words = shlex.split(span)
    command = typer.main.get_command(cli.app).commands[name]
    kinds = [command, *getattr(command, "commands", {}).values()]  # setwise train has a command for each kind of data
    options = {option for kind in kinds for parameter in kind.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


# --- what it shows ---


def test_the_python_block_prints_what_is_shown() -> None:
    (block,) = [text for language, text in BLOCKS if language == "python"]
    namespace: dict = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, "README.md", "exec"), namespace)
    assert out.getvalue().splitlines() == shown_after("import ")
    top = namespace["recommender"].recommend(namespace["value"][7], k=5, ranker="top-k", certify=False)
    assert f'one by one (`ranker="top-k"`) have {top.value:.3f}.' in README.replace("\n", " ")
    scores, x = np.arange(30.0), np.random.default_rng(0).normal(size=(30, 4))
    for options in ({}, {"strategy": "mmr"}, {"strategy": "dpp"}):
        assert len(namespace["sw"].rerank(scores, k=10, embeddings=x, warn_above=1.0, **options)) == 10


def test_the_commands_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    monkeypatch.chdir(tmp_path)
    if not large:
        monkeypatch.setattr(sys.modules["setwise.cli.demo"], "USERS", 8)
    demo, recommend, verify, serve, ask = [line for line in COMMANDS if line.startswith(("setwise ", "curl "))]
    printed = []
    for line in (demo, recommend, verify):
        small = SMALL if line == demo and not large else ()
        result = run(*shlex.split(line)[1:], *small)
        assert result.exit_code == 0, result.output
        printed.append(result.output)
    with here(Path(shlex.split(serve)[2])) as service:
        words = shlex.split(ask, comments=True)
        assert words[-1].endswith("/v1/recommend")
        answer = post(service, "/v1/recommend", json.loads(words[words.index("-d") + 1]))
    assert answer["left_out"] == []
    assert answer["value"] <= answer["upper_bound"]
    *lines, response = shown_after("setwise demo")
    output = shape(" ".join(printed))
    for line in lines:
        wanted = line if large else re.split(r", proven|\d\.\d\d ±", line)[0]  # a small model learns no set effects
        assert shape(wanted) in output, line
    assert shape(json.dumps(answer, separators=(",", ":"))).startswith(shape(response))
