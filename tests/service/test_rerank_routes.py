"""POST /v1/rerank: the same orders as in Python, with a catalogue and without one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from services import Here, error_message, here, post, running

import setwise as sw
from setwise.service.served_lists import ListsOnly

RULES = {"k": 4, "at_most": {"brand": 2}, "at_least": {"is_new": {"true": 1}}, "where": {"stock": {"from": 1}}}


def shop(m: int = 40) -> list[dict]:
    rng = np.random.default_rng(0)
    return [
        {
            "id": f"p{at}",
            "score": float(rng.normal()),
            "vector": rng.normal(size=4).tolist(),
            "brand": str(rng.choice([*"abc"])),
            "is_new": bool(at % 5 == 0),
            "stock": int(rng.integers(3)),
        }
        for at in range(m)
    ]


@pytest.fixture(scope="module")
def lists() -> Iterator[Here]:
    """A service without a catalogue."""
    with here(Path("lists"), cluster=ListsOnly()) as one:
        yield one


def in_python(candidates, **options) -> sw.recommend.rerank.Order:
    return sw.rerank(candidates, options.pop("k"), warn_above=9, **options)


def test_a_list(lists: Here, service: Here) -> None:
    rules = RULES | {"at_least": {"is_new": {True: 1}}, "where": {"stock": (1, None)}}
    order = in_python(shop(), **rules)
    for one in (lists, service):
        answer = post(one, "/v1/rerank", {"candidates": shop(), "certify": True, **RULES})
        assert [item["id"] for item in answer["items"]] == order.tolist()
        assert [item["reward"] for item in answer["items"]] == pytest.approx(order.rewards.tolist())
        assert answer["value"] == pytest.approx(order.value)
        assert answer["upper_bound"] == pytest.approx(order.upper_bound)
        assert (answer["gap"], answer["proven"]) == (pytest.approx(order.gap), order.proven)
        assert answer["given_up"] == pytest.approx(order.given_up)


def test_columns_and_vectors_in_base64(lists: Here) -> None:
    records = shop()
    columns = {name: [record[name] for record in records] for name in records[0]}
    vectors = np.array(columns["vector"], "<f4")
    as_text = columns | {"vector": base64.b64encode(vectors.tobytes()).decode()}
    expected = in_python(columns | {"vector": vectors}, k=5, diversity=0.6)
    for candidates in (columns, as_text):
        answer = post(lists, "/v1/rerank", {"candidates": candidates, "k": 5, "diversity": 0.6})
        assert [item["id"] for item in answer["items"]] == expected.tolist()


def test_several_lists(lists: Here) -> None:
    body = {"lists": {"anna": shop(20), "ben": shop(30), "none": [], "odd": [{"id": 1, "score": None}]}, "k": 3}
    answers = post(lists, "/v1/rerank/batch", body)["lists"]
    for name, m in (("anna", 20), ("ben", 30)):
        assert [item["id"] for item in answers[name]["items"]] == in_python(shop(m), k=3).tolist()
    assert answers["none"]["error"]["code"] == answers["odd"]["error"]["code"] == "infeasible"


def test_odd_candidates_are_reported(lists: Here) -> None:
    candidates = [
        {"id": "a", "score": 1.0, "vector": [1.0, 0.0]},
        {"id": "b", "score": None},
        {"id": "a", "score": 2.0, "vector": [0.0, 1.0]},
        {"id": "c", "score": 0.5},
    ]
    answer = post(lists, "/v1/rerank", {"candidates": candidates, "exclude": ["zz"]})
    assert {item["id"] for item in answer["items"]} == {"a", "c"}
    assert answer["notes"] == {"unscored": ["b"], "repeated": ["a"], "without_vector": ["c"], "unknown": ["zz"]}
    assert answer["upper_bound"] is None if "upper_bound" in answer else True


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 400, "missing required field `candidates`"),
        ({"candidates": [], "stratgy": 3}, 400, "(did you mean 'strategy'?)"),
        ({"candidates": "abc"}, 400, "expected"),
        ({"candidates": []}, 422, "candidates must be at least one, got none"),
        ({"candidates": [{"id": 1}]}, 422, "candidates must be with a column 'score', got id"),
        ({"candidates": [{"score": 1.0}], "k": 1000}, 422, "k must be at most 100, got 1000"),
        ({"candidates": [{"score": 1.0}], "k": 0}, 422, "k must be a whole number of at least 1"),
        ({"candidates": [{"score": 1.0}] * 2001}, 422, "candidates must be a list of at most 2000 candidates, got 2001"),
        ({"candidates": {"score": [1.0] * 2001}}, 422, "candidates must be a list of at most 2000 candidates, got 2001"),
        ({"candidates": {"score": [1.0], "vector": "abc"}}, 422, "vector must be base64 of single-precision numbers"),
        ({"candidates": {"score": [1.0, 2.0, 3.0], "vector": "AAAAAA=="}}, 422, "vector must be vectors of one size"),
        ({"candidates": [{"score": 1.0}], "include": ["x"]}, 422, "include must be ids of candidates, got 'x'"),
        ({"candidates": [{"score": 1.0}], "at_most": {"brand": 1}}, 422, "at_most must be about attributes"),
        ({"candidates": [{"score": 1.0}], "strategy": "mrm"}, 400, "strategy"),
        ({"candidates": [{"score": 1.0}], "diversity": 3}, 422, "diversity must be from 0"),
        ({"candidates": [{"score": "high"}]}, 422, "scores must be an array of real numbers"),
        ({"candidates": [{"score": 1.0}], "strength": 1, "diversity": 0.5}, 422, "diversity and strength must be one"),
    ],
)  # fmt: skip
def test_mistakes(lists: Here, body: dict, status: int, sentence: str) -> None:
    assert sentence in error_message(lists.client.post("/v1/rerank", json=body), status)


def test_other_routes_need_a_catalogue(lists: Here) -> None:
    for path, body in (
        ("/v1/recommend", {"history": []}),
        ("/v1/explain", {"history": []}),
        ("/v1/recommend/batch", {"requests": [{"history": []}]}),
    ):
        response = lists.client.post(path, json=body)
        assert "POST /v1/rerank" in response.text
    assert "POST /v1/rerank" in error_message(lists.client.get("/v1/items?q=a"), 422)
    assert lists.client.get("/v1/info").json()["items"] == 0
    assert lists.client.get("/readyz").status_code == 200


def test_the_command() -> None:
    with running("--rerank-only") as service:
        answer = post(service, "/v1/rerank", {"candidates": [{"id": "a", "score": 1.0}], "k": 1})
        assert answer["items"][0]["id"] == "a"
        assert service.end() == 0
