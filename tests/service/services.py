"""A recommender of the simulated world that understands histories, and the real service of it in a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn

import setwise as sw
from setwise.datasets import World
from setwise.model.encoder import Encoder
from setwise.service.http import application, front
from setwise.service.metrics import Metrics
from setwise.service.settings import Settings
from setwise.service.straight import Straight


def world_recommender(n: int = 300, seed: int = 0, heads: int = 2, cells: int = 8, **options: Any) -> sw.Recommender:
    """The world's own encoder, written as one of ours: the direction of the mean taste."""
    world = World.make(n, n_users=3, heads=heads, seed=seed)
    taste = world.taste.shape[1]
    to_head = np.vstack([np.eye(taste), np.zeros((1, taste))])
    encoder = Encoder(
        items=world.taste,
        heads_weight=np.stack([to_head] * heads),
        heads_bias=np.tile(np.r_[np.zeros(taste), 1.0], (heads, 1)),
        base_weight=np.vstack([np.eye(taste), np.zeros((2, taste))]),
        base_bias=np.r_[np.zeros(taste), 1.0, -2.0],
        project=np.hstack([np.eye(taste), np.zeros((taste, 1))]),
    )
    return sw.Recommender(sw.Index.build(world.catalog, cells=cells), encoder=encoder, **options)


class Running:
    """A service that runs: where it is, what it logs, and a client."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, key: str | None) -> None:
        self.process, self.folder = process, folder
        self.logs: list[dict[str, Any]] = []
        self._serving = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._serving.wait(60), self.logs
        assert process.poll() is None, self.logs
        self.port = next(line["port"] for line in self.logs if line.get("event") == "serving")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=30)

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.logs.append(json.loads(line) if line.startswith("{") else {"text": line})
            if self.logs[-1].get("event") == "serving":
                self._serving.set()
        self._serving.set()

    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 1e6

    def end(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        self._reader.join(10)
        return status


class Here:
    """The service in a thread of this process, its crew beside it, over real HTTP."""

    def __init__(self, folder: Path, key: str | None, limits: dict[str, int]) -> None:
        self.settings = Settings(**{"deadline_ms": 30_000, "workers": 1} | limits)  # others may keep this machine busy
        self.metrics = Metrics()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(folder, key),))
        self._thread.start()
        while not hasattr(self, "_server") or not self._server.started:
            assert self._thread.is_alive(), "the service did not start"
            time.sleep(0.005)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=30)

    async def _serve(self, folder: Path, key: str | None) -> None:
        self.front = await front(folder, self.settings, self.metrics, key is not None)
        served = application(self.front, key)
        config = uvicorn.Config(served, port=0, log_config=None, lifespan="off", http=Straight, ws="none")
        self._server = uvicorn.Server(config)
        await self._server.serve()
        await self.front.reloads.end()

    def end(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join()


@contextmanager
def here(folder: Path, key: str | None = None, **limits: int) -> Iterator[Here]:
    """A service of ``folder`` with these settings, until the block ends."""
    service = Here(folder, key, limits)
    try:
        yield service
    finally:
        service.end()


def post(service: Here | Running, path: str, body: Any) -> Any:
    """The answer to a body that must be good."""
    response = service.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def refused(response: httpx.Response, status: int | None = None) -> str:
    """The sentence of a refusal."""
    error = response.json()["error"]
    assert set(error) == {"code", "message"}
    assert status is None or response.status_code == status, response.text
    assert error["message"].endswith((".", "…")), error["message"]
    for secret in ("/work", "/tmp", "Traceback", ".py"):
        assert secret not in error["message"], error["message"]
    return error["message"]


@contextmanager
def running(folder: Path, *options: str, key: str | None = None) -> Iterator[Running]:
    """``setwise serve folder`` on a free port, until the block ends."""
    command = [sys.executable, "-m", "setwise", "serve", str(folder), "--port", "0", *options]
    command += ["--api-key", key] if key else []
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        service = Running(process, folder, key)
        with service.client:
            yield service
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
