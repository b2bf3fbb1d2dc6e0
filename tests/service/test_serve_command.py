"""``setwise serve`` from the command line, and the table of settings that its options come from."""

from __future__ import annotations

import gc
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import processes
from mistakes import refused
from processes import alive, children, until
from setwise import cli
from setwise.errors import InvalidInput
from setwise.service import hosts, process_start, server
from setwise.service.settings import Settings, table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_a_public_address_needs_a_key(host: str) -> None:
    with pytest.raises(InvalidInput, match=f"--api-key must be set, as {host} can be reached from elsewhere"):
        hosts.check_exposure(host, None)
    hosts.check_exposure(host, "a-long-and-random-key")


def test_a_loopback_address_needs_none() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        hosts.check_exposure(host, None)


def test_errors_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def refusal(*arguments: str) -> str:
        return refused(monkeypatch, capsys, shlex.join(["serve", *arguments, "--port", "0"]))

    assert refusal(str(tmp_path), "--host", "0.0.0.0").startswith("--api-key must be set, as 0.0.0.0 can be reached")
    empty = refusal(str(tmp_path), "--api-key", "")  # of a shell variable that is not set
    assert "--api-key must be 16 to 512 printable ASCII characters without spaces, got an empty text" in empty
    hosts = refusal(str(tmp_path), "--image-hosts", "https://images.example/covers")
    assert hosts.startswith("--image-hosts must be names of hosts separated by commas, such as")
    for option in (["--partial"], ["--replicas", "2"]):
        alone = refusal(str(tmp_path), *option)
        assert alone.startswith(f"{option[0]} must be given together with --cluster, got no --cluster")
    assert "there is no folder" in refusal(str(tmp_path / "nothing"))
    long = tmp_path / ("x" * 75)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert refusal(str(tmp_path)).startswith("TMPDIR must be a folder whose path has 75 bytes or fewer")


def test_serving_in_this_process(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    """The service handles signals while it runs, and restores the handlers afterwards."""
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    seen: list[httpx.Response] = []
    frozen: list[int] = []
    started = server.Server.startup

    async def startup(self, sockets=None) -> None:
        await started(self, sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        threading.Thread(target=visit, args=(port, self), daemon=True).start()

    def visit(port: int, running: server.Server) -> None:
        try:
            seen.append(httpx.get(f"http://127.0.0.1:{port}/v1/info"))
            frozen.append(gc.get_freeze_count())
            for _ in range(2):  # the second one is ignored
                os.kill(os.getpid(), signal.SIGHUP)
            until(lambda: b'outcome="done"' in running._service.metrics.text())
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(server.Server, "startup", startup)
    options = ["--port", "0", "--workers", "1", "--image-hosts", "images.example,*.cdn.example"]
    result = CliRunner().invoke(cli.app, ["serve", str(folder), *options])
    assert result.exit_code == 0, result.output
    assert seen[0].json()["image_hosts"] == ["images.example", "*.cdn.example"]
    assert "https://*.cdn.example" in seen[0].headers["Content-Security-Policy"]
    assert seen[0].json()["items"] == 300
    assert frozen[0] > 0, "what was loaded is kept out of garbage collection"
    assert gc.get_freeze_count() == 0
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == handlers


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly)]
)
def test_ended_while_it_compiles(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    """The process that compiles went on for minutes, and SIGTERM ended the service with status 143."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "code").mkdir()
    command = [sys.executable, "-m", "setwise", "serve", str(folder), "--port", "0", "--workers", "1"]
    with processes.started(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: process_start.SERVER in commands(process.pid) and [*tmp_path.rglob("*.nbi")])
        started = descendants(process.pid)
        process.send_signal(number)
        _, said = process.communicate(timeout=processes.LIMIT)
        assert process.returncode == status, said
        assert "Traceback" not in said
        until(lambda: not any(map(alive, started)))
    assert not [*tmp_path.glob("setwise-copy-*")]


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


def commands(pid: int) -> bytes:
    return b"".join(Path(f"/proc/{child}/cmdline").read_bytes() for child in children(pid))


def test_without_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "setwise.service.server", None)
    result = CliRunner().invoke(cli.app, ["serve", str(folder)])
    assert "pip install 'setwise[serve]'" in str(result.exception)


# --- the table of settings ---


def test_the_command_has_an_option_for_every_setting() -> None:
    text = re.sub(
        r"\x1b\[[0-9;]*m", "", CliRunner().invoke(cli.app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    )
    for row in table():
        assert row.option in text
        assert row.variable in text
        assert row.help.rstrip(".")[:40] in text


def test_settings_keep_their_bounds() -> None:
    assert Settings().worker_count == len(os.sched_getaffinity(0))
    assert Settings(workers=3).worker_count == 3
    for row in table():
        assert row.least <= row.default <= row.most
        for bad in (row.least - 1, row.most + 1, 1.5):
            with pytest.raises(InvalidInput, match=f"{row.name} must be"):
                Settings(**{row.name: bad})  # type: ignore[arg-type]


def test_the_documentation_names_settings_that_exist() -> None:
    """The whole table is generated into the reference; the guide names some of its rows."""
    assert "<!-- generated: settings -->" in (ROOT / "docs" / "reference" / "http.md").read_text()
    text = (ROOT / "docs" / "how-to" / "operations.md").read_text()
    known = {row.option for row in table()} | {
        "--host",
        "--api-key",
        "--read-key",
        "--read-only",
        "--tmpfs",
        "--allow-host",
        "--image-hosts",
        "--out",
        "--log",
    }
    assert set(re.findall(r"(?<![-\w])--[a-z][a-z-]+", text)) <= known


def test_the_documentation_names_every_metric() -> None:
    from setwise.service.metrics import Metrics

    text = (ROOT / "docs" / "how-to" / "operations.md").read_text()
    names = re.findall(r"# TYPE (setwise_\w+)", Metrics().text().decode())
    for name in names:
        assert f"`{name}`" in text or name.endswith("_created"), name
