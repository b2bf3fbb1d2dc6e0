"""Bodies made from the types of the routes: every one is answered 200, or 4xx with a sentence."""

from __future__ import annotations

import random
from collections import Counter

import httpx
import msgspec
import pytest
from services import Here, error_message, post

from attacks.request_bodies import random_body
from setwise.service.http import ROUTES
from setwise.service.schemas import ErrorResponse

pytestmark = [pytest.mark.nightly, pytest.mark.promise("fuzz")]
BODIES = [route for route in ROUTES if route.method == "POST" and route.request is not None]
SHARES = {"/v1/recommend": 8, "/v1/recommend/batch": 2, "/v1/outcomes": 2}  # an explanation takes long


def test_bodies_of_every_route(quick: Here, count, record_property) -> None:
    rng, seen = random.Random(7), Counter[int]()
    weights = [SHARES.get(route.path, 1) for route in BODIES]
    for number in range(count(20_000, 60)):
        route = rng.choices(BODIES, weights)[0]
        body = random_body(rng, route.request)
        response = quick.client.post(route.path, content=body)
        seen[response.status_code] += 1
        check(response, f"{number}: {route.path} {body[:500]!r}")
    assert post(quick, "/v1/recommend", {"history": ["song-1"], "k": 2})["items"]
    record_property(
        "seen", f"{seen.total():,} bodies: {', '.join(f'{n:,} × {code}' for code, n in sorted(seen.items()))}"
    )
    assert min(seen[200], seen[400], seen[422]) > seen.total() // 20, seen


def test_query_parameters(quick: Here, count) -> None:
    rng = random.Random(3)
    for _ in range(count(2000, 40)):
        raw = "&".join(f"{rng.choice(('q', 'limit', 'ids', 'x'))}={_escaped(rng)}" for _ in range(rng.randrange(4)))
        check(quick.client.get(f"/v1/items?{raw}"), raw)


def _escaped(rng: random.Random) -> str:
    """Bytes as percent escapes, some of them broken."""
    return "".join(
        rng.choice((f"%{rng.randrange(256):02x}", "%", "%zz", "1", "9", "song", "+", ","))
        for _ in range(rng.randrange(12))
    )


def check(response: httpx.Response, what: str) -> None:
    """200 with JSON, or an error of the client with a sentence."""
    assert response.status_code < 500, f"{what}: {response.text}"
    if response.status_code == 200:
        msgspec.json.decode(response.content)
        return
    assert response.status_code in (400, 404, 413, 422), f"{what}: {response.text}"
    msgspec.json.decode(response.content, type=ErrorResponse)
    assert error_message(response)
