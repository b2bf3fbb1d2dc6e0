"""The service under twice and five times the load that it can serve.

    python benchmarks/overload.py                     about two minutes

First its capacity: twice as many clients as workers, each with one request at a time. Then twice that rate, and five
times, is offered for 60 s in all, whatever comes back (an open loop), while probes go on. Then one request at a time
until the service is as fast as before, and its capacity once more, as a shared machine may have become slower or faster
meanwhile. Limits: at five times at least 90 % of the requests are answered within their deadline (degraded is fine: the
answer lists what was left out), the others with 503 and Retry-After within 20 ms; at twice no 504; no failed probe;
recovery within 5 s.

Service and client share the cores of the machine. The client collects no garbage while it measures: a full collection
of its many rows would stop it for 70 to 200 ms. The last line reports stalls of the machine itself during the flood:
how long, on each core, a process that sleeps 20 ms at a time was kept from running, at real-time priority where that is
permitted. Raw rows go to benchmarks/rows/overload.csv.gz.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import asyncio
import contextlib
import csv
import gc
import gzip
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

import setwise as sw
from retrieval import trained
from setwise._validation import available_cores

TIMES = {2: 1 / 3, 5: 2 / 3}  # the offered rates, in capacities, and their shares of the time
DEADLINE_MS = 2000.0  # the default of the service
EVERY_S = 0.1  # between two probes
LOOK_S = 0.02  # between two checks for stalls: 2 ms would take 3.5 % of each core
Row = dict[str, object]


class Line(asyncio.Protocol):
    """A kept-alive connection: one request, then its response."""

    def connection_made(self, transport: Any) -> None:
        self._transport, self._got, self._callback = transport, b"", None

    @property
    def open(self) -> bool:
        """Whether the service has not closed it, as it does with one connection too many."""
        return not self._transport.is_closing()

    def send(self, request: bytes, callback: Callable[[bytes, bytes], None]) -> None:
        self._callback = callback
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
            self._answer(head, body)

    def connection_lost(self, _: Exception | None) -> None:
        if self._callback is not None:
            self._answer(b"", b"")

    def _answer(self, head: bytes, body: bytes) -> None:
        callback, self._got, self._callback = self._callback, b"", None
        callback(head, body)


class Client:
    """Raw HTTP without tasks or streams: as little work as possible, as the service has the same cores."""

    def __init__(self, port: int, bodies: list[bytes]) -> None:
        self._port, self._idle = port, []
        head = "POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
        self._requests = [head.format(len(body)).encode() + body for body in bodies]
        self.rows: list[Row] = []

    def ask(self, phase: str, number: int) -> asyncio.Future[Row]:
        return self._exchange(phase, "recommend", self._requests[number % len(self._requests)])

    def probe(self, phase: str, path: str) -> asyncio.Future[Row]:
        return self._exchange(phase, path, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def _exchange(self, phase: str, what: str, request: bytes) -> asyncio.Future[Row]:
        loop = asyncio.get_running_loop()
        while self._idle and not self._idle[-1].open:
            self._idle.pop()
        if not self._idle:
            return loop.create_task(self._first(phase, what, request))
        line, answered, start = self._idle.pop(), loop.create_future(), time.perf_counter()

        def answered_with(head: bytes, body: bytes) -> None:
            now = time.perf_counter()
            row: Row = {
                "phase": phase,
                "what": what,
                "at_s": round(now, 4),
                "status": int(head[9:12] or 0),
                "retry_after": b"retry-after" in head.lower(),
                "left_out": _left_out(body),
                "ms": round(1000 * (now - start), 3),
            }
            self.rows.append(row)
            if head:
                self._idle.append(line)
            if not answered.done():  # cancelled, as the probes are in the end
                answered.set_result(row)

        line.send(request, answered_with)
        return answered

    async def _first(self, phase: str, what: str, request: bytes) -> Row:
        _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", self._port)
        self._idle.append(line)
        return await self._exchange(phase, what, request)


def _left_out(body: bytes) -> str:
    """The last thing that a slate lacks, from its text: the client should not spend time on decoding."""
    end = body[-80:]
    return "search" if b'"search"' in end else "certificate" if b'"certificate"' in end else ""


class Watch:
    """Measures, on each core, how long the machine stalls."""

    def __enter__(self) -> Watch:
        self._lines = []
        for core in os.sched_getaffinity(0):
            ours, theirs = multiprocessing.Pipe()
            multiprocessing.Process(target=_watch, args=(core, theirs), daemon=True).start()
            self._lines.append(ours)
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.send(None)
        self.stalls = [line.recv() for line in self._lines]


def _watch(core: int, line: Any) -> None:
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    longest, last = 0.0, time.perf_counter()
    while not line.poll(LOOK_S):
        now = time.perf_counter()
        longest, last = max(longest, 1000 * (now - last - LOOK_S)), now
    line.send(longest)


async def capacity(client: Client, seconds: float, clients: int) -> float:
    """Responses a second when every client waits for its response."""
    end = time.perf_counter() + seconds
    done = 0

    async def one_client(number: int) -> None:
        nonlocal done
        while time.perf_counter() < end:
            row = await client.ask("capacity", number)
            done += row["status"] == 200
            number += clients

    await asyncio.gather(*(one_client(number) for number in range(clients)))
    return done / seconds


async def flood(client: Client, phase: str, seconds: float, rate: float) -> float:
    """Send requests at this rate, whatever comes back; responses with status 200 a second."""
    start = time.perf_counter()
    asked: list[asyncio.Future[Row]] = []
    probing = asyncio.create_task(probes(client, phase))
    for number in range(int(rate * seconds)):
        wait = start + number / rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        asked.append(client.ask(phase, number))
    end = time.perf_counter()
    probing.cancel()
    # waiting for those that are done, or counting, would take 70 ms in which no response is read
    await asyncio.gather(*(one for one in asked if not one.done()))
    good = sum(one.result()["status"] == 200 and one.result()["at_s"] <= end for one in asked)
    return good / (end - start)


async def probes(client: Client, phase: str) -> None:
    while True:
        for path in ("/healthz", "/readyz"):
            await client.probe(phase, path)
        await asyncio.sleep(EVERY_S)


async def recovery(client: Client, usual_ms: float) -> float:
    """Seconds until a single request is answered as fast as before."""
    start = time.perf_counter()
    for number in range(1000):
        row = await client.ask("recovery", number)
        if row["status"] == 200 and row["ms"] <= 1.5 * usual_ms + 5:
            return time.perf_counter() - start
        await asyncio.sleep(0.05)
    return float("inf")


async def experiment(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    gc.disable()
    clients = 2 * options.workers
    for number in range(20):
        await client.ask("warm-up", number)
    alone = [(await client.ask("alone", number))["ms"] for number in range(50)]
    can = await capacity(client, options.seconds / 4, clients)
    with Watch() as machine:
        for times, share in TIMES.items():
            good = await flood(client, phase_of(times), share * options.seconds, times * can)
    took = await recovery(client, float(np.median(alone)))
    after = await capacity(client, options.seconds / 4, clients)
    return {
        "alone": float(np.median(alone)),
        "before": can,
        "after": after,
        "goodput": good,
        "recovery": took,
        "stalls": machine.stalls,
    }


def phase_of(times: int) -> str:
    return f"overload {times}"


def report(rows: list[Row], found: dict[str, Any]) -> None:
    print(
        f"a request alone: p50 {found['alone']:.1f} ms; capacity before {found['before']:.1f}, after {found['after']:.1f} answers a second"
    )
    for times in TIMES:
        report_flood(times, [row for row in rows if row["phase"] == phase_of(times)])
    print(
        f"goodput {found['goodput']:.1f} a second, {2 * found['goodput'] / (found['before'] + found['after']):.1%} of capacity"
    )
    print(f"recovered {found['recovery']:.2f} s after the flood (limit: 5)")
    stalls = ", ".join(f"{stall:.1f}" for stall in found["stalls"])
    print(f"the machine's own longest stall during the flood, by core: {stalls} ms")


def report_flood(times: int, during: list[Row]) -> None:
    asked = [row for row in during if row["what"] == "recommend"]
    probed = [row for row in during if row["what"] != "recommend"]
    statuses = {
        status: sum(row["status"] == status for row in asked) for status in sorted({row["status"] for row in asked})
    }
    unannounced = sum(row["status"] == 503 and not row["retry_after"] for row in asked)
    good = [row for row in asked if row["status"] == 200]
    in_time = sum(row["ms"] <= DEADLINE_MS for row in good)
    lost = {
        name: sum(row["left_out"] == name for row in good) / max(len(good), 1) for name in ("certificate", "search")
    }
    print(f"offered {times} times: answers by status {statuses}; 503 without Retry-After: {unannounced}")
    print(
        f"  answered within the deadline: {in_time / len(asked):.1%}; p50 {np.median([row['ms'] for row in good]):.0f} ms, "
        f"p99 {np.quantile([row['ms'] for row in good], 0.99):.0f}; without certificate only {lost['certificate']:.0%}, "
        f"without certificate and search {lost['search']:.0%}"
    )
    rejected = np.array([row["ms"] for row in asked if row["status"] == 503])
    if len(rejected):
        print(
            f"  rejected in p50 {np.median(rejected):.2f} ms, p99 {np.quantile(rejected, 0.99):.2f}, at most "
            f"{rejected.max():.2f}; within 20 ms: {np.mean(rejected <= 20):.2%} of {len(rejected)}"
        )
    slowest = max(row["ms"] for row in probed)
    failed = sum(row["status"] != 200 for row in probed)
    print(f"  probes: {failed} of {len(probed)} failed, the slowest took {slowest:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--budget-ms", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "rows" / "overload.csv.gz")
    options = parser.parse_args()
    catalog, users = trained(options.items, np.random.default_rng(0))
    bodies = [json.dumps({"vector": user.tolist(), "k": 10, "budget_ms": options.budget_ms}).encode() for user in users]
    with tempfile.TemporaryDirectory() as folder:
        sw.Recommender(sw.Index.build(catalog, cells=64, progress=False)).save(Path(folder) / "artifact")
        command = [sys.executable, "-m", "setwise", "serve", str(Path(folder) / "artifact"), "--port", "0"]
        process = subprocess.Popen([*command, "--workers", str(options.workers)], stderr=subprocess.PIPE, text=True)
        try:
            client = Client(json.loads(process.stderr.readline())["port"], bodies)
            found = uvloop.run(experiment(client, options))
        finally:
            process.terminate()
            process.wait()
    with gzip.open(options.out, "wt", newline="") as file:
        writer = csv.DictWriter(file, ("phase", "what", "at_s", "status", "retry_after", "left_out", "ms"))
        writer.writeheader()
        writer.writerows(client.rows)
    report(client.rows, found)


if __name__ == "__main__":
    main()
