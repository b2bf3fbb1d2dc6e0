"""Head and body in one piece; a head that no body follows goes out all the same."""

from __future__ import annotations

import asyncio
import json
import socket

from services import Here

from setwise.serving.joined import Joined

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Written:
    """What a transport would send, call by call."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.closed = False
        self.name = "written"

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.pieces.append(data)

    def close(self) -> None:
        self.closed = True


def test_a_head_waits_for_its_body_but_not_longer_than_a_turn() -> None:
    async def scenario() -> None:
        transport = Written()
        joined = Joined(transport)  # type: ignore[arg-type]
        assert joined.name == "written"
        joined.write(HEAD)
        assert transport.pieces == []
        joined.write(b"body")
        assert transport.pieces == [HEAD + b"body"]
        joined.write(b"more of it")
        await asyncio.sleep(0)
        assert transport.pieces == [HEAD + b"body", b"more of it"]
        joined.write(HEAD)
        await asyncio.sleep(0)
        assert transport.pieces[2:] == [HEAD], "nothing followed"
        joined.write(HEAD)
        joined.write(HEAD)
        assert transport.pieces[3:] == [HEAD + HEAD], "a body may look like the end of a head"
        joined.write(HEAD)
        joined.close()
        assert transport.pieces[4:] == [HEAD]
        assert transport.closed
        await asyncio.sleep(0)
        assert len(transport.pieces) == 5

    asyncio.run(scenario())


def test_answers_over_one_connection(service: Here) -> None:
    """Of every kind: with a body, without, refused; each arrives whole and once."""
    body = json.dumps({"history": ["song-1"], "k": 2})
    requests = [
        f"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}",
        "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    with socket.create_connection(("127.0.0.1", service.port)) as raw:
        raw.settimeout(10)
        for request in requests * 2:
            raw.sendall(request.encode())
            got = raw.recv(1 << 16).decode()
            assert got.startswith("HTTP/1.1 ")
            head, _, rest = got.partition("\r\n\r\n")
            length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
            assert len(rest.encode()) == (0 if request.startswith("HEAD") else length)
