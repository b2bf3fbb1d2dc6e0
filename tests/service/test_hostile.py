"""Hostile clients: malformed, huge and slow bodies, missing keys, pages of other sites."""

from __future__ import annotations

import json
import random
import socket
import time

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from services import Here, error_message, here, post, running

from processes import until

KEY = "a-long-and-random-key"
PATHS = ("/v1/recommend", "/v1/recommend/batch") * 10 + ("/v1/explain",)

VALUES = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9223372036854775808", "1" * 5000, "-0", "0", "1.5", "true", "null", '""', '"x"',
    '"song-1"', '"\\ud800"', '"\\ud800x"', '"\\u0000"', '"\xff"', "[]", "{}", "[[]]", "[null]", "[1e308, 1e308]", "[" * 10_000,
    "[" * 10_000 + "]" * 10_000, '{"a":' * 10_000, "[" + "0," * 50_000 + "0]", '{"heads": [[1e308]]}', '{"heads": [[1], [1, 2]]}',
    '{"heads": []}', '{"heads": [[]], "base": []}', '{"from": "x"}', '{"year": {"from": 3, "to": 1}}', '{"year": [true, "x"]}',
    '{"year": {"from": null, "with": 2}}', '{"title": 5}', '{"nothing": 1}', '{"artist": -1}', '{"artist": 0}', '{"artist": 1e3}',
    '{"artist": 99999999999999999999}', "\x00", "'x'", "[1,]", '"' + "a" * 100_000 + '"',
]  # fmt: skip
FIELDS = [
    "history", "user", "vector", "k", "exclude", "include", "where", "at_most", "at_least", "exactly", "budget_ms", "ranker", "certify", "requests", "unknown",
]  # fmt: skip

INVALID = [  # of the right form, with an invalid value
    '"k": 0', '"k": -1', '"k": 101', '"k": 99999999999999999999', '"history": ["nobody"]', '"exclude": [7]', '"include": ["song-1"]',
    '"where": {"nothing": 1}', '"where": {"title": 5}', '"where": {"year": {"from": 3, "to": 1}}', '"where": {"year": "x"}', '"where": {"title": []}',
    '"at_least": {"artist": 1}', '"at_least": {"artist": {"nobody": 1}}', '"exactly": {"artist": -1}', '"exactly": {"nothing": 1}',
    '"at_most": {"artist": 0}', '"at_most": {"artist": -1}', '"at_most": {"nothing": 1}', '"at_most": {"artist": 9223372036854775808}',
    '"budget_ms": -1', '"budget_ms": 1e-300', '"ranker": "x"', '"vector": [1e308]', '"user": {"heads": [[1], [1, 2]]}', '"user": {"heads": []}',
]  # fmt: skip


def mutated_body(rng: random.Random) -> bytes:
    """A body that is invalid in one or several places, or by chance valid."""
    pairs = [f'"{rng.choice(FIELDS)}": {rng.choice(VALUES)}' for _ in range(rng.randrange(3))]
    if rng.random() < 0.5:
        pairs = [rng.choice(INVALID) for _ in range(rng.randrange(1, 3))]
    if rng.random() < 0.7:
        pairs.insert(0, '"history": ["song-1", "song-2"]')
    body = "{" + ", ".join(pairs) + "}"
    if rng.random() < 0.2:
        body = rng.choice(VALUES)
    elif rng.random() < 0.3:
        body = '{"requests": [' + body + "]}"
    raw = body.encode("latin-1")
    if rng.random() < 0.2 and raw:
        raw = raw[: rng.randrange(len(raw))]
    if rng.random() < 0.1 and raw:
        at = rng.randrange(len(raw))
        raw = raw[:at] + rng.randbytes(1) + raw[at + 1 :]
    return raw


