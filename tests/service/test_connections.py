"""Connections over raw sockets: framing, pipelining, upgrades, and every limit of one client."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from raw_http import BODY, HEALTH, Client, head, received, send_all
from services import Here, Running, here, post, running

from processes import until

MEGABYTE = 1 << 20


@pytest.fixture
def client(service: Here) -> Iterator[Client]:
    with Client(service) as client:
        yield client


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[Running]:
    """A service in a process of its own, so that its memory can be measured."""
    with running(folder, "--workers", "1", "--unread-ms", "1500", "--deadline-ms", "30000") as service:
        post(service, "/v1/recommend", {"history": []})
        yield service


def is_slate(response: tuple[int, dict[str, str], bytes]) -> bool:
    return response[0] == 200 and len(json.loads(response[2])["items"]) == 2


# --- framing ---


def test_a_request_in_one_piece_or_several(client: Client) -> None:
    assert is_slate(client.send(head() + BODY).response())
    for pieces in ((head(), BODY), (head()[:9], head()[9:], BODY[:5], BODY[5:])):
        for piece in pieces:
            client.send(piece)
            time.sleep(0.01)
        assert is_slate(client.response())


def test_a_body_after_100_continue(client: Client) -> None:
    client.send(head(len(BODY), "Expect: 100-continue"))
    assert client.response()[0] == 100
    assert is_slate(client.send(BODY).response())


def test_a_long_body(client: Client) -> None:
    """Longer than the read buffer."""
    body = BODY + b" " * 300_000
    assert is_slate(client.send(head(len(body)) + body).response())


def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    client.send(head() + BODY + HEALTH + head() + BODY + head(2) + b"{}" + HEALTH)
    responses = [client.response() for _ in range(5)]
    assert [status for status, *_ in responses] == [200, 200, 200, 422, 200]
    assert is_slate(responses[0])
    assert is_slate(responses[2])
    assert is_slate(client.send(head() + BODY).response())


def test_many_pipelined_errors(client: Client) -> None:
    client.send((head(2) + b"{}") * 500)
    assert [client.response()[0] for _ in range(500)] == [422] * 500


def test_pipelined_requests_are_computed_one_at_a_time(folder: Path) -> None:
    """The next request of a connection is not parsed before the response to the last one."""
    with here(folder, budget_ms=300) as service, Client(service) as client:
        client.send((head() + BODY) * 10)
        most = 0
        for _ in range(10):
            most = max(most, len(service.queue))
            assert client.response()[0] == 200
        assert most <= 1


def test_the_end_of_a_connection(service: Here, client: Client) -> None:
    assert is_slate(client.send(head(len(BODY), "Connection: close") + BODY).response())
    assert client.is_closed()
    for rest in (b"", BODY[:5], BODY):  # closed before the body, within it, before the response
        with Client(service) as other:
            other.send(head() + rest)
    with Client(service) as other:
        assert is_slate(other.send(head() + BODY).response())


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",  # no Host
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX : a\r\n\r\n",
        b"GET /\x00healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
@pytest.mark.promise("fuzz")
def test_invalid_http_is_answered_400(client: Client, data: bytes) -> None:
    status, headers, body = client.send(data).response()
    assert status == 400
    assert headers["connection"] == "close"
    assert headers["x-content-type-options"] == "nosniff"
    assert json.loads(body)["error"]["code"] == "bad_request"


def chunked(size: int, count: int) -> bytes:
    """A request whose body has ``count`` chunks of ``size`` spaces, and then the usual content."""
    lines = ("POST /v1/recommend HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "", "")
    last = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    return "\r\n".join(lines).encode() + (b"%x\r\n%b\r\n" % (size, b" " * size)) * count + last


def test_a_response_before_the_chunks_of_its_request(client: Client) -> None:
    """They are not parsed, nor is what follows: the next request on the connection had no response, and no warning."""
    whole = chunked(100, 3).replace(b"/v1/recommend", b"/nowhere")
    status, headers, _ = client.send(whole).response()
    assert (status, headers.get("connection")) == (404, None)
    at = whole.index(b"\r\n\r\n") + 4
    status, headers, _ = client.send(whole[:at]).response()
    assert (status, headers.get("connection")) == (404, "close")
    client.send(whole[at:])
    assert client.is_closed()


def test_many_small_chunks_are_refused(service: Here, client: Client) -> None:
    """A megabyte in chunks of a byte would hold up the event loop for many seconds."""
    assert is_slate(client.send(chunked(1, 4000)).response())
    assert is_slate(client.send(chunked(100, 9000)).response())
    status, _, body = client.send(chunked(1, 4200)).response()
    assert (status, "its chunks are too small" in body.decode()) == (400, True)
    assert client.is_closed()
    with Client(service) as other:
        assert other.send(HEALTH).response()[0] == 200


def test_long_extensions_of_chunks_are_refused(service: Here, client: Client) -> None:
    """They are not part of the body, whose limit does not end them."""
    few, many = (chunked(64, count).replace(b"\r\n40\r\n", b"\r\n40;%b\r\n" % (b"x" * 15_000)) for count in (8, 80))
    assert is_slate(client.send(few).response())
    status, _, body = client.send(many).response()
    assert (status, "their extensions too long" in body.decode()) == (400, True)
    with Client(service) as other:
        assert other.send(HEALTH).response()[0] == 200


@pytest.mark.parametrize("half_closed", [False, True])
def test_bodies_that_are_parsed_in_many_turns(client: Client, half_closed: bool) -> None:
    """One after the other on a connection, sent at once, and with requests without a body between them."""
    client.send(chunked(64, 3000) + HEALTH + chunked(1, 500) + chunked(70, 2000) + HEALTH)
    if half_closed:
        client.socket.shutdown(socket.SHUT_WR)
    for expected in ("slate", "health", "slate", "slate", "health"):
        status, headers, body = client.response()
        assert is_slate((status, headers, body)) if expected == "slate" else b"alive" in body


def test_bodies_of_many_turns_on_many_connections(service: Here) -> None:
    """Some are closed in the middle of a body, one is answered 400; every other one has its slate."""
    whole, small = chunked(64, 3000), chunked(1, 4200)
    with ExitStack() as opened:
        clients = [opened.enter_context(Client(service)) for _ in range(24)]
        senders = [
            threading.Thread(target=client.send, args=((whole, small, whole[:100_000])[number % 3],))
            for number, client in enumerate(clients)
        ]
        for sender in senders:
            sender.start()
        with Client(service) as other:
            assert other.send(HEALTH).response()[0] == 200
        for sender in senders:
            sender.join()
        for abandoned in clients[2::3]:
            abandoned.socket.close()
        assert all(is_slate(client.response()) for client in clients[::3])
        assert {client.response()[0] for client in clients[1::3]} == {400}


def test_invalid_chunks_after_a_head(service: Here, client: Client) -> None:
    lines = ("POST /v1/recommend HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "", "not a length\r\n")
    client.send("\r\n".join(lines).encode())
    assert client.response()[0] == 400
    with Client(service) as other:
        assert is_slate(other.send(head() + BODY).response())


# --- upgrades ---


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "anything"])
@pytest.mark.parametrize("path", ["/v1/recommend", "/healthz"])
def test_the_body_of_an_upgrade_is_never_a_request(service: Here, protocol: str, path: str) -> None:
    inner = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    upgrade = ("Connection: Upgrade", f"Upgrade: {protocol}", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: YQ==")
    before = scrapes(service)
    for method in ("POST", "GET"):
        with Client(service) as client:
            client.send(head(len(inner), *upgrade, path=path, method=method) + inner + HEALTH)
            assert client.response()[0] in (200, 400, 405)
            status, _, body = client.response()
            assert (status, json.loads(body)) == (200, {"status": "alive"})
            client.send(head(0, "Connection: close", path="/readyz", method="GET"))
            assert client.response()[0] == 200
            assert client.is_closed()
    assert scrapes(service) == before


def scrapes(service: Here) -> list[str]:
    """The counts of responses of /metrics."""
    return [line for line in service.metrics.text().decode().splitlines() if 'route="/metrics"' in line]


# --- limits of one connection ---


@pytest.mark.promise("settings")
def test_the_size_of_a_head(folder: Path) -> None:
    """At the limit, and one byte above it; complete in one piece, or without an end."""
    with here(folder, head_bytes=2048) as service:
        for extra, expected in ((0, 200), (1, 431)):
            with Client(service) as client:
                fixed = len("/healthz") + len("Hostlocalhost") + len("X") + 2 * 4
                client.send(
                    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (2048 - fixed + extra) + b"\r\n\r\n"
                )
                assert client.response()[0] == expected
        with Client(service) as client:
            status, headers, body = client.send(b"GET /" + b"a" * 5000).response()
            assert (status, headers["connection"]) == (431, "close")
            assert b"at most 2048 bytes and 100 headers" in body


@pytest.mark.promise("settings")
def test_the_number_of_headers(folder: Path) -> None:
    with here(folder, headers=10) as service:
        for count, expected in ((9, 200), (10, 431)):
            with Client(service) as client:
                more = b"".join(b"X-%d: 1\r\n" % number for number in range(count))
                client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n")
                assert client.response()[0] == expected


@pytest.mark.nightly
@pytest.mark.promise("slow-clients")
def test_pipelined_requests_without_reading(process: Running, request) -> None:
    """40 MB of requests and no response read: the service stops reading, keeps little, and closes."""
    size = 40 * MEGABYTE if request.config.getoption("--large") else 4 * MEGABYTE
    before = process.megabytes()
    with process.raw(timeout=1) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        send_all(raw, HEALTH * 1000, size)
        assert process.megabytes() < before + 20
        assert process.client.get("/healthz").status_code == 200
        until(lambda: send_all(raw, HEALTH, 1) == 0)  # the service has closed the connection
    assert process.megabytes() < before + 20


@pytest.mark.parametrize("line", [b"X-%d: %s\r\n", b"%d%s"])
@pytest.mark.promise("slow-clients")
def test_endless_headers(process: Running, request, line: bytes) -> None:
    """Many headers, and one header value of 133 MiB."""
    size = 133 * MEGABYTE if request.config.getoption("--large") else 8 * MEGABYTE
    before = process.megabytes()
    with process.raw(timeout=60) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        send_all(raw, b"".join(line % (number, b"a" * 100) for number in range(1000)), size)
        assert process.client.get("/healthz").status_code == 200
        assert received(raw).startswith(b"HTTP/1.1 431")
    assert process.megabytes() < before + 20


@pytest.mark.promise("slow-clients")
def test_unfinished_bodies(process: Running, count) -> None:
    """200 bodies of 1 MB that lack their last byte cost at most 50 MB, and small requests are answered meanwhile."""
    before = process.megabytes()
    clients = [process.raw(timeout=60) for _ in range(count(200))]
    for raw in clients:
        send_all(raw, head(MEGABYTE), 1)
        send_all(raw, b" " * (MEGABYTE - 1), 1)
    assert process.megabytes() < before + 50
    assert post(process, "/v1/recommend", {"history": [], "k": 2})["items"]
    for raw in clients:
        raw.close()


@pytest.mark.promise("settings")
def test_all_bodies_share_a_budget(folder: Path) -> None:
    """The budget is given back when bodies are read, fail or are abandoned."""
    with here(folder, bodies_bytes=1 << 18, body_bytes=1 << 18) as service:
        body = BODY + b" " * ((1 << 18) - 1000)
        for _ in range(3):
            with Client(service) as first, Client(service) as second:
                first.send(head(len(body)) + body[:-1])
                until(lambda: service.service.bodies._left < 1 << 16)
                status, headers, text = second.send(head(len(body)) + body).response()
                assert (status, headers["retry-after"]) == (503, "1")
                assert b"too many large bodies" in text
                assert post(service, "/v1/recommend", {"history": [], "k": 2})["items"]
                assert is_slate(first.send(body[-1:]).response())
                first.send(head(len(body)) + body[:-1])
            until(lambda: service.service.bodies._left == 1 << 18)


@pytest.mark.promise("slow-clients")
def test_a_slow_head(folder: Path, count) -> None:
    """Slow loris: heads that arrive byte by byte do not keep their connections."""
    with here(folder, head_ms=1000) as service:
        clients = [Client(service) for _ in range(count(200))]
        for byte in (HEALTH[:1], HEALTH[1:2]):
            for client in clients:
                client.send(byte)
        assert post(service, "/v1/recommend", {"history": [], "k": 2})["items"]
        for client in clients:
            status, headers, _ = client.response()
            assert (status, headers["connection"]) == (408, "close")
            assert client.is_closed()
            client.__exit__()


def test_a_slow_head_after_a_response(folder: Path) -> None:
    with here(folder, head_ms=300) as service, Client(service) as client:
        assert client.send(HEALTH + HEALTH[:5]).response()[0] == 200
        assert client.response()[0] == 408


@pytest.mark.promise("settings")
def test_idle_connections_are_closed(folder: Path) -> None:
    with here(folder, idle_ms=500) as service:
        for first in (b"", HEALTH):
            with Client(service) as client:
                if client.send(first) and first:
                    assert client.response()[0] == 200
                assert client.is_closed()


def test_a_body_after_its_response(service: Here) -> None:
    """A probe with an endless body is answered, and its connection is closed."""
    with Client(service) as client:
        client.send(head(1 << 40, path="/healthz", method="GET"))
        assert client.response()[0] == 200
        until(lambda: send_all(client.socket, b" ", 1) == 0)


# --- connections ---


@pytest.mark.parametrize("limit", ["connections", "connections_per_address"])
@pytest.mark.promise("settings")
def test_the_number_of_connections(folder: Path, limit: str) -> None:
    with here(folder, **{limit: 3}) as service:
        clients = [Client(service) for _ in range(3)]
        for client in clients:
            assert client.send(HEALTH).response()[0] == 200
        with Client(service) as refused:
            status, headers, body = refused.response()
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
            assert b"Too many connections" in body
            assert refused.is_closed()
        clients.pop().__exit__()

        def admitted() -> bool:
            with Client(service) as client:
                try:
                    return client.send(HEALTH).response()[0] == 200
                except (OSError, IndexError):
                    return False

        until(admitted)
        for client in clients:
            client.__exit__()


# --- clients that end their sending side ---


def half_closed(service: Here | Running, data: bytes) -> bytes:
    """What a client receives that sends this, and then only listens."""
    with service.raw() as raw:
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        return received(raw)


@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
def test_a_client_that_ends_its_sending_side_is_answered(service: Here, version: bytes) -> None:
    text = half_closed(service, (head() + BODY).replace(b"HTTP/1.1", version))
    assert text.startswith(b"HTTP/1.1 200 OK\r\n")
    assert text.count(b"HTTP/1.1") == 1
    assert len(json.loads(text.partition(b"\r\n\r\n")[2])["items"]) == 2
    assert half_closed(service, HEALTH).startswith(b"HTTP/1.1 200 OK\r\n")
    assert half_closed(service, head(2) + b"{}").startswith(b"HTTP/1.1 422 ")
    until(lambda: not connections_of(service))


def connections_of(service: Here) -> int:
    """Open connections, but for those of the test's own client."""
    service.client.get("/healthz")  # lets the client forget those that the service closed while they were idle
    own = len(service.client._transport._pool.connections)
    return len(service._server.server_state.connections) - own


