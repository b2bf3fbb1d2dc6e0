"""Authentication and hosts: every route by every spelling of its path, over raw sockets."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from raw_http import Client
from services import Here, here

from setwise.errors import InvalidInput
from setwise.service.hosts import AllowedHosts
from setwise.service.http import ROUTES, all_routes

pytestmark = pytest.mark.promise("keys")

KEY = "a-long-and-random-key"
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "X")
OPEN = {"/", "/healthz", "/readyz", "/metrics", "/docs", "/docs/openapi.json"}
DENIED = {400, 401, 404, 405}


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Here]:
    with here(folder, key=KEY) as service:
        yield service


def spellings(path: str) -> list[str]:
    """Ways to write a path that some server or framework takes for the path itself."""
    first, rest = path[1:2], path[2:]
    encoded = f"/%{ord(first):02x}{rest}" if first else "/%2f"
    inner = path[1:].replace("/", "%2F")
    return [
        path, "/" + path, "//" + path, path + "/", path + "//", path.replace("/", "//"), "/%2F" + path[1:], "/%2f" + path[1:],
        "/" + inner, "/" + inner.lower(), encoded, encoded.upper(), path.upper(), path.title(), "/." + path, "/./" + path[1:],
        "/x/.." + path, "/..%2f" + path[1:], "/%2e%2e" + path, path + "/.", path + "/..", path + ";", path + ";a=b", "/;" + path,
        path + "%00", "/%00" + path[1:], path + "%20", path + "%09", path + "?", path + "?x=/healthz", path + "#", path + "#/healthz",
        path + "%3f", path + "%23", "\\" + path[1:], path.replace("/", "\\"), path.replace("/", "%5c"), "/\\" + path[1:],
        "http://localhost" + path, "http://evil.example" + path, "HTTP://LOCALHOST" + path, "//localhost" + path, "http:" + path,
        path[1:] or "x", "*" + path, path + "%2f..%2fhealthz", "/healthz/.." + path, "/healthz" + path, "/healthz%2f.." + path,
        "/page/.." + path, "/page/%2e%2e" + path, path + ".json", path + "/healthz", path + "/../healthz",
    ]  # fmt: skip


def status(service: Here, method: str, target: str, *headers: str) -> int:
    body = b'{"history": []}'
    lines = (f"{method} {target} HTTP/1.1", f"Host: localhost:{service.port}", f"Content-Length: {len(body)}", *headers)
    with Client(service) as client:
        client.send("\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1") + body)
        return client.response()[0]


def test_only_these_routes_are_open() -> None:
    """A new route needs the key unless somebody adds it here."""
    rows = {route.path for route in all_routes() if route.open}
    assert {path for path in rows if not path.startswith("/page/")} == OPEN
    assert {route.path for route in ROUTES if not route.open} == {
        "/v1/recommend", "/v1/recommend/batch", "/v1/rerank", "/v1/rerank/batch",
        "/v1/explain", "/v1/outcomes", "/v1/items", "/v1/info", "/admin/reload",
    }  # fmt: skip


def test_no_spelling_of_a_guarded_route_is_answered_without_the_key(guarded: Here, request) -> None:
    large = request.config.getoption("--large")
    rng = random.Random(0)
    for route in ROUTES:
        if route.open:
            continue
        for spelling in spellings(route.path):
            others = METHODS if large else rng.sample(METHODS, 1)
            for method in {route.method, *others}:
                for headers in ((), ("Authorization: Bearer wrong",)) if large else ((),):
                    got = status(guarded, method, spelling, *headers)
                    assert got in DENIED, (method, spelling, got)
                    if spelling == route.path:
                        assert got == 401
    info = guarded.queue.pool.info
    assert guarded.client.get("/v1/info").json()["version"] == info.version
    assert b'outcome="done"' not in guarded.metrics.text(), "nothing was reloaded"


def test_a_path_has_one_spelling(guarded: Here) -> None:
    """With the key, only the spelling of the table is served."""
    for spelling in spellings("/v1/info"):
        expected = 200 if spelling.partition("?")[0] == "/v1/info" else {400, 404}
        got = status(guarded, "GET", spelling, f"Authorization: Bearer {KEY}")
        assert got == expected or (expected != 200 and got in expected), (spelling, got)


def test_open_routes_have_one_method(guarded: Here) -> None:
    for path in sorted(OPEN):
        assert status(guarded, "GET", path) == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            assert status(guarded, method, path) == 405


def test_reload_over_http_needs_a_service_with_a_key(service: Here, guarded: Here) -> None:
    response = service.client.post("/admin/reload")
    assert response.status_code == 403
    assert "must be protected by an API key" in response.json()["error"]["message"]
    assert guarded.client.post("/admin/reload").status_code == 200


# --- hosts ---


def test_hosts_of_a_loopback_service(service: Here) -> None:
    """DNS rebinding: the page of another site knows the service by the name of that site."""
    for host in ("localhost", f"localhost:{service.port}", "LOCALHOST", "127.0.0.1:1", "[::1]:8080", "[::1]"):
        assert service.client.get("/v1/info", headers={"Host": host}).status_code == 200
    for host in ("evil.example", f"evil.example:{service.port}", "localhost.evil.example", "127.0.0.1.evil.example",
                 "10.0.0.1", "localhost@evil.example", "[evil.example]", "", ":80", "[::1", "*"):  # fmt: skip
        for path in ("/v1/info", "/healthz", "/", "/nowhere"):
            response = service.client.get(path, headers={"Host": host, "Origin": f"http://{host}"})
            assert response.status_code == 421, host
            assert "--allow-host NAME" in response.json()["error"]["message"]


def test_a_proxy_that_replaces_the_host(service: Here) -> None:
    """As nginx and Apache do by default; the page's requests look like those of another site, and the error says why."""
    page, host = "https://songs.example", f"127.0.0.1:{service.port}"
    response = service.client.post("/v1/recommend", json={"history": []}, headers={"Host": host, "Origin": page})
    assert response.status_code == 403
    assert "a proxy in front must pass the Host header on" in response.json()["error"]["message"]


