"""A read key changes nothing; each key has a rate of its own, which holds within 5 %."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from services import Here, error_message, here

from setwise.errors import InvalidInput
from setwise.service.http import ROUTES
from setwise.service.keys import Keys, TokenBucket, check_keys

pytestmark = [pytest.mark.nightly, pytest.mark.promise("keys")]
FULL, READ = "a-long-and-random-key", "another-long-random-key"
WRITES = {"/v1/outcomes", "/admin/reload"}


@pytest.fixture(scope="module")
def two_keys(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with here(folder, key=FULL, read_key=READ, log=tmp_path_factory.mktemp("log"), budget_ms=5) as service:
        yield service


def ask(service: Here, key: str, method: str, path: str) -> httpx.Response:
    body = b'{"requests": [{"history": []}]}' if path.endswith("batch") else b'{"history": []}'
    body = b'{"outcomes": [{"slate": "x", "item": "song-1"}]}' if path.endswith("outcomes") else body
    content = body if method == "POST" else None
    return httpx.request(
        method, service.url + path, headers={"Authorization": f"Bearer {key}"}, content=content, timeout=60
    )


@pytest.mark.parametrize("route", [route for route in ROUTES if not route.open], ids=lambda route: route.path)
def test_the_rights_of_each_key(two_keys: Here, route) -> None:
    """A new route is open to the read key unless its row says that it writes: this set must name it then."""
    assert route.writes == (route.path in WRITES)
    assert ask(two_keys, FULL, route.method, route.path).status_code == 200
    for wrong in ("x", READ[:-1], READ + "x", FULL.upper()):
        error_message(ask(two_keys, wrong, route.method, route.path), 401)
    answer = ask(two_keys, READ, route.method, route.path)
    if route.writes:
        assert "full API key" in error_message(answer, 403)
    else:
        assert answer.status_code == 200


def test_a_read_key_reloads_nothing_by_any_method(two_keys: Here) -> None:
    before = two_keys.metrics.text().count(b'outcome="done"')
    for path in sorted(WRITES):
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            assert ask(two_keys, READ, method, path).status_code == 403
    assert two_keys.metrics.text().count(b'outcome="done"') == before


@pytest.mark.parametrize("rate", [1, 7, 100, 1000])
@pytest.mark.parametrize("times", [0.5, 1.0, 3.0, 10.0])
def test_the_rate_of_a_bucket(rate: int, times: float, record_property) -> None:
    """Requests at random moments: not more pass than the rate allows, and nearly so many if enough are sent."""
    rng, now, passed, sent = random.Random(rate), 0.0, 0, 0
    bucket = TokenBucket(rate, lambda: now)
    seconds = max(10, 100 / rate)
    while now < seconds:
        now += rng.expovariate(rate * times)
        sent += 1
        passed += bucket.take() == 0
    assert passed <= rate * now * 1.05
    if times >= 3:
        assert passed >= rate * now * 0.95
        record_property("seen", f"rate {rate}, {sent / now:.0f} a second sent: {passed / now:.2f} passed")
    assert passed <= sent


@pytest.mark.parametrize("rate", [1, 7, 100, 5000])
def test_bursts_after_any_rest(rate: int) -> None:
    """In any t seconds at most r · t + b pass, however long nothing was sent before; and every burst of b does."""
    rng, now, most = random.Random(rate), 0.0, max(3.0, rate / 5)
    bucket, passed = TokenBucket(rate, lambda: now), []
    for _ in range(60):
        rest = rng.choice((0.0, 1 / rate, 1.0, 3600.0, 1e9))
        now += rest
        burst = [bucket.take() for _ in range(rng.choice((1, int(most), 3 * int(most))))]
        passed += [now] * burst.count(0.0)
        assert rest < most / rate or burst.count(0.0) == min(len(burst), int(most))
        assert all(0 <= wait <= 1 / rate for wait in burst)
    for first, start in enumerate(passed):
        last = min(len(passed) - 1, first + 2 * int(most))
        assert last - first + 1 <= rate * (passed[last] - start) + most + 1e-6


def test_a_burst_of_clients(folder: Path) -> None:
    """Many connections at once have one bucket."""
    with here(folder, key=FULL, key_rate=1) as service, ThreadPoolExecutor(8) as pool:
        began = time.monotonic()
        answers = [*pool.map(lambda _: service.client.get("/v1/info"), range(60))]
        took = time.monotonic() - began
        passed = sum(one.status_code == 200 for one in answers)
        assert {one.status_code for one in answers} <= {200, 429}
        assert 3 <= passed <= took + 3 + 1e-6


def test_a_bucket_says_when_to_come_back() -> None:
    now = 0.0
    bucket = TokenBucket(4, lambda: now)
    assert [bucket.take() for _ in range(4)] == [0.0, 0.0, 0.0, 0.25]
    now = 0.25
    assert bucket.take() == 0.0
    assert [TokenBucket(0, lambda: 0.0).take() for _ in range(100)] == [0.0] * 100


def test_the_rate_of_a_key(folder: Path) -> None:
    """While no time passes three requests are answered; the other key, and probes, are not concerned."""
    with here(folder, key=FULL, read_key=READ, key_rate=1) as service:
        for key in (FULL, READ):
            holder = service.application._keys.holder(f"Bearer {key}".encode())
            assert holder is not None
            holder.bucket = TokenBucket(service.settings.key_rate, lambda: 0.0)
        for key in (FULL, READ):
            answers = [ask(service, key, "GET", "/v1/info") for _ in range(5)]
            assert [one.status_code for one in answers] == [200, 200, 200, 429, 429]
            assert "at most 1 requests a second" in error_message(answers[3])
            assert answers[3].headers["retry-after"] == "1"
        error_message(ask(service, "wrong", "GET", "/v1/info"), 401)
        for _ in range(5):
            assert httpx.get(service.url + "/healthz").status_code == 200
        assert "429" in service.client.get("/docs/openapi.json").json()["paths"]["/v1/info"]["get"]["responses"]


def test_who_holds_a_key() -> None:
    keys = Keys(FULL, READ, 0)
    full, read = (keys.holder(f"Bearer {key}".encode()) for key in (FULL, READ))
    assert full is not None
    assert read is not None
    assert (full.writes, read.writes) == (True, False)
    for header in (b"", b"Bearer ", FULL.encode(), f"bearer {FULL}".encode(), f"Bearer {FULL} ".encode(), b"\xff"):
        assert keys.holder(header) is None
    anybody = Keys(None, None, 0).holder(b"")
    assert anybody is not None
    assert anybody.writes


@pytest.mark.parametrize(
    ("key", "read_key", "words"),
    [
        (None, READ, "given with --api-key"),
        (FULL, FULL, "another key than --api-key"),
        (FULL, "short", "--read-key must be 16 to 512 .* got 5 characters"),
        ("with spaces in it, and long", None, "--api-key must be 16 to 512 .* got a space"),
        ("ключключключключключ", None, "--api-key must be 16 to 512 .* not ASCII"),
        ("", None, "--api-key must be 16 to 512 .* got an empty text"),
        (FULL, "", "--read-key must be 16 to 512 .* got an empty text"),
        ("k" * 513, None, "--api-key must be 16 to 512 .* got 513 characters"),
    ],
)
def test_keys_that_are_refused(key: str | None, read_key: str | None, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        check_keys(key, read_key)
    check_keys(FULL, READ)
    check_keys(None, None)
