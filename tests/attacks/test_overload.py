"""More requests than the workers can compute: probes are answered, and every request is answered or refused."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from services import Here, here

pytestmark = pytest.mark.nightly

CLIENTS = 24  # of one worker: each sends its next request when it has an answer


def load(service: Here, end: threading.Event) -> Counter[int]:
    """Requests of one client until the end, with the pauses that the service asks for cut to 50 ms."""
    seen: Counter[int] = Counter()
    with httpx.Client(base_url=service.url, timeout=120) as client:
        while not end.is_set():
            response = client.post("/v1/recommend", json={"history": ["song-1"], "k": 8, "budget_ms": 100})
            seen[response.status_code] += 1
            if response.status_code == 503:
                assert int(response.headers["Retry-After"]) >= 1
                time.sleep(0.05)
    return seen


def probes(service: Here, end: threading.Event) -> list[tuple[int, float]]:
    """Statuses and seconds of probes until the end."""
    seen = []
    with httpx.Client(base_url=service.url, timeout=120) as client:
        while not end.is_set():
            for path in ("/healthz", "/readyz", "/metrics"):
                began = time.perf_counter()
                status = client.get(path).status_code
                seen.append((status, time.perf_counter() - began))
            time.sleep(0.05)
    return seen


@pytest.mark.promise("overload")
def test_overload(folder: Path, large: bool, record_property) -> None:
    end = threading.Event()
    limits = {"deadline_ms": 2000} if large else {}  # a busy machine gets the patience of all tests
    with here(folder, workers=1, queue=16, **limits) as service, ThreadPoolExecutor(CLIENTS + 1) as pool:
        watched = pool.submit(probes, service, end)
        loads = [pool.submit(load, service, end) for _ in range(CLIENTS)]
        time.sleep(30 if large else 3)
        end.set()
        seen: Counter[int] = sum((one.result() for one in loads), Counter())
        probed = watched.result()
        text = service.client.get("/metrics").text
    assert set(seen) <= {200, 503}, seen
    assert seen[200]
    assert {status for status, _ in probed} == {200}
    assert "setwise_degraded_total" in text
    slowest = 1000 * max(seconds for _, seconds in probed)
    record_property(
        "seen",
        f"{CLIENTS} clients of one worker: {seen[200]:,} answered, {seen[503]:,} refused (503); "
        f"{len(probed):,} probes answered, the slowest in {slowest:.0f} ms",
    )
