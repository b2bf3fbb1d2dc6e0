"""Decoding of bodies: large ones by workers, small ones in turns, outcomes in parts; the answers are the same."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
from services import Here, error_message, here, post
from test_mistakes_in_bodies import MISTAKES

from processes import until
from setwise.service.decoding import DECODERS, LARGE, PART, decode_outcomes, split_outcomes
from setwise.service.http_errors import HttpError
from setwise.service.settings import Settings


def padded(body: object) -> bytes:
    """The same JSON, large."""
    return json.dumps(body).encode() + b" " * LARGE


def test_large_bodies_do_not_occupy_the_event_loop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty-four megabytes of empty requests, or of numbers such as 1e308, delayed every probe by 45 s or more."""
    seen: list[int] = []
    for name, decode in DECODERS.items():

        def watched(body: bytes, settings: Settings, decode: Any = decode) -> Any:
            seen.append(len(body))
            return decode(body, settings)

        monkeypatch.setitem(DECODERS, name, watched)  # workers are other processes
    with here(folder) as service:
        request = {"history": ["song-1", "song-2"], "k": 3}
        small = post(service, "/v1/recommend", request)
        assert len(seen) == 1
        for path, body in (("recommend", request), ("recommend/batch", {"requests": [request]}), ("explain", request)):
            response = service.client.post(f"/v1/{path}", content=padded(body))
            assert response.status_code == 200, response.text
            slate = {"recommend/batch": lambda of: of["answers"][0], "explain": lambda of: of["slate"]}.get(
                path, lambda of: of
            )(response.json())
            assert [one["id"] for one in slate["items"]] == [one["id"] for one in small["items"]]
        many = service.client.post("/v1/recommend/batch", content=b'{"requests": [%b]}' % b",".join([b"{}"] * 10_000))
        assert "1 to 256 requests, got 10000" in error_message(many, 422)
    assert len(seen) == 1


@pytest.mark.parametrize(("path", "body", "status"), [row[:3] for row in MISTAKES])
def test_a_mistake_in_a_large_body_is_explained_alike(service: Here, path: str, body: object, status: int) -> None:
    message = error_message(service.client.post(f"/v1/{path}", json=body), status)
    assert error_message(service.client.post(f"/v1/{path}", content=padded(body)), status) == message


def test_large_bodies_that_are_no_json(service: Here) -> None:
    """None of them reaches the request of another client, or ends the worker."""
    for body in (b" " * 9000, b"[" * 9000, b"\xff" * 9000, b'{"history": []}}], "x": [' + b" " * 9000):
        assert "JSON" in error_message(service.client.post("/v1/recommend", content=body), 400)
    assert len(post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]) == 3


def errors() -> int:
    return sum(type(one) is HttpError for one in gc.get_objects())


def test_errors_leave_no_cycles(service: Here) -> None:
    """What an error refers to, such as the body, is freed when it was sent, not when garbage is collected."""
    gc.collect()
    gc.disable()
    try:
        before = errors()
        for _ in range(3):
            error_message(service.client.post("/v1/recommend", content=b"{"), 400)
            error_message(service.client.post("/v1/recommend", content=padded({"history": [], "k": 0})), 422)
        until(lambda: errors() <= before)  # the last one may still be on its way out of the task that sent it
    finally:
        gc.enable()


def test_outcomes_are_decoded_in_parts() -> None:
    entries = [{"slate": "s", "item": number, "outcome": 0.5} for number in range(2 * PART + 1)]
    parts = split_outcomes(json.dumps({"outcomes": entries}).encode(), Settings())
    decoded = [decode_outcomes(part) for part in parts]
    assert [len(part) for part in decoded] == [PART, PART, 1]
    assert [one.item for part in decoded for one in part] == [*range(2 * PART + 1)]
    with pytest.raises(HttpError, match="1 to 3 outcomes, got 4"):
        split_outcomes(json.dumps({"outcomes": entries[:4]}).encode(), Settings(outcomes=3))
    for wrong in (b"{", b'{"outcomes": 3}', b'{"outcome": []}', b'{"outcomes": [{}, ]}'):
        with pytest.raises(HttpError, match="The body must be JSON"):
            split_outcomes(wrong, Settings())


def test_one_wrong_outcome_refuses_all(folder: Path, tmp_path: Path) -> None:
    with here(folder, log=tmp_path / "log") as service:
        slate = post(service, "/v1/recommend", {"history": [], "k": 2})
        right = {"slate": slate["slate"], "item": slate["items"][0]["id"]}
        for wrong in ({"slate": "x"}, {**right, "outcome": 2}):
            refused = service.client.post("/v1/outcomes", json={"outcomes": [right] * PART + [wrong]})
            assert refused.status_code in (400, 422)
        assert post(service, "/v1/outcomes", {"outcomes": [right] * (PART + 1)})["new"] == 1
