"""README's quick start, word for word: installed, started, answered, ended."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
SECONDS = 600  # before we call it stuck; how long it takes is not judged


def commands() -> list[str]:
    """The first block of the quick start."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"## Quick start.*?```\n(.*?)```", text, re.S)
    assert block
    return block[1].strip().splitlines()


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


def machine(folder: Path) -> dict[str, str]:
    """A new environment that finds the libraries of this one (they are large) but not setwise itself."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (libraries,) = (Path(one) for one in sys.path if one.endswith("site-packages"))
    (site / "libraries.pth").write_text(f"{libraries}\n")
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SETWISE_PORT": str(free_port())}


def answering(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(10 * SECONDS):
        assert process.poll() is None, "it must not end by itself"
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("it never answered")


def test_quick_start(tmp_path: Path) -> None:
    install, start = commands()
    environment = machine(tmp_path / "venv")
    subprocess.run(install, shell=True, cwd=ROOT, env=environment, check=True, timeout=SECONDS)
    where = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", "-c", "import setwise; print(setwise.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path) in where.stdout, "what was installed is what runs"
    process = subprocess.Popen(f"exec {start}", shell=True, cwd=tmp_path, env=environment)
    try:
        url = f"http://127.0.0.1:{environment['SETWISE_PORT']}"
        answering(url, process)
        assert "<html" in httpx.get(url).text
        slate = httpx.post(f"{url}/v1/recommend", json={"history": ["song-1", "song-2"], "k": 5}, timeout=60).json()
        assert len(slate["items"]) == 5
        assert slate["value"] <= slate["upper_bound"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
