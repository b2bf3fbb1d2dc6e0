"""A read key changes nothing, and no other text is a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from services import Here, error_message, here

from setwise.errors import InvalidInput
from setwise.service.http import ROUTES
from setwise.service.keys import Keys, check_keys

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


def test_who_may_write() -> None:
    keys = Keys(FULL, READ)
    assert keys.may_write(f"Bearer {FULL}".encode()) is True
    assert keys.may_write(f"Bearer {READ}".encode()) is False
    for header in (b"", b"Bearer ", FULL.encode(), f"bearer {FULL}".encode(), f"Bearer {FULL} ".encode(), b"\xff"):
        assert keys.may_write(header) is None
    assert Keys(None, None).may_write(b"") is True


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
