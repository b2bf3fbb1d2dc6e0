"""``setwise demo`` through its command line."""

from __future__ import annotations

import io
import json
import re
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import typer
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

import processes
import setwise
from setwise import _progress, cli
from setwise.cli.demo import METHODS, _announce, _require_service
from setwise.datasets import Restaurant
from setwise.errors import InvalidInput
from setwise.recommend.recommender import Recommender


def run(*arguments: str):
    return CliRunner().invoke(cli.app, arguments)


GUESTS = 8  # of 60: each is asked by every method, and beam search takes the time of all others together
SMALL = ("demo", "--items", "30", "--slates", "300", "--k", "3")


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["setwise.cli.demo"], "USERS", GUESTS)
    monkeypatch.setattr(_progress, "QUIET", 0.0)
    monkeypatch.setattr(_progress, "BETWEEN", 0.0)
    result = run(*SMALL, "--out", str(tmp_path / "world"))
    assert result.exit_code == 0, result.output
    for method in METHODS.values():
        assert method in result.output
    for words in ("search with the truth", "The menu for guest 0", "liked by itself", "Saved in"):
        assert words in " ".join(result.output.split())
    for method in (*METHODS.values(), "search with the truth"):
        assert re.search(rf"^recommending to {GUESTS} guests: \d+%, {re.escape(method)}$", result.stderr, re.MULTILINE)
    kept = Recommender.load(tmp_path / "world")
    assert len(kept.recommend(history=["dish-1"], k=3)) == 3


def run_with_the_demo_extra_only(*arguments: str) -> str:
    """The output of a process without the libraries of other extras: ``make demo`` installs [demo]."""
    hidden = ["gensim", "sklearn", "pyarrow", "pandas", "polars", "altair", "litestar", "uvicorn", "msgspec"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden})); import setwise.cli; "
        f"sys.modules['setwise.cli.demo'].USERS = {GUESTS}; sys.argv = ['setwise', *{arguments}]; setwise.cli.main()"
    )
    out = processes.run([sys.executable, "-c", code])
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.mark.nightly
def test_json_agrees_with_the_world() -> None:
    report = json.loads(run_with_the_demo_extra_only(*SMALL, "--at-most", "1", "--user", "2", "--json"))
    assert report["slate"]["items"]
    assert [row["method"] for row in report["methods"]] == list(METHODS.values())
    expected = {row["method"]: row["expected"] for row in report["methods"]}
    assert expected["swap search (setwise)"] >= expected["greedy"] - 1e-9
    ours = next(row for row in report["methods"] if row["method"] == "swap search (setwise)")
    for row in report["methods"]:
        assert row["behind"] == pytest.approx(ours["true"] - row["true"])
    best = report["best_with_true_model"]
    assert all(0 < row["true"] <= best + 1e-9 for row in report["methods"])
    world = Restaurant.make(30, n_users=GUESTS)
    rows = world.catalog.rows_of(report["slate"]["items"])
    assert not set(rows) & set(world.histories[2])
    assert len(set(world.catalog.attributes["course"][rows])) == len(rows)
    assert report["slate"]["value"] <= report["slate"]["upper_bound"]
    assert report["slate"]["gap"] == pytest.approx(
        0 if report["slate"]["proven"] else 1 - report["slate"]["value"] / report["slate"]["upper_bound"]
    )


def test_json_cannot_be_served() -> None:
    result = run("demo", "--json", "--serve")
    assert isinstance(result.exception, InvalidInput)


def test_a_port_that_is_taken_is_refused_first() -> None:
    """It was refused after the training, below the sentence that said where the page is."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        result = run(*SMALL, "--serve", "--port", str(other.getsockname()[1]))
    assert isinstance(result.exception, InvalidInput)
    assert "--host and --port must be free" in str(result.exception)
    assert not result.output


def test_the_address_is_printed_when_the_page_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was printed when another route answered, through a proxy if there was one, and as port 0."""
    asked = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(503 if len(asked) == 1 else 200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Nothing is printed."""

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    port = _require_service(0)
    said = io.StringIO()
    with HTTPServer(("127.0.0.1", port), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _announce(port, Console(file=said, width=200))
        server.shutdown()
    assert asked == ["/", "/"]
    assert said.getvalue() == f"The page is at http://127.0.0.1:{port}/ until Ctrl-C.\n"


def test_version_and_help() -> None:
    assert run("--version").output.strip() == f"setwise {setwise.__version__}"
    assert "Example" in run("demo", "--help").output
    assert "demo" in run("--help").output


@pytest.mark.parametrize("verb", sorted(typer.main.get_command(cli.app).commands))
def test_no_word_of_help_is_lost(verb: str) -> None:
    """Square brackets are marks of colour unless they are escaped: what is between them would not be printed."""
    for parameter in typer.main.get_command(cli.app).commands[verb].params:
        written = getattr(parameter, "help", None) or ""
        assert Text.from_markup(written).plain == written.replace("\\[", "["), parameter.name


@pytest.mark.parametrize("arguments", [("demo", "--k", "0"), ("demo", "--user", "60"), ("demo", "--wings"), ("fly",)])
def test_bad_arguments(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_an_error_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    def fail(number: str) -> None:
        raise InvalidInput("x", "1", number, "change it")

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(sys, "argv", ["setwise", "2"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "setwise: x must be 1, got 2; change it.\n"


@pytest.mark.nightly
def test_as_a_module() -> None:
    out = processes.run([sys.executable, "-m", "setwise", "--version"], check=True)
    assert setwise.__version__ in out.stdout
