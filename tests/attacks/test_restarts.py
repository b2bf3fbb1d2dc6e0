"""Rolling restarts: two services, one of which is restarted at a time, while requests go to either. None is lost."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from services import Running, running

pytestmark = pytest.mark.nightly

BODY = {"history": ["song-1", "song-40"], "k": 3, "budget_ms": 5}


class Clients:
    """Clients that send each request to one of two addresses, and to the other one if the first does not answer it."""

    def __init__(self, urls: list[str], wanted: int, clients: int = 4) -> None:
        self.seen: Counter[str] = Counter()
        self.lost: list[str] = []
        self._urls, self._wanted, self._lock, self._stop = urls, wanted, threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(clients)]

    @property
    def done(self) -> bool:
        return sum(self.seen.values()) >= self._wanted

    def _send(self, number: int) -> None:
        with httpx.Client(timeout=120) as client:
            while not (self._stop.is_set() and self.done):
                number += 1
                first, second = self._urls[number % 2], self._urls[(number + 1) % 2]
                kind = "first" if self._answered(client, first) else "second" if self._answered(client, second) else ""
                with self._lock:
                    self.seen[kind] += 1

    def _answered(self, client: httpx.Client, url: str) -> bool:
        """Whether the service answers; a refused or closed connection, and 503, are a reason to ask the other one."""
        try:
            response = client.post(f"{url}/v1/recommend", json=BODY)
        except httpx.TransportError as error:
            self.lost.append(type(error).__name__)
            return False
        if response.status_code not in (200, 503):
            self.lost.append(str(response.status_code))
        return response.status_code == 200

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in sockets]


@pytest.mark.promise("restarts")
def test_rolling_restarts(folder: Path, count, record_property) -> None:
    restarts = count(100, 50)
    ports = free_ports(2)
    options = ("--workers", "1", "--deadline-ms", "60000", "--drain-ms", "60000")

    def start(stack: ExitStack, at: int) -> Running:
        return stack.enter_context(running(folder, *options, "--port", str(ports[at])))

    with ExitStack() as stack:
        services = [start(stack, at) for at in range(2)]
        with Clients([one.url for one in services], count(10_000, 50)) as clients:
            for number in range(restarts):
                at = number % 2
                assert services[at].end() == 0
                services[at] = start(stack, at)
                had = sum(clients.seen.values())
                while sum(clients.seen.values()) < had + 8:  # some requests while both run
                    time.sleep(0.01)
    total = sum(clients.seen.values())
    record_property(
        "seen",
        f"{restarts} restarts, {total:,} requests answered, {clients.seen['second']:,} of them by the second service",
    )
    assert clients.seen[""] == 0
    assert not any(status.isdigit() for status in clients.lost), clients.lost