def test_both_ends_on_the_event_loop_of_the_command(process: Running) -> None:
    """That of uvloop, where it is installed."""
    assert half_closed(process, head() + BODY).startswith(b"HTTP/1.1 200 OK\r\n")
    shed = r'setwise_sheds_total{why="disconnect"} ([1-9]\d*)'

    def some_are_shed() -> bool:
        for _ in range(30):  # 100 ms each, if they were computed
            with Client(process) as client:
                client.send(head() + BODY)
        time.sleep(0.5)
        return re.search(shed, process.client.get("/metrics").text) is not None

    until(some_are_shed)


def test_pipelined_requests_before_the_end_are_answered(service: Here) -> None:
    text = half_closed(service, head() + BODY + HEALTH + head(2) + b"{}" + head() + BODY)
    assert re.findall(rb"HTTP/1.1 (\d+) ", text) == [b"200", b"200", b"422", b"200"]


@pytest.mark.parametrize("data", [b"", head()[:20], head(), head() + BODY[:5], head() + BODY + head() + BODY[:5]])
def test_an_incomplete_request_before_the_end_is_not_awaited(service: Here, data: bytes) -> None:
    text = half_closed(service, data)
    assert text.count(b"HTTP/1.1 200") == data.count(BODY)
    until(lambda: not connections_of(service))


