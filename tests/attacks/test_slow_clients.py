"""Many slow heads and endless bodies at once: little memory, and honest requests are answered meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from raw_http import HEALTH
from services import Running, post, running

pytestmark = [pytest.mark.nightly, pytest.mark.promise("slow-clients")]
MOST_MB = 64.0  # that memory may grow: the service may hold 24 MiB of bodies
CHUNK = b"10000\r\n" + b" " * (1 << 16) + b"\r\n"
STREAM = b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
ANNOUNCED = b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n"


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[Running]:
    with running(folder, "--workers", "1", "--head-ms", "2000", "--deadline-ms", "30000") as service:
        post(service, "/v1/recommend", {"history": ["song-1"], "k": 2})
        yield service


async def loris(port: int, end: asyncio.Event) -> bytes:
    """Send a head byte by byte until the service answers or closes; what it answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.ensure_future(reader.read(1 << 16))
    with contextlib.suppress(ConnectionError):
        for byte in itertools.chain(HEALTH[:-4], itertools.repeat(ord("x"))):
            writer.write(bytes([byte]))
            done, _ = await asyncio.wait([answer], timeout=0.2)
            if done or end.is_set():
                break
    writer.close()
    try:
        return await answer
    except ConnectionError:
        return b""
    finally:
        await close(writer)


async def stream(port: int, start: bytes, size: int) -> tuple[int, bytes]:
    """Send up to ``size`` bytes until the service has answered and closes; the bytes sent, and the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.ensure_future(reader.read(1 << 16))
    sent = 0
    with contextlib.suppress(ConnectionError):
        writer.write(start)
        while sent < size and not (answer.done() and writer.is_closing()):
            writer.write(CHUNK)
            await asyncio.wait_for(writer.drain(), 30)
            sent += 1 << 16
    writer.close()
    try:
        return sent, await asyncio.wait_for(answer, 30)
    except ConnectionError:
        return sent, b""
    finally:
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once, whatever of its data was not sent."""
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def honest(service: Running, end: asyncio.Event) -> int:
    """Requests and probes, one after the other, until the end; every one must be answered."""
    answered = 0
    while not end.is_set() or not answered:
        await asyncio.to_thread(post, service, "/v1/recommend", {"history": ["song-1"], "k": 2, "budget_ms": 5})
        probe = await asyncio.to_thread(service.client.get, "/readyz")
        assert probe.status_code == 200
        answered += 2
        await asyncio.sleep(0.02)
    return answered


def test_slow_heads(process: Running, count, record_property) -> None:
    number = count(200, 5)

    async def attack(service: Running) -> tuple[list[bytes], int, float]:
        end = asyncio.Event()
        others = asyncio.ensure_future(honest(service, end))
        slow = [asyncio.ensure_future(loris(service.port, asyncio.Event())) for _ in range(number)]
        await asyncio.sleep(1)
        grown = service.megabytes()
        answers = await asyncio.gather(*slow)
        end.set()
        return answers, await others, grown

    before = process.megabytes()
    answers, answered, during = asyncio.run(attack(process))
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers)
    record_property("seen", f"{number} slow heads: {during - before:+.1f} MB, {answered} honest requests answered")
    assert during - before < MOST_MB


@pytest.mark.parametrize("start", [STREAM, ANNOUNCED], ids=["chunked", "announced"])
def test_endless_bodies(process: Running, count, large: bool, record_property, start: bytes) -> None:
    """Each is refused after a mebibyte, or when all together hold too much, and is not read for long after that."""
    number, size = count(100, 5), (1 << 30) if large else (8 << 20)

    async def attack(service: Running) -> tuple[list[tuple[int, bytes]], int]:
        end = asyncio.Event()
        others = asyncio.ensure_future(honest(service, end))
        answers = await asyncio.gather(*(stream(service.port, start, size) for _ in range(number)))
        end.set()
        return answers, await others

    before = process.megabytes()
    answers, answered = asyncio.run(attack(process))
    grown = process.megabytes() - before
    statuses = [answer[9:12] for _, answer in answers if answer]
    assert set(statuses) <= {b"413", b"503"}, set(statuses)
    assert b"413" in statuses
    longest = max(sent for sent, _ in answers) / 1e6
    record_property(
        "seen",
        f"{number} endless bodies: {grown:+.1f} MB, at most {longest:.0f} MB of one sent, {answered} honest requests answered",
    )
    assert grown < MOST_MB
