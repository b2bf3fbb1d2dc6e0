"""The straight way to a slate: who takes it, who is let go the way of all others, and that both say the same."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from services import Here, here

from setwise.service import http as app
from setwise.service import straight
from setwise.service.queue import Admission
from setwise.service.straight import Straight

BODY = json.dumps({"history": ["song-1"], "k": 2}).encode()
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def head(length: int = len(BODY), *more: str, path: str = "/v1/recommend") -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *more, "", "")
    return "\r\n".join(lines).encode()


class Line:
    """A connection, and whole answers from it: status, headers and body."""

    def __init__(self, service: Here) -> None:
        self._socket = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        self._file = self._socket.makefile("rb")

    def send(self, *pieces: bytes) -> Line:
        for piece in pieces:
            self._socket.sendall(piece)
        return self

    def hear(self) -> tuple[int, dict[str, str], bytes]:
        status = int(self._file.readline().split()[1])
        lines = iter(self._file.readline, b"\r\n")
        headers = dict(line.decode().rstrip().lower().split(": ", 1) for line in lines)
        return status, headers, self._file.read(int(headers.get("content-length", 0)))

    def ended(self) -> bool:
        return self._file.read() == b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


@pytest.fixture
def line(service: Here) -> Iterator[Line]:
    with Line(service) as line:
        yield line


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What went the way of all others."""
    gone: list[object] = []
    submit = Admission.submit

    async def noted(self: Admission, task: object) -> bytes:
        gone.append(task)
        return await submit(self, task)

    monkeypatch.setattr(Admission, "submit", noted)
    return gone


def is_slate(answer: tuple[int, dict[str, str], bytes]) -> bool:
    return answer[0] == 200 and len(json.loads(answer[2])["items"]) == 2


def test_in_one_piece_or_some(line: Line, around: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight, "QUICK_S", 60.0)
    assert is_slate(line.send(head() + BODY).hear())
    for pieces in ((head(), BODY), (head()[:9], head()[9:], BODY[:5], BODY[5:])):
        for piece in pieces:
            line.send(piece)
            time.sleep(0.01)
        assert is_slate(line.hear())
    assert around == []


def test_slowly(line: Line, around: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, kept = Straight._let_go, []
    monkeypatch.setattr(straight, "QUICK_S", 0.001)
    monkeypatch.setattr(Straight, "_let_go", lambda self: kept.append(let_go(self)))
    line.send(head())
    while not kept:
        time.sleep(0.001)
    assert is_slate(line.send(BODY[:5], BODY[5:]).hear())
    assert len(around) == 1
    assert is_slate(line.send(head() + BODY).hear())
    assert len(around) == len(kept) == 1


def test_a_body_that_is_waited_for(line: Line, around: list[object]) -> None:
    line.send(head(len(BODY), "Expect: 100-continue"))
    assert line.hear()[0] == 100
    assert is_slate(line.send(BODY).hear())
    assert len(around) == 1


def test_a_long_body(line: Line, around: list[object]) -> None:
    """Longer than the server keeps unread: reading goes on."""
    body = BODY + b" " * 300_000
    assert is_slate(line.send(head(len(body)) + body).hear())
    assert len(around) == 1


def test_too_long_a_body(folder: Path) -> None:
    body = BODY + b" " * 1024
    with here(folder, body_bytes=1024) as service, Line(service) as line:
        status, headers, said = line.send(head(len(body)) + body).hear()
    assert status == 413
    assert headers["connection"] == "close"
    assert b"at most 1024 bytes" in said


def test_several_at_once(line: Line, around: list[object]) -> None:
    """Answered in turn, whatever they ask: the first goes straight, the others have to wait for it."""
    line.send(head() + BODY + HEALTH + head() + BODY + head(2) + b"{}" + HEALTH)
    answers = [line.hear() for _ in range(5)]
    assert [status for status, *_ in answers] == [200, 200, 200, 422, 200]
    assert is_slate(answers[0])
    assert is_slate(answers[2])
    assert len(around) == 1
    assert is_slate(line.send(head() + BODY).hear())
    assert len(around) == 1


def test_refusals_at_once(line: Line, around: list[object]) -> None:
    """Nothing waits here, so all of them go straight."""
    line.send((head(2) + b"{}") * 2000)
    assert [line.hear()[0] for _ in range(2000)] == [422] * 2000
    assert around == []


def test_the_end_of_a_connection(service: Here, line: Line) -> None:
    assert is_slate(line.send(head(len(BODY), "Connection: close") + BODY).hear())
    assert line.ended()
    for rest in (b"", BODY[:5], BODY):  # gone before the body, in it, before the answer
        with Line(service) as other:
            other.send(head() + rest)
    with Line(service) as other:
        assert is_slate(other.send(head() + BODY).hear())


def test_what_is_no_http_after_a_head(service: Here, line: Line) -> None:
    line.send(head(len(BODY), "Transfer-Encoding: chunked") + b"not a length\r\n")
    assert line.hear()[0] == 400
    assert line.ended()
    with Line(service) as other:
        assert is_slate(other.send(head() + BODY).hear())


@pytest.mark.parametrize("body", [BODY, b"{}", b"[1]", b'{"history": ["nobody"]}', b'{"history": ["song-1"], "k": 0}'])
def test_both_ways_say_the_same(line: Line, around: list[object], body: bytes) -> None:
    """A slash at the end of the path leads around."""
    one = line.send(head(len(body)) + body).hear()
    assert around == []
    other = line.send(head(len(body), path="/v1/recommend/") + body).hear()
    assert one[0] == other[0]
    assert set(one[1]) == set(other[1])
    if one[0] == 200:
        assert json.loads(one[2])["items"] == json.loads(other[2])["items"]
    else:
        assert one[2] == other[2]
        for headers in (one[1], other[1]):
            headers.pop("date")
        assert one[1] == other[1]


def test_an_accident_is_told_without_details(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("/a/path that nobody may see")

    monkeypatch.setattr(app, "ask", fails)
    status, _, said = line.send(head() + BODY).hear()
    assert status == 500
    assert b"operator's log" in said
    assert b"path" not in said
    monkeypatch.undo()
    assert is_slate(line.send(head() + BODY).hear())


def test_every_kind_of_answer_over_one_connection(line: Line) -> None:
    """With a body and refused: each arrives whole and once."""
    for _ in range(2):
        assert is_slate(line.send(head() + BODY).hear())
        assert line.send(HEALTH).hear()[0] == 200
        assert line.send(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n").hear()[0] == 404