def test_an_end_while_the_service_shuts_down(folder: Path) -> None:
    with here(folder, budget_ms=1000) as service, service.raw() as raw:
        raw.sendall(head() + BODY)
        raw.shutdown(socket.SHUT_WR)
        until(lambda: connections_of(service))
        service._server.should_exit = True
        assert received(raw).startswith(b"HTTP/1.1 200 OK\r\n")


def test_abandoned_requests_are_not_computed(folder: Path, count) -> None:
    """Clients that send a request and close while the worker is busy, here suspended: what is queued is dropped."""

    def dropped() -> int:
        found = re.findall(rb'setwise_sheds_total{why="disconnect"} (\d+)', service.metrics.text())
        return int(found[0]) if found else 0

    with here(folder) as service:
        (worker,) = service.workers()
        os.kill(worker, signal.SIGSTOP)
        with Client(service) as computing:
            computing.send(head() + BODY)
            for _ in range(count(200)):
                with Client(service) as client:
                    client.send(head() + BODY)
            until(lambda: dropped() >= count(200) // 2)
            os.kill(worker, signal.SIGCONT)
            assert is_slate(computing.response())


@pytest.mark.promise("slow-clients")
def test_the_system_buffers_little_for_a_client_that_does_not_read(process: Running) -> None:
    """Responses of 6 MB without reading: the service makes few of them, where the system would buffer megabytes."""
    request = b"GET /docs/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    size = len(process.client.get("/docs/openapi.json").content)

    def answered() -> int:
        line = re.search(
            r'setwise_requests_total\{route="/docs/openapi.json",status="200"\} (\d+)',
            process.client.get("/metrics").text,
        )
        return int(line[1]) if line else 0

    before, count = answered(), 200
    with process.raw(timeout=1) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        raw.sendall(request * count)
        until(lambda: answered() > before)
        time.sleep(1)  # more would be made meanwhile
        made = answered() - before
        assert 0 < made * size < 2 * MEGABYTE, made
