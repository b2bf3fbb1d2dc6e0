"""``setwise demo`` as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import setwise
from setwise import cli
from setwise.errors import InvalidInput
from setwise.ranking import RANKERS


def run(*arguments: str):
    return CliRunner().invoke(cli.app, arguments)


def test_tables() -> None:
    result = run("demo", "--items", "200", "--k", "3", "--cells", "5", "--per-cell", "3")
    assert result.exit_code == 0, result.output
    for ranker in RANKERS:
        assert ranker in result.output
    assert "proven optimal" in result.output
    assert "The slate" in result.output


def test_json_is_ordered_and_consistent() -> None:
    result = run("demo", "--items", "200", "--k", "3", "--cells", "5", "--at-most", "1", "--heads", "3", "--json")
    rankers = json.loads(result.output)["rankers"]
    assert {row["method"] for row in rankers} == set(RANKERS)
    assert [row["value"] for row in rankers] == sorted((row["value"] for row in rankers), reverse=True)
    assert all(1 <= len(row["items"]) <= 3 for row in rankers)


def test_a_ranker_that_refuses_is_reported_not_fatal() -> None:
    result = run("demo", "--items", "200", "--k", "10", "--per-cell", "10")
    assert result.exit_code == 0, result.output
    assert "exhaustive search must visit at most" in " ".join(result.output.split())


def test_version_and_help() -> None:
    assert run("--version").output.strip() == f"setwise {setwise.__version__}"
    assert "Example" in run("demo", "--help").output
    assert "demo" in run("--help").output


@pytest.mark.parametrize("arguments", [("demo", "--k", "0"), ("demo", "--user", "50"), ("demo", "--wings"), ("fly",)])
def test_bad_arguments(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_our_errors_are_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise InvalidInput("x", "1", "2", "change it")

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "setwise: x must be 1, got 2; change it.\n"


def test_as_a_module() -> None:
    out = subprocess.run([sys.executable, "-m", "setwise", "--version"], capture_output=True, text=True, check=True)
    assert setwise.__version__ in out.stdout
