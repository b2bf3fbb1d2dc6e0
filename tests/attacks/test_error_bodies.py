"""Error bodies: one printable sentence each, with nothing of the server in it, whatever the request quotes."""

from __future__ import annotations

import builtins
import random
import re
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from raw_http import Client
from services import Here, here

from attacks.request_bodies import TEXTS, random_body
from setwise.service.http import ROUTES
from setwise.service.http_errors import LONGEST, HttpError, escaped
from setwise.service.schemas import ErrorResponse

pytestmark = [pytest.mark.nightly, pytest.mark.promise("error-bodies")]
BODIES = [route for route in ROUTES if route.method == "POST" and route.request is not None]
KEY = "a-long-and-random-key"
WORDS = (
    "Traceback", 'File "', ".py", "site-packages", "/usr/", "/home/", "/root", "/work", "/tmp", "<class", "object at 0x", "lambda",
    "numpy", "numba", "msgspec", "uvicorn", "h11", "asyncio",
)  # fmt: skip


def internals() -> re.Pattern[str]:
    """The names of all classes of the package that are written in several words, and of Python's exceptions."""
    names = {name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)}
    for module in [*sys.modules.values()]:
        if getattr(module, "__name__", "").startswith("setwise"):
            names |= {name for name, one in vars(module).items() if isinstance(one, type)}
    return re.compile(rf"\b({'|'.join(name for name in names if re.search('[a-z][A-Z]', name))})\b")


INTERNALS = internals()


def check(status: int, raw: bytes, secrets: tuple[str, ...]) -> None:
    """The body of an error is one line of ASCII-safe JSON with a sentence that shows nothing of the server."""
    assert 400 <= status < 500 or status == 503, raw
    assert not any(byte < 32 or byte == 127 for byte in raw), raw
    message = msgspec.json.decode(raw, type=ErrorResponse).error.message
    assert message.isprintable(), message
    assert message.endswith((".", "?", "…")), message
    assert len(message) <= LONGEST + 1
    assert not any(word in message for word in (*WORDS, *secrets)), message
    assert not INTERNALS.search(message), message


def test_bodies(quick: Here, folder: Path, count, record_property) -> None:
    rng, seen = random.Random(5), Counter[int]()
    wanted, sent = count(9000, 60), 0
    while seen.total() < wanted:
        route = rng.choices(BODIES, [8 if route.path == "/v1/recommend" else 1 for route in BODIES])[0]
        response = quick.client.post(route.path, content=random_body(rng, route.request, odd=0.7))
        sent += 1
        if response.status_code != 200:
            seen[response.status_code] += 1
            check(response.status_code, response.content, (str(folder), "setwise-"))
        assert sent < 20 * wanted
    assert min(seen[400], seen[422]) > wanted // 20
    record_property("seen", f"{wanted:,} errors of {sent:,} bodies: {dict(sorted(seen.items()))}")


def hostile_head(rng: random.Random) -> bytes:
    """A head with a hostile text in its path, parameters, method, host, origin or length."""
    text = rng.choice(TEXTS)[:500]
    text = quote(text) if rng.random() < 0.5 else text
    first, header = rng.choice(
        (
            (f"GET /v1/{text} HTTP/1.1", "X: y"),
            (f"GET /v1/items?limit={text} HTTP/1.1", "X: y"),
            (f"{text} / HTTP/1.1", "X: y"),
            ("GET /v1/items HTTP/1.1", f"Host: {text}"),
            ("GET /v1/items HTTP/1.1", f"Origin: {text}"),
            ("GET /v1/items HTTP/1.1", f"Content-Length: {text}"),
        )
    )
    lines = (first, header, "Host: localhost", f"Authorization: Bearer {KEY}", "Connection: close", "", "")
    return "\r\n".join(lines).encode("utf-8", "replace")


def test_heads(folder: Path, count, record_property) -> None:
    rng, wanted, seen = random.Random(6), count(1000), Counter[int]()
    with here(folder, key=KEY) as service:
        while seen.total() < wanted:
            with Client(service) as client:
                status, _, body = client.send(hostile_head(rng)).response()
            if status != 200:
                seen[status] += 1
                check(status, body, (str(folder),))
    record_property("seen", f"{wanted:,} errors of heads: {dict(sorted(seen.items()))}")


def test_refused_artifacts(tmp_path: Path, folder: Path, count) -> None:
    """What is wrong with a folder is said without its path, or that of the copy."""
    served = tmp_path / "secret place"
    served.mkdir()
    content = {entry.name: entry.read_bytes() for entry in folder.iterdir()}

    def write(changed: dict[str, bytes]) -> None:
        for name, raw in (content | changed).items():
            (served / name).write_bytes(raw)

    write({})
    with here(served, key=KEY) as service:
        damages = ({"manifest.json": b"{}"}, {"manifest.json": b"\x1b[31m"}, dict.fromkeys(content, b""))
        for changed in damages[: count(3, 1)]:
            write(changed)
            response = service.client.post("/admin/reload")
            check(response.status_code, response.content, ("secret place", "setwise-", str(tmp_path)))


@pytest.mark.parametrize("text", ["a\rb\nc", "\x1b[31m", "\x00", "\x7f", "\u202e", "\u2028", "\ud800", "\x85"])
def test_control_characters_are_escaped(text: str) -> None:
    assert escaped(text).isascii()
    message = msgspec.json.decode(HttpError(422, "x", f"got {text}.").body())["error"]["message"]
    assert message.isprintable()
    assert message == f"got {escaped(text)}."


def test_long_messages_are_cut() -> None:
    assert len(HttpError(422, "x", "\x00" * 10_000).as_dict()["error"]["message"]) == LONGEST + 1
    assert HttpError(422, "x", "é" * LONGEST).as_dict()["error"]["message"] == "é" * LONGEST
