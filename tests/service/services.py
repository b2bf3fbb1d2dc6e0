"""A recommender of the simulated world with an encoder of histories, and the real service of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import setwise as sw
from processes import LIMIT, started, until
from setwise.datasets import World
from setwise.model.encoder import Encoder
from setwise.service.hosts import AllowedHosts
from setwise.service.http import Application, Service
from setwise.service.metrics import Metrics
from setwise.service.queue import TaskQueue
from setwise.service.served_cluster import Cluster
from setwise.service.server import Server
from setwise.service.settings import Settings


def world_recommender(n: int = 300, seed: int = 0, heads: int = 2, cells: int = 8, **options: Any) -> sw.Recommender:
    """The encoder of the world as one of the library: the direction of the mean taste."""
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


# Of a service where a test does not ask for others: other tests may keep the machine busy.
PATIENT = {"deadline_ms": 60_000, "heartbeat_ms": 60_000, "body_ms": 60_000, "head_ms": 60_000}


class Running:
    """``setwise serve`` in a process of its own: its address, its logs, and a client."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, key: str | None) -> None:
        self.process, self.folder = process, folder
        self.logs: list[dict[str, Any]] = []
        self._serving = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._serving.wait(LIMIT), self.logs  # compiling may take minutes
        assert process.poll() is None, self.logs
        self.port = next(line["port"] for line in self.logs if line.get("event") == "serving")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=120)

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.logs.append(json.loads(line) if line.startswith("{") else {"text": line})
            if self.logs[-1].get("event") == "serving":
                self._serving.set()
        self._serving.set()

    def raw(self, timeout: float = 120) -> socket.socket:
        """A new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 1e6

    def end(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        return status


class Here:
    """The service in a thread of this process, its workers beside it, over real HTTP."""

    def __init__(
        self,
        folder: Path,
        key: str | None,
        hosts: AllowedHosts,
        log: Path | None,
        limits: dict[str, int],
        read_key: str | None = None,
        image_hosts: Sequence[str] = (),
        cluster: Cluster | None = None,
    ) -> None:
        self.settings = Settings(**PATIENT | {"workers": 1} | limits)
        self.metrics = Metrics()
        serving = self._serve(folder, (key, read_key), hosts, log, image_hosts, cluster)
        self._thread = threading.Thread(target=asyncio.run, args=(serving,), daemon=True)
        self._thread.start()
        until(lambda: not self._thread.is_alive() or (hasattr(self, "_server") and self._server.started))
        assert self._thread.is_alive(), "the service did not start"
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=120)

    async def _serve(
        self,
        folder: Path,
        keys: tuple[str | None, str | None],
        hosts: AllowedHosts,
        log: Path | None,
        image_hosts: Sequence[str],
        cluster: Cluster | None,
    ) -> None:
        key, read_key = keys
        known = key is not None
        self.service = await Service.start(folder, self.settings, self.metrics, known, log, image_hosts, cluster)
        self.application = Application(self.service, key, hosts, read_key)
        self._server = Server(self.application)
        await self._server.serve()
        await self.service.end()

    def raw(self, timeout: float = 120) -> socket.socket:
        """A new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    @property
    def listeners(self) -> int:
        """How many connections are accepted in one pass of the event loop."""
        return len(self._server.servers)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.server_state.connections)

    @property
    def queue(self) -> TaskQueue:
        return self.service.queue

    def workers(self) -> list[int]:
        """The worker processes of the pool."""
        return [worker.pid for worker in [*self.queue.pool.workers] if worker.pid is not None]

    def lost(self, why: str, number: int) -> bool:
        """Whether so many workers were replaced for this reason."""
        return f'setwise_workers_lost_total{{why="{why}"}} {number}.0' in self.metrics.text().decode()

    def end(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "the service did not end"


@contextmanager
def here(
    folder: Path,
    key: str | None = None,
    hosts: AllowedHosts = AllowedHosts(),
    log: Path | None = None,
    read_key: str | None = None,
    image_hosts: Sequence[str] = (),
    cluster: Cluster | None = None,
    **limits: int,
) -> Iterator[Here]:
    """A service of ``folder`` with these settings, until the block ends.

    It starts much sooner than ``running``: workers are forked from one server for all services of the test process.
    """
    service = Here(folder, key, hosts, log, limits, read_key, image_hosts, cluster)
    try:
        yield service
    finally:
        service.end()


def post(service: Here | Running, path: str, body: Any) -> Any:
    """The response to a valid body."""
    response = service.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def error_message(response: httpx.Response, status: int | None = None) -> str:
    """The message of an HTTP error."""
    error = response.json()["error"]
    assert set(error) == {"code", "message"}
    assert status is None or response.status_code == status, response.text
    assert error["message"].endswith((".", "?", "…")), error["message"]
    for secret in ("/work", "/tmp", "Traceback", ".py"):
        assert secret not in error["message"], error["message"]
    return error["message"]


SETWISE = ("-m", "setwise")  # what Python runs; a test may change the program and pass its source with -c


@contextmanager
def running(folder: Path, *options: str, key: str | None = None, program: Sequence[str] = SETWISE) -> Iterator[Running]:
    """``setwise serve folder`` on a free port, until the block ends."""
    command = [sys.executable, *program, "serve", str(folder), "--port", "0", *options]
    command += ["--api-key", key] if key else []
    environment = {f"SETWISE_{name.upper()}": str(limit) for name, limit in PATIENT.items()} | os.environ
    with started(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        service = Running(process, folder, key)
        with service.client:
            yield service
