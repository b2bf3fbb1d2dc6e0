"""The process: listens, reloads on SIGHUP, and on SIGTERM answers what it has accepted before it ends."""

from __future__ import annotations

import ctypes
import gc
import ipaddress
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from setwise.errors import InvalidInput
from setwise.serving.app import application, front
from setwise.serving.artifacts import Artifacts
from setwise.serving.logs import configured, log
from setwise.serving.metrics import Metrics
from setwise.serving.refusals import Refusal
from setwise.serving.settings import Settings

SWITCH_S = 0.0005  # how long a computing thread may keep the event loop from answering
KEEP_S = 75  # an idle connection is kept: longer than most proxies do, so that they close first
LEAST_KEY = 16  # characters
# glibc's numbers of two limits: how much free memory a thread gives back, and how large a block is mapped by itself.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES, LARGEST_BLOCK = 1 << 28, 1 << 25  # 32 MiB is the most that glibc allows


def serve(folder: Path, host: str, port: int, key: str | None, settings: Settings) -> None:
    """Serve the artifact in ``folder`` until a signal ends it."""
    refuse_open_doors(host, key)
    configured()
    sys.setswitchinterval(SWITCH_S)
    _keep_memory()
    metrics = Metrics()
    artifacts = Artifacts(folder, metrics)
    behind = front(artifacts, settings, metrics, key is not None)
    config = uvicorn.Config(
        application(behind, key),
        host,
        port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who asks, and from where, changes nothing
        timeout_keep_alive=KEEP_S,
        lifespan="off",
        ws="none",
    )
    with _spared_from_collection():
        Server(config, artifacts).run()
    behind.admission.close()
    log().info("ended", answered=metrics.total())


def _keep_memory() -> None:
    """Let threads keep what requests have freed: else every certificate waits 2 ms for its pages to be mapped again."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc alone has it
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, LARGEST_BLOCK)


@contextmanager
def _spared_from_collection() -> Iterator[None]:
    """What is loaded stays: else a full garbage collection walks through it all, and nobody is answered for 80 ms."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def refuse_open_doors(host: str, key: str | None) -> None:
    """Who can be reached from elsewhere needs a key."""
    if key is None and not is_loopback(host):
        todo = "pass --api-key, set SETWISE_API_KEY, or serve on 127.0.0.1"
        raise InvalidInput("the API key", f"set, as {host} can be reached from elsewhere", "none", todo)
    if key is not None and (len(key) < LEAST_KEY or not key.isascii() or not key.isprintable() or " " in key):
        must = f"at least {LEAST_KEY} printable ASCII characters without spaces"
        raise InvalidInput("the API key", must, f"{len(key)} characters", "choose a longer random one")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Server(uvicorn.Server):
    """uvicorn, with our signals: SIGHUP reloads, SIGTERM and SIGINT drain and end with status 0."""

    def __init__(self, config: uvicorn.Config, artifacts: Artifacts) -> None:
        super().__init__(config)
        self._artifacts = artifacts

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        ours: dict[int, Any] = dict.fromkeys((signal.SIGTERM, signal.SIGINT), self.handle_exit)
        ours[signal.SIGHUP] = lambda *_: threading.Thread(target=self._reload, name="setwise-reload").start()
        others = {number: signal.signal(number, handler) for number, handler in ours.items()}
        try:
            yield
        finally:
            for number, handler in others.items():
                signal.signal(number, handler)

    def _reload(self) -> None:
        try:
            self._artifacts.reload()
        except Refusal:
            return  # said in the log where it happened

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for listening in self.servers[0].sockets:
            host, port = listening.getsockname()[:2]
            log().info("serving", host=host, port=port, version=self._artifacts.current.version)
