"""The installation of the README: install, learn, serve, answer a request, stop on Ctrl-C, uninstall."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import processes

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "setwise"
TIMEOUT = 600  # seconds until a command counts as hung; speed is not tested
SMALL = " --items 30 --slates 300 --k 3"


def readme_commands() -> tuple[str, str, str]:
    """The lines of the README that install, learn and serve."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for language, block in blocks if not language for line in block.splitlines()]
    install, learn, serve = (
        next(line for line in lines if line.startswith(start))
        for start in ("pip install ", "setwise demo ", "setwise serve ")
    )
    return install, learn, serve


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def create_environment(folder: Path) -> dict[str, str]:
    """Create a virtual environment that finds the libraries of this one, but not setwise; return its variables.

    pip is one of these libraries: installing it once more would take longer than installing setwise.
    """
    processes.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (folder / "bin" / "pip").write_text('#!/bin/sh\nexec python -m pip "$@"\n')
    (folder / "bin" / "pip").chmod(0o755)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (libraries,) = (Path(path) for path in sys.path if path.endswith("site-packages"))
    (site / "libraries.pth").write_text(f"{libraries}\n")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return variables | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def installed_package(environment: dict[str, str], folder: Path) -> Path:
    code = "import setwise; print(setwise.__file__)"
    command = [folder / "bin" / "python", "-c", code]
    out = processes.run(command, cwd=folder, env=environment, check=True)
    return Path(out.stdout.strip()).parent


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def package_files(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    for _ in range(10 * TIMEOUT):
        assert process.poll() is None, "the service ended by itself"
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("the service did not become ready")


def answer(client: httpx.Client) -> dict[str, Any]:
    return dict(client.post("/v1/recommend", json={"history": ["dish-3", "dish-17"], "k": 4}).json())


def test_quick_start(tmp_path: Path, large: bool) -> None:
    install, learn, start = readme_commands()
    port = free_port()
    environment = create_environment(tmp_path / "venv")
    before = files_of(tmp_path / "venv")
    processes.run(["/bin/sh", "-c", install], cwd=ROOT, env=environment, check=True, limit=TIMEOUT)
    installed = installed_package(environment, tmp_path / "venv")
    assert tmp_path in installed.parents, "the installed package runs, not the checkout"
    assert (installed / "py.typed").is_file(), "the wheel is typed"
    assert package_files(installed) == package_files(SOURCE), "the wheel contains every file of the package"
    if not large:
        learn += SMALL
    processes.run(["/bin/sh", "-c", learn], cwd=tmp_path, env=environment, check=True, limit=TIMEOUT)
    serve = ["/bin/sh", "-c", f"exec {start} --port {port}"]
    with processes.started(serve, cwd=tmp_path, env=environment) as process:
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        wait_until_ready(client, process)
        assert "<html" in client.get("/").text
        slate = answer(client)
        assert len(slate["items"]) == 4
        processes.until(lambda: not answer(client)["left_out"])  # the code of bounds was being compiled
        slate = answer(client)
        assert slate["value"] <= slate["upper_bound"]
        client.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(processes.LIMIT) == 0
    processes.run(["pip", "uninstall", "--yes", "setwise"], cwd=tmp_path, env=environment, check=True)
    assert files_of(tmp_path / "venv") == before, "what was compiled is kept elsewhere"
