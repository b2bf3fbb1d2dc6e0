"""The process: it listens, reloads on SIGHUP, and on SIGTERM answers what it has accepted before it ends."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn

from setwise.errors import InvalidInput
from setwise.service.connections import Connection, ConnectionLimits, sweep
from setwise.service.hosts import AllowedHosts, check_address, check_exposure
from setwise.service.http import Application, Service
from setwise.service.http_errors import HttpError
from setwise.service.keys import check_keys
from setwise.service.listening import listen_more
from setwise.service.logs import configure_logs, log
from setwise.service.metrics import Metrics
from setwise.service.process_start import kill_server
from setwise.service.security_headers import security_headers
from setwise.service.served_cluster import Cluster
from setwise.service.served_lists import ListsOnly
from setwise.service.settings import Settings
from setwise.service.signals import Signals, noted_signals

LONGEST_TMPDIR = 75  # bytes: the path of a socket may have 107, of which multiprocessing adds 32
ABORT_S = 1.0  # after the last response of a drain, until the remaining connections are aborted


def serve(
    folder: Path,
    host: str,
    port: int,
    key: str | None,
    settings: Settings,
    allow_hosts: Sequence[str] = (),
    log_folder: Path | None = None,
    image_hosts: Sequence[str] = (),
    read_key: str | None = None,
    cluster: Cluster | ListsOnly | None = None,
) -> None:
    """Serve the artifact in ``folder``, or its shards in a cluster, until a signal ends the process.

    ``read_key`` opens the routes that change nothing. Slates are logged in ``log_folder``. The page shows pictures of
    ``image_hosts`` only.
    """
    check_exposure(host, key)
    check_keys(key, read_key)
    check_address(host, port)
    configure_logs()
    hosts = AllowedHosts.of(host, allow_hosts)
    length = len(os.fsencode(tempfile.gettempdir()))
    if length > LONGEST_TMPDIR:
        must = f"a folder whose path has {LONGEST_TMPDIR} bytes or fewer, as sockets are made in it"
        raise InvalidInput("TMPDIR", must, f"one of {length}", "set it to another folder")
    with noted_signals() as signals, asyncio.Runner(loop_factory=_loop_factory()) as runner:
        keys = (key, read_key)
        runner.run(_serve(folder, host, port, keys, settings, hosts, log_folder, image_hosts, cluster, signals))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop: that of uvloop where it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(
    folder: Path,
    host: str,
    port: int,
    keys: tuple[str | None, str | None],
    settings: Settings,
    hosts: AllowedHosts,
    log_folder: Path | None,
    image_hosts: Sequence[str],
    cluster: Cluster | ListsOnly | None,
    signals: Signals,
) -> None:
    metrics, (key, read_key) = Metrics(), keys
    signals.starting()
    try:
        try:
            service = await Service.start(folder, settings, metrics, key is not None, log_folder, image_hosts, cluster)
        except BaseException:
            kill_server()  # it may compile for minutes
            raise
        try:
            with _frozen_garbage():
                await Server(Application(service, key, hosts, read_key), host, port, signals.reload_asked).serve()
        finally:
            signals.ending()
            await service.end()
    except asyncio.CancelledError:
        if not signals.end_asked:
            raise
    log().info("ended", answered=metrics.responses())


@contextmanager
def _frozen_garbage() -> Iterator[None]:
    """Keep what is loaded out of garbage collection: a full collection would stop the event loop for long."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Server(uvicorn.Server):
    """uvicorn with limited connections. SIGHUP reloads; SIGTERM and SIGINT drain and end with status 0.

    ``reload_asked`` is set if SIGHUP arrived before: the folder may have changed since it was read.
    """

    def __init__(
        self,
        application: Application,
        host: str = "127.0.0.1",
        port: int = 0,
        reload_asked: threading.Event | None = None,
    ) -> None:
        service = application.service
        settings = service.settings
        limits, security = ConnectionLimits(settings, service.metrics), security_headers(service.image_hosts)
        super().__init__(
            uvicorn.Config(
                cast(Any, application),
                host,
                port,
                interface="asgi3",
                http=cast(Any, partial(Connection, respond=application.respond, limits=limits, security=security)),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # no route uses the address of the client
                timeout_graceful_shutdown=math.ceil(settings.drain_ms / 1000 + 2 * ABORT_S),
            )
        )
        self._service, self._reload_asked = service, reload_asked
        self._background: set[asyncio.Task[None]] = set()  # the loop keeps no reference

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle our signals while the service runs; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        ours: dict[int, Any] = dict.fromkeys((signal.SIGTERM, signal.SIGINT), self.handle_exit)
        ours[signal.SIGHUP] = lambda *_: loop.call_soon_threadsafe(self._reload_later)
        others = {number: signal.signal(number, handler) for number, handler in ours.items()}
        try:
            yield
        finally:
            for number, handler in others.items():
                signal.signal(number, handler)

    async def startup(self, sockets: Any = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.servers += await listen_more(self.servers[0], self._connection, self.config.backlog)
        self._run(sweep(self.server_state.connections))
        version = self._service.queue.pool.info.version
        for listening in self.servers[0].sockets:
            host, port = listening.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
            log().info("serving", url=url, host=host, port=port, version=version)
        if self._reload_asked is not None and self._reload_asked.is_set():
            self._reload_later()

    def _connection(self) -> asyncio.Protocol:
        """A new connection, as uvicorn makes it."""
        return self.config.http_protocol_class(config=self.config, server_state=self.server_state)  # type: ignore[call-arg]

    async def shutdown(self, sockets: Any = None) -> None:
        """Answer what was accepted within the drain time; then answer 503, and abort what is left."""
        loop, drain_s = asyncio.get_running_loop(), self._service.settings.drain_ms / 1000
        timers = [
            loop.call_later(drain_s, self._service.fail_all),
            loop.call_later(drain_s + ABORT_S, self._abort_connections),
        ]
        try:
            await super().shutdown(sockets)
        finally:
            for timer in timers:
                timer.cancel()
            for task in self._background:
                task.cancel()

    def _abort_connections(self) -> None:
        for connection in [*self.server_state.connections]:
            connection.transport.abort()

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _reload_later(self) -> None:
        self._run(self._reload())

    async def _reload(self) -> None:
        try:
            await self._service.reloader.reload_later()
        except HttpError:
            return  # logged where it was raised