@pytest.mark.promise("fuzz")
def test_malformed_bodies(folder, count) -> None:
    rng = random.Random(0)
    seen: dict[int, int] = {}
    with here(folder, budget_ms=5) as service:
        for number in range(count(5000)):
            response = service.client.post(PATHS[number % 21], content=mutated_body(rng))
            seen[response.status_code] = seen.get(response.status_code, 0) + 1
            if response.status_code != 200:
                assert 400 <= response.status_code < 500, response.text
                error_message(response)
        assert service.client.get("/healthz").status_code == 200
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 2})["items"]
    assert min(seen[400], seen[422]) > count(5000) // 10, "both kinds of error must occur"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "The body must be JSON as /docs describes it: input data was truncated."),
        (b'{"history": ["a', 400, "The body must be JSON as /docs describes it: input data was truncated."),
        (b'{"history": ["\\ud83d', 400, "The body must be JSON as /docs describes it: input data was truncated."),
        (b'{"history": ["\\ud83d\\u', 400, "The body must be JSON as /docs describes it: input data was truncated."),
        (b'{"history": ["\\\\ud83d"', 400, "The body must be JSON as /docs describes it: input data was truncated."),
        (b'{"history": ["\\ud800"]}', 400, "The body must be JSON as /docs describes it: it is not JSON: unexpected end of escaped utf-16 surrogate pair."),
        (b'{"key": "\\uDBFF"}', 400, "The body must be JSON as /docs describes it: it is not JSON: unexpected end of escaped utf-16 surrogate pair."),
        (b'{"key": "\\uDBFF\\n"}', 400, "The body must be JSON as /docs describes it: it is not JSON: unexpected end of escaped utf-16 surrogate pair."),
        (b'{"history": [], "k": 0}', 422, "k must be a whole number of at least 1, got 0; pass 1 or more."),
        (b'{"history": [], "k": 101}', 422, "k must be at most 100, got 101; choose a smaller one."),
        (b'{"history": [], "k": 9223372036854775808}', 422, None),
        (b'{"history": [], "k": true}', 400, "The body must be JSON as /docs describes it: expected `int | null`, got `bool` - at `$.k`."),
        (b'{"history": [], "colour": 1}', 400, "The body must be JSON as /docs describes it: object contains unknown field `colour` (drop it)."),
        (b"{}", 422, "the user must be described by exactly one of history, user, features, or by scores alone, got none of them; pass one of them."),
        (b'{"history": [], "vector": [1]}', 422, "the user must be described by exactly one of history, user, features, vector, or by scores alone, got history and vector; pass one of them."),
        (b'{"vector": [1]}', 422, "user must be an array of shape (heads, d_v) = (2, 9), got shape (1, 1); check that user and catalogue come from one model."),
        (b'{"vector": [NaN]}', 400, None),
        (b'{"scores": [NaN]}', 400, None),
        (b'{"scores": [1e999]}', 400, None),
        (b'{"scores": {}}', 422, "scores must be a mapping with at least one item, got an empty one; state a scores_floor."),
        (b'{"scores": [1.0]}', 422, "scores must be one for each of 300 items, got 1; pass one score per item, in the order of the catalogue, or a mapping {id: score}."),
        (b'{"scores": {"no such song": 1.0}}', 422, None),
        (b'{"scores": {"song-1": 1e200}}', 422, None),
        (b'{"scores": {"song-1": "high"}}', 400, None),
        (b'{"history": [], "scores_floor": 1.0}', 422, "scores_floor must be left out without scores, got 1.0; pass scores={id: score} too."),
        (b'{"vector": [1e999]}', 400, "The body must be JSON as /docs describes it: number out of range - at `$.vector[0]`."),
        (b'{"history": [], "ranker": "beam", "k": 21}', 422, "k must be at most 20 with the ranker beam, got 21; choose a smaller one."),
        (b'{"history": ["nobody"], "unknown": "error"}', 422, "an id of history must be one of the known ids, got 'nobody'; check its spelling and its type."),
        (b'{"history": [1]}', 422, "an id of history must be one of the known ids, got 1; check its spelling and its type."),
        (b'{"history": [], "budget_ms": 0}', 422, "budget_ms must be above 0, got 0.0; pass milliseconds, or leave it out."),
        (b'{"history": [], "ranker": "exhaustive"}', 422, "ranker must be one of swap, top-k, knn, mmr, dpp, greedy, beam, got 'exhaustive'; choose one of those."),
        (b'{"history": [], "k": 1, "include": ["song-1", "song-2"]}', 422, "include must be at most k = 1 candidates, got 2; raise k or pin fewer."),
        (b'{"history": ' + b"[" * 10_000, 400, None),
        (b'{"history": [' + b'"song-1",' * 1000 + b'"song-1"]}', 422, "history must be a list of at most 1000 ids, got 1001; shorten it."),
    ],
)  # fmt: skip
def test_error_messages(service: Here, body: bytes, status: int, message: str | None) -> None:
    got = error_message(service.client.post("/v1/recommend", content=body), status)
    assert message is None or got == message


