"""Many requests to one service: its memory and its descriptors do not grow. The same check finds planted leaks."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from raw_http import HEALTH, Client, head
from services import Running, running

from processes import children

pytestmark = [pytest.mark.nightly, pytest.mark.promise("soak")]
MOST_MB = 4.0  # that all processes together may grow in the second half of the requests
SAMPLES = 20  # in that half
FEW = 400  # requests that show a leak of 64 KiB a request
CLIENTS = 2
SLATES = [
    json.dumps({"history": ["song-1"], "k": 2, **options}).encode()
    for options in ({}, {"ranker": "top-k", "certify": False}, {"certify": False, "at_most": {"artist": 1}})
]
OTHERS = (HEALTH, b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", head(3) + b"{x}")
OPTIONS = ("--workers", str(CLIENTS), "--budget-ms", "1", "--deadline-ms", "60000", "--heartbeat-ms", "60000")
LEAKING = """
import os, sys
from setwise.cli import main
from setwise.service import http

kept, real = [], http.Application.respond

async def respond(application, request):
    kept.append((os.urandom(65536), os.open("/dev/null", os.O_RDONLY) if len(kept) % 50 == 0 else None))
    return await real(application, request)

http.Application.respond = respond
sys.argv[0] = "setwise"
main()
"""


@dataclass(frozen=True)
class Growth:
    """What a service uses more at the end of the requests than in their middle."""

    megabytes: float
    descriptors: int
    hours: float

    @property
    def leaks(self) -> bool:
        return self.megabytes > MOST_MB or self.descriptors > 0


def processes(service: Running) -> list[int]:
    """The service, its fork server and its workers."""
    pid = service.process.pid
    return [pid, *children(pid), *(worker for server in children(pid) for worker in children(server))]


def megabytes(service: Running) -> float:
    """Resident memory of all processes."""
    return sum(4096 * int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in processes(service)) / 1e6


def descriptors(service: Running) -> int:
    """Open files and connections of all processes, after those that clients closed a moment ago are closed."""
    seen = []
    for _ in range(5):
        time.sleep(0.1)
        seen.append(sum(len([*Path(f"/proc/{pid}/fd").iterdir()]) for pid in processes(service)))
    return min(seen)


def send(service: Running, client: Client, number: int) -> None:
    """Mostly slates on one connection; some errors and probes; now and then another connection."""
    body = SLATES[number % len(SLATES)]
    message = OTHERS[number // 10 % 3] if number % 10 == 9 else head(len(body)) + body
    assert client.send(message).response()[0] < 500
    if number % 50 == 49:
        with Client(service) as other:
            other.send(HEALTH).response()


def growth(service: Running, requests: int) -> Growth:
    """Send requests; compare the means of the first and of the last quarter of the samples of the second half."""
    used, each = [], max(1, requests // (2 * SAMPLES * CLIENTS))
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(service)) for _ in range(CLIENTS)]
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))

        def send_some(client: Client) -> None:
            for number in range(each):
                send(service, client, number)

        for block in range(2 * SAMPLES):
            if block == SAMPLES:
                first, began = descriptors(service), time.monotonic()
            list(pool.map(send_some, clients))
            used.append(megabytes(service))
        last, hours = descriptors(service), (time.monotonic() - began) / 3600
    quarter = SAMPLES // 4
    grown = float(np.mean(used[-quarter:]) - np.mean(used[SAMPLES : SAMPLES + quarter]))
    return Growth(grown, last - first, hours)


def test_soak(folder: Path, count, record_property) -> None:
    requests = count(1_000_000, 1_000_000 // FEW)
    with running(folder, *OPTIONS) as service:
        seen = growth(service, requests)
        assert service.end() == 0
    rate = seen.megabytes / seen.hours
    record_property(
        "seen",
        f"{requests:,} requests: {seen.megabytes:+.2f} MB and {seen.descriptors:+d} descriptors in the second half, "
        f"{rate:+.1f} MB an hour",
    )
    assert not seen.leaks, seen


def test_the_check_finds_planted_leaks(folder: Path) -> None:
    """A service in whose process every request leaks memory, and some leak a descriptor."""
    with running(folder, *OPTIONS, program=("-c", LEAKING)) as service:
        seen = growth(service, FEW)
    assert seen.megabytes > MOST_MB, seen
    assert seen.descriptors > 0, seen
