"""Mutated requests over raw sockets: none causes an internal error, none keeps its connection, others are answered."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_http import BODY, HEALTH, Client, head
from services import here

from setwise.service.http import ROUTES

pytestmark = [pytest.mark.nightly, pytest.mark.promise("fuzz")]
AT_ONCE = 64  # connections
TOKENS = (
    b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\x00", b" ", b"\t", b":", b"/", b"?", b"%", b"\xff\xfe", b"HTTP/1.1", b"HTTP/9.9", b"HTTP/2.0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"Content-Length: 0\r\n", b"Content-Length: -1\r\n", b"Content-Length: 1e3\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Content-Length: 5, 6\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: identity\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"5;a=b\r\nhello\r\n",
    b"Host: \r\n", b"Host: localhost\r\n", b"Connection: close\r\n", b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Expect: 100-continue\r\n", b"Origin: null\r\n", b"Origin: http://[::1\r\n", b"Authorization: Bearer \xff\r\n",
    b"X: " + b"y" * 3000 + b"\r\n", b"X: y\r\n" * 120, b" folded: line\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /healthz HTTP/1.1\r\n",
)  # fmt: skip


def corpus() -> list[bytes]:
    """Valid requests: of every route, with bodies in one piece and in chunks."""
    chunked = (
        b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    made = [chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY), HEALTH * 3]
    outcomes = json.dumps({"outcomes": [{"slate": "x", "item": "song-1"}]}).encode()
    bodies = {"/v1/recommend/batch": b'{"requests": [%b]}' % BODY, "/v1/outcomes": outcomes}
    for route in ROUTES:
        body = bodies.get(route.path, BODY) if route.method == "POST" else b""
        made.append(head(len(body), "Connection: close", path=route.path, method=route.method) + body)
    return made


def mutant(rng: random.Random, known: list[bytes]) -> list[bytes]:
    """A request that is changed in some places, in the pieces in which it is sent."""
    raw = bytearray(rng.choice(known))
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(raw)) if raw else 0
        end = min(len(raw), at + rng.randrange(1, 40))
        way = rng.randrange(7)
        if way == 0 and raw:
            raw[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            del raw[at:end]
        elif way == 2:
            raw[at:at] = raw[at:end] * rng.randrange(1, 5)
        elif way == 3:
            raw[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif way == 4 and rng.random() < 0.3:
            del raw[at:]
        elif way == 5 and rng.random() < 0.3:
            raw += rng.choice(known)
        else:
            raw[at:at] = rng.choice(TOKENS)
    cuts = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    return [bytes(raw[a:b]) for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


async def answer(port: int, pieces: list[bytes], limit: asyncio.Semaphore) -> bytes:
    """What arrives until the service closes the connection, which it must."""
    async with limit:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(60):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                while part := await reader.read(1 << 16):
                    parts.append(part)
        except ConnectionError:
            pass  # closed before all was sent or read
        finally:
            writer.close()
        return b"".join(parts)


class Honest:
    """Sends a request and a probe by turns, each on a connection of its own, until it is stopped; the statuses."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self.statuses: list[int] = []
        self._connect, self._stop = connect, threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        while not self._stop.wait(0.02):
            with self._connect() as client:
                message = HEALTH if len(self.statuses) % 2 else head() + BODY
                self.statuses.append(client.send(message).response()[0])

    def __enter__(self) -> Honest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def test_mutated_requests(folder: Path, tmp_path: Path, count, record_property) -> None:
    rng, known = random.Random(11), corpus()
    mutants = [mutant(rng, known) for _ in range(count(5000, 40))]

    async def attack(port: int) -> list[bytes]:
        limit = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(answer(port, pieces, limit) for pieces in mutants))

    quick = {"budget_ms": 2, "head_ms": 3000, "body_ms": 2000, "idle_ms": 4000}
    with here(folder, log=tmp_path / "log", **quick) as service:
        with Honest(lambda: Client(service)) as honest:
            answers = asyncio.run(attack(service.port))
        assert service.client.get("/readyz").status_code == 200
        assert 'status="5' not in service.client.get("/metrics").text
    seen = Counter[int]()
    for pieces, got in zip(mutants, answers, strict=True):
        statuses = [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d{3}) ", got, re.MULTILINE)]
        assert all(status < 500 for status in statuses), (pieces, got[:300])
        assert got == b"" or got.startswith(b"HTTP/1.1 "), (pieces, got[:300])
        seen.update(statuses or [0])
    assert honest.statuses
    assert set(honest.statuses) == {200}
    said = ", ".join(f"{number:,} × {code or 'closed'}" for code, number in sorted(seen.items()))
    record_property("seen", f"{len(mutants):,} mutated requests: {said}; {len(honest.statuses):,} honest ones answered")
    assert min(seen[200], seen[400]) > len(mutants) // 50, seen