def test_explanations_have_a_smaller_limit_on_k(service: Here) -> None:
    assert "at most 20 in an explanation" in error_message(
        service.client.post("/v1/explain", json={"history": [], "k": 21}), 422
    )


def test_batches_have_limits(service: Here) -> None:
    for requests in ([], [{"history": []}] * 257):
        message = error_message(service.client.post("/v1/recommend/batch", json={"requests": requests}), 422)
        assert message.startswith("requests must be 1 to 256 requests")
    error_message(service.client.post("/v1/recommend/batch", json={"requests": [{"history": [], "k": 101}]}), 422)
    answers = post(service, "/v1/recommend/batch", {"requests": [{"history": [], "k": k} for k in (0, 1)]})["answers"]
    assert answers[0]["error"]["message"] == "k must be a whole number of at least 1, got 0; pass 1 or more."
    assert len(answers[1]["items"]) == 1


@pytest.mark.nightly
@pytest.mark.promise("fuzz")
def test_responses_follow_the_schema(service: Here, count) -> None:
    """schemathesis: random requests, valid and invalid by the schema, never cause an internal error."""
    import schemathesis  # takes seconds, in every test process if it were above
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    every = [not_a_server_error, checks.content_type_conformance, checks.response_schema_conformance]
    every.append(checks.status_code_conformance)
    schema = schemathesis.openapi.from_dict(service.client.get("/docs/openapi.json").json())
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path == "/admin/reload":
            continue
        modes = [schemathesis.GenerationMode.POSITIVE]
        if operation.body or operation.query:  # where there is something to get wrong
            modes.append(schemathesis.GenerationMode.NEGATIVE)
        for mode in modes:
            strategy = operation.as_strategy(generation_mode=mode)

            @settings(
                max_examples=count(100) if len(modes) > 1 else 1,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
            )
            @given(case=strategy)
            def no_internal_error(case) -> None:
                response = case.call(base_url=service.url, timeout=120)
                case.validate_response(response, checks=every)

            no_internal_error()


