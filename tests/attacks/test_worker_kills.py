"""Workers that are killed, stopped or aborted under load: requests are answered, and the workers are replaced."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from services import Running, running
from small_disk import small_disk

from processes import alive, children, until, workers

pytestmark = pytest.mark.nightly

EVERY_S = 5.0  # between two kills, at full count
BODY = {"history": ["song-1", "song-40"], "k": 5, "budget_ms": 20}


class HalfLoad:
    """One client of two workers: a request at a time, and one retry after a 503. The last statuses, and the first."""

    def __init__(self, service: Running) -> None:
        self.last: Counter[int] = Counter()
        self.first: Counter[int] = Counter()
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._send, args=(service.url,))

    def _send(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=120) as client:
            while not self._stop.is_set():
                response = client.post("/v1/recommend", json=BODY)
                self.first[response.status_code] += 1
                if response.status_code == 503:
                    time.sleep(int(response.headers["Retry-After"]))
                    response = client.post("/v1/recommend", json=BODY)
                self.last[response.status_code] += 1

    def __enter__(self) -> HalfLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def recovery(service: Running, victim: int) -> float:
    """Seconds until the pool is complete again."""
    began = time.monotonic()
    until(lambda: not alive(victim) and len(workers(service)) == 2 and ready(service), seconds=120)
    return time.monotonic() - began


def ready(service: Running) -> bool:
    return "setwise_workers 2.0" in service.client.get("/metrics").text


@pytest.mark.promise("worker-kills")
def test_killed_workers(folder: Path, count, large: bool, record_property) -> None:
    """At full count one is killed every five seconds for two minutes; else two, one after the other."""
    rng, seconds = random.Random(0), []
    with running(folder, "--workers", "2", "--deadline-ms", "20000") as service:
        with HalfLoad(service) as load:
            for _ in range(count(24, 12)):
                began = time.monotonic()
                victim = rng.choice(workers(service))
                os.kill(victim, signal.SIGKILL)
                seconds.append(recovery(service, victim))
                time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)) if large else 0.2)
        assert service.end() == 0
    total = load.last.total()
    record_property(
        "seen",
        f"{len(seconds)} workers killed, {load.last[200]:,} of {total:,} requests answered ({load.first[503]} after a "
        f"retry); recovered in {sum(seconds) / len(seconds):.1f} s on average, {max(seconds):.1f} s at most",
    )
    assert load.last[500] == load.first[500] == 0
    assert load.last[200] >= 0.99 * total, load.last


@pytest.mark.promise("hung-workers")
def test_stopped_and_aborted_workers(folder: Path, count, record_property) -> None:
    rng, signals = random.Random(1), (signal.SIGSTOP, signal.SIGABRT)
    times = count(100, 50)
    options = ("--workers", "2", "--heartbeat-ms", "1000", "--deadline-ms", "3000", "--grace-ms", "500")
    seconds = []
    with running(folder, *options) as service:
        with HalfLoad(service) as load:
            for number in range(times):
                victim = rng.choice(workers(service))
                os.kill(victim, signals[number % 2])
                seconds.append(recovery(service, victim))
        assert service.end() == 0
    reasons = Counter(line.get("reason", "ended") for line in service.logs if "worker" in line.get("event", ""))
    record_property(
        "seen",
        f"{times} workers stopped or aborted, all replaced within {max(seconds):.1f} s; "
        f"{load.last[200]:,} of {load.last.total():,} requests answered",
    )
    assert load.last[200]
    assert set(load.last) <= {200, 503, 504}, "one that was stopped within a request has until the deadline of it"
    assert reasons["hung"] + reasons["deadline"] >= times // 2, reasons


@pytest.mark.promise("hung-workers")
def test_workers_whose_fork_server_was_killed_end_with_the_service(folder: Path) -> None:
    """A suspended one was taken for ended, was not killed, and stayed behind."""
    with running(folder, "--workers", "2", "--heartbeat-ms", "1000", "--deadline-ms", "20000") as service:
        server = server_of(service)
        first, second = children(server)
        os.kill(server, signal.SIGKILL)
        until(lambda: not alive(server))
        os.kill(first, signal.SIGSTOP)
        until(lambda: not alive(first))
        until(lambda: ready(service))
        os.kill(second, signal.SIGSTOP)
        assert service.end() == 0
        until(lambda: not alive(second))


@pytest.mark.promise("worker-kills")
def test_full_temporary_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacements map the copy that is there, and write nothing."""
    with small_disk(tmp_path / "disk", "64m") as disk:
        monkeypatch.setenv("TMPDIR", str(disk.folder))
        with running(folder, "--workers", "2", "--deadline-ms", "20000") as service:
            disk.leave(0)
            for _ in range(2):
                victim = workers(service)[0]
                os.kill(victim, signal.SIGKILL)
                recovery(service, victim)
            victim, server = workers(service)[0], server_of(service)
            os.kill(server, signal.SIGKILL)
            os.kill(victim, signal.SIGKILL)
            until(lambda: len(workers(service)) == 1 and ready(service), seconds=120)
            assert service.client.post("/v1/recommend", json=BODY).status_code == 200
            assert service.end() == 0
            assert not any("worker not replaced" in str(line) for line in service.logs)
        assert not [*disk.folder.glob("setwise-copy-*")]


def server_of(service: Running) -> int:
    """The process that forks the workers."""
    (server,) = (pid for pid in children(service.process.pid) if children(pid))
    return server
