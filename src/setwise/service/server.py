"""The process: listens, reloads on SIGHUP, and on SIGTERM answers what it has accepted before it ends."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from setwise.errors import InvalidInput
from setwise.service.http import application, front
from setwise.service.http_errors import Refusal
from setwise.service.logs import configured, log
from setwise.service.metrics import Metrics
from setwise.service.reload import Reloads
from setwise.service.settings import Settings
from setwise.service.straight import Straight

KEEP_S = 75  # an idle connection is kept: longer than most proxies do, so that they close first
LEAST_KEY = 16  # characters


def serve(folder: Path, host: str, port: int, key: str | None, settings: Settings) -> None:
    """Serve the artifact in ``folder`` until a signal ends it."""
    refuse_open_doors(host, key)
    configured()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_served(folder, host, port, key, settings))


async def _served(folder: Path, host: str, port: int, key: str | None, settings: Settings) -> None:
    metrics = Metrics()
    behind = await front(folder, settings, metrics, key is not None)
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
        http=Straight,
        ws="none",
    )
    try:
        with _spared_from_collection():
            await Server(config, behind.reloads).serve()
    finally:
        await behind.reloads.end()
    log().info("ended", answered=metrics.total())


@contextmanager
def _spared_from_collection() -> Iterator[None]:
    """What is loaded stays: else a full garbage collection walks through it all, and nobody is answered meanwhile."""
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

    def __init__(self, config: uvicorn.Config, reloads: Reloads) -> None:
        super().__init__(config)
        self._reloads = reloads
        self._reloading: asyncio.Task[None] | None = None  # kept, for the loop does not

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        ours: dict[int, Any] = dict.fromkeys((signal.SIGTERM, signal.SIGINT), self.handle_exit)
        ours[signal.SIGHUP] = lambda *_: loop.call_soon_threadsafe(self._reload)
        others = {number: signal.signal(number, handler) for number, handler in ours.items()}
        try:
            yield
        finally:
            for number, handler in others.items():
                signal.signal(number, handler)

    def _reload(self) -> None:
        self._reloading = asyncio.get_running_loop().create_task(self._reloaded())

    async def _reloaded(self) -> None:
        try:
            await self._reloads.reload()
        except Refusal:
            return  # said in the log where it happened

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        version = self._reloads.admission.crew.info.version
        for listening in self.servers[0].sockets:
            host, port = listening.getsockname()[:2]
            log().info("serving", host=host, port=port, version=version)