def test_http_1_0_without_a_host(service: Here) -> None:
    with Client(service) as client:
        client.send(b"GET /v1/info HTTP/1.0\r\nOrigin: null\r\n\r\n")
        code, _, body = client.response()
        assert (code, json.loads(body)["error"]["code"]) == (421, "unknown_host")


@pytest.mark.parametrize(
    ("host", "more", "accepted", "refused"),
    [
        ("127.0.0.1", (), (b"localhost", b"127.0.0.1:80", b"[::1]:80"), (b"example.org", b"10.0.0.1", None)),
        ("192.168.1.5", (), (b"192.168.1.5:80", b"localhost"), (b"192.168.1.6", b"example.org")),
        ("0.0.0.0", (), (b"10.0.0.1:80", b"[fe80::1]:80", b"localhost"), (b"example.org", b"10.0.0.1.example.org")),
        ("::", ("Example.org",), (b"example.org:80", b"[fe80::1]"), (b"www.example.org", b"")),
        ("0.0.0.0", ("*",), (b"anything", b"example.org:1"), (None,)),
        ("songs.internal", (), (b"Songs.Internal:80",), (b"10.0.0.1",)),
    ],
)
def test_allowed_hosts(host: str, more: tuple[str, ...], accepted: tuple, refused: tuple) -> None:
    hosts = AllowedHosts.of(host, more)
    for header in accepted:
        assert hosts.accept(header), header
    for header in refused:
        assert not hosts.accept(header), header


@pytest.mark.parametrize("name", ["https://example.org", "example.org:8080", "example.org/shop", "a b", ""])
def test_allowed_hosts_that_would_match_nothing(name: str) -> None:
    with pytest.raises(InvalidInput, match="--allow-host must be a name or an address"):
        AllowedHosts.of("127.0.0.1", [name])