@pytest.mark.nightly
@pytest.mark.promise("slow-clients")
def test_an_endless_body_is_refused_early_and_not_kept(folder, request) -> None:
    """Memory stays flat, with and without a Content-Length, and other requests are served meanwhile."""
    size = (1 << 30) if request.config.getoption("--large") else (64 << 20)
    piece = b" " * (1 << 20)
    with running(folder) as service:
        post(service, "/v1/recommend", {"history": []})
        before = service.megabytes()
        for head in (f"Content-Length: {size}", "Transfer-Encoding: chunked"):
            with socket.create_connection(("127.0.0.1", service.port)) as raw:
                raw.sendall(f"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
                sent = _stream(raw, piece, size, chunked="chunked" in head)
                raw.settimeout(60)
                answer = raw.recv(65536)
            assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
            assert b"at most 1048576 bytes" in answer
            assert sent <= size
            assert post(service, "/v1/recommend", {"history": []})["items"]
        assert service.megabytes() < before + 20


@pytest.mark.parametrize("chunked", [False, True])
def test_too_long_a_body(folder, chunked: bool) -> None:
    """The error arrives complete before the connection ends, though the rest of the body is still being sent."""
    with here(folder, body_bytes=1024) as service:
        head = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 20000"
        body = b"4e20\r\n" + b" " * 20_000 + b"\r\n0\r\n\r\n" if chunked else b" " * 20_000
        for slowly in (False, True):
            with socket.create_connection(("127.0.0.1", service.port)) as raw:
                raw.settimeout(60)
                raw.sendall(b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n" + body[:10_000])
                if not slowly:
                    raw.sendall(body[10_000:])
                answer = b"".join(iter(lambda: raw.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 413")
            assert answer.endswith(b'send a smaller one."}}')


def _stream(raw: socket.socket, piece: bytes, size: int, chunked: bool) -> int:
    """Send until all is sent or the connection is closed; the bytes sent."""
    sent = 0
    framed = b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
    try:
        while sent < size:
            raw.sendall(framed)
            sent += len(piece)
    except OSError:
        pass
    return sent


@pytest.mark.promise("slow-clients")
def test_slow_bodies_do_not_delay_others(folder) -> None:
    with here(folder, body_ms=300) as service:
        waiting = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(40)]
        for raw in waiting:
            raw.sendall(b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{")
        assert post(service, "/v1/recommend", {"history": []})["items"]
        assert len(service.queue) == 0
        for raw in waiting:
            raw.settimeout(60)
            assert b"408" in raw.recv(65536).split(b"\r\n")[0]
            raw.close()


def test_a_disconnect_within_the_body(service: Here) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as raw:
        raw.sendall(b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{")
    until(lambda: 'route="/v1/recommend",status="400"' in service.client.get("/metrics").text)


def test_a_full_queue_is_answered_before_the_body_is_read(folder) -> None:
    """503 arrives before the body is sent."""
    with here(folder, queue=1, budget_ms=2000) as service:
        body = json.dumps({"history": ["song-1"], "k": 20}).encode()
        head = f"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        filling = []
        while len(service.queue) < 1:
            filling.append(socket.create_connection(("127.0.0.1", service.port)))
            filling[-1].sendall(head + body)
            time.sleep(0.05)
        with socket.create_connection(("127.0.0.1", service.port)) as raw:
            raw.sendall(head)
            raw.settimeout(60)
            answer = raw.recv(65536).decode().lower()
        assert answer.startswith("http/1.1 503")
        assert "retry-after: 1" in answer
        for probe in ("/healthz", "/readyz", "/metrics"):
            assert service.client.get(probe).status_code == 200
        for raw in filling:
            raw.close()


@pytest.mark.promise("keys")
def test_the_api_key(folder) -> None:
    with here(folder, key=KEY) as service:
        assert service.client.get("/v1/info").status_code == 200
        for header in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": KEY},
            {"Authorization": "Bearer \xff".encode("latin-1")},
        ):
            for method, path in (
                ("GET", "/v1/info"),
                ("POST", "/v1/recommend"),
                ("POST", "/admin/reload"),
                ("GET", "/v1/nowhere"),
            ):
                response = httpx.request(method, service.url + path, headers=header)
                assert error_message(response, 401).startswith("The API key must be the one")
                assert response.headers["www-authenticate"] == "Bearer"
        for path in ("/", "/healthz", "/readyz", "/metrics", "/docs"):
            assert httpx.get(service.url + path).status_code == 200
        assert "security" in service.client.get("/docs/openapi.json").json()["paths"]["/v1/info"]["get"]


@pytest.mark.promise("error-bodies")
def test_internal_errors_show_no_details(folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with here(folder) as service:
        monkeypatch.setattr(service.queue, "add", None)
        assert (
            error_message(service.client.get("/v1/items"), 500)
            == "The service failed here; the operator's log has the details."
        )
        error_message(service.client.post("/v1/recommend", json={"history": []}), 500)
        assert service.client.get("/healthz").status_code == 200


def test_pages_of_other_sites_are_refused(service: Here) -> None:
    for origin in ("http://elsewhere.example", "null", "http://[", f"http://127.0.0.1:{service.port + 1}"):
        error_message(service.client.post("/admin/reload", headers={"Origin": origin}), 403)
    own = service.client.post("/v1/recommend", json={"history": [], "k": 1}, headers={"Origin": service.url})
    assert own.status_code == 200
