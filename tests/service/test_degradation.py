"""Under load requests lose the certificate, then the search; then they are refused. Answers say what was left out."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from services import Here, post
from test_queue import Fixture, scenario

import setwise as sw
from setwise.service.degradation import FULL, GREEDY, UNCERTIFIED, Pace
from setwise.service.handlers import Handlers, TaskMessage
from setwise.service.http_errors import HttpError
from setwise.service.schemas import BatchRequest, RecommendRequest
from setwise.service.served import ServedArtifact
from setwise.service.settings import Settings


def test_levels_of_a_queue() -> None:
    """Two workers, 100 ms a request, a deadline of 2 s: 500 ms of work may wait."""
    pace = Pace(Settings(workers=2, deadline_ms=2000, queue=1000))
    assert [pace.level(queued) for queued in (0, 10, 11, 25, 26, 100, 10_000)] == [
        FULL, FULL, UNCERTIFIED, UNCERTIFIED, GREEDY, GREEDY, GREEDY,
    ]  # fmt: skip
    assert not pace.refuses(400)
    assert pace.refuses(401)


def test_short_requests_lose_something_before_the_queue_is_full() -> None:
    """Of 1 ms each, 64 of them take a tenth of what may wait."""
    pace = Pace(Settings(workers=1, budget_ms=1, deadline_ms=2000, queue=64))
    assert [pace.level(queued) for queued in (0, 8, 9, 16, 17, 64)] == [
        FULL, FULL, UNCERTIFIED, UNCERTIFIED, GREEDY, GREEDY,
    ]  # fmt: skip
    assert not pace.refuses(64)


@given(
    st.lists(st.tuples(st.sampled_from([FULL, UNCERTIFIED, GREEDY]), st.floats(0, 10)), max_size=60),
    st.integers(0, 500),
)
def test_a_longer_queue_never_loses_less(observed: list[tuple[int, float]], queued: int) -> None:
    pace = Pace(Settings(workers=1))
    for level, seconds in observed:
        pace.observe(level, seconds)
    assert pace.level(0) == FULL
    assert not pace.refuses(0)
    assert pace.level(queued) <= pace.level(queued + 1)
    assert pace.refuses(queued + 1) or not pace.refuses(queued)
    assert pace.wait_s(queued, GREEDY) <= pace.wait_s(queued, UNCERTIFIED) <= pace.wait_s(queued, FULL)


def test_measured_times_count() -> None:
    pace = Pace(Settings(workers=1, deadline_ms=2000))
    assert pace.level(5) == FULL
    for _ in range(100):
        pace.observe(FULL, 0.3)
    assert pace.level(5) == UNCERTIFIED


@scenario(queue=100, micro_batch=1, deadline_ms=2000, budget_ms=100)
async def test_the_queue_degrades_and_recovers(fixture: Fixture) -> None:
    """The workers answer at once, so the means fall and the levels with them."""
    (end,) = fixture.ends
    sent = [fixture.recommend(f"a{number}") for number in range(40)]
    working = asyncio.ensure_future(end.reply_to_all())
    await asyncio.gather(*sent)
    text = fixture.metrics.text().decode()
    lost = {
        name: float(text.split(f'setwise_degraded_total{{lost="{name}"}} ')[1].split()[0])
        for name in ("certificate", "search")
    }
    assert lost["search"] > 0
    assert lost["certificate"] > 0
    assert sum(lost.values()) < 40
    working.cancel()


@scenario(queue=1000, micro_batch=1, deadline_ms=2000, budget_ms=600)
async def test_a_queue_that_would_take_too_long_refuses(fixture: Fixture) -> None:
    accepted = []

    def send(number: int) -> None:
        for one in range(number):
            accepted.append(fixture.recommend(f"a{one}"))

    with pytest.raises(HttpError) as error:
        send(100)
    assert error.value.status == 503
    assert 20 < len(accepted) < 60, "a second of 30 ms each"
    working = asyncio.ensure_future(fixture.ends[0].reply_to_all())
    assert len(await asyncio.gather(*accepted)) == len(accepted)
    working.cancel()


@pytest.fixture(scope="module")
def handlers(folder: Path) -> Handlers:
    return Handlers(ServedArtifact.open(folder, "v"), Settings())


def answer(handlers: Handlers, level: int, handler: str = "recommend", left_s: float = 60, **fields: object) -> dict:
    request = RecommendRequest(history=["song-1"], k=3, **fields)
    content = BatchRequest([request]) if handler == "batch" else request
    now = time.monotonic()
    task = TaskMessage(handler, msgspec.Raw(msgspec.json.encode(content)), now, now + left_s, level=level)
    return json.loads(next(handlers.replies([task])).outcome)


@pytest.mark.parametrize(
    ("level", "fields", "lost"),
    [
        (FULL, {}, []),
        (UNCERTIFIED, {}, ["certificate"]),
        (UNCERTIFIED, {"certify": True}, ["certificate"]),
        (UNCERTIFIED, {"certify": False}, []),
        (GREEDY, {}, ["certificate", "search"]),
        (GREEDY, {"certify": False}, ["search"]),
        (GREEDY, {"ranker": "beam"}, ["certificate", "search"]),
        (GREEDY, {"ranker": "knn", "certify": False}, []),
        (GREEDY, {"include": ["song-9"], "at_most": {"artist": 1}}, ["certificate", "search"]),
    ],
)
def test_answers_say_what_was_left_out(handlers: Handlers, level: int, fields: dict, lost: list[str]) -> None:
    for one in (answer(handlers, level, **fields), answer(handlers, level, "batch", **fields)["answers"][0]):
        assert one["left_out"] == lost
        assert len(one["items"]) == 3
        certified = "certificate" not in lost and fields.get("certify", True)
        assert (one["upper_bound"] is not None) == certified
    assert answer(handlers, level, "explain", **fields)["slate"]["left_out"] == lost


def test_a_request_near_its_deadline_says_that_it_had_less_time(handlers: Handlers) -> None:
    assert answer(handlers, FULL, left_s=0.05)["left_out"] == ["time"]
    assert answer(handlers, FULL, left_s=0.05, budget_ms=90)["left_out"] == ["time"]
    assert answer(handlers, FULL, left_s=30, budget_ms=90)["left_out"] == []
    assert len(answer(handlers, FULL, left_s=-1)["items"]) == 3  # it was close to its deadline when it was dispatched
    assert answer(handlers, UNCERTIFIED, left_s=0.001)["left_out"] == ["certificate", "time"]


def test_a_service_has_a_budget_only_if_its_operator_sets_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[float | None] = []
    served = ServedArtifact.open(folder, "v")
    original = sw.Recommender.recommend

    def noting(self: sw.Recommender, **arguments: object) -> sw.Slate:
        slate = original(self, **arguments)
        budgets.append(slate.query.budget_ms)
        return slate

    monkeypatch.setattr(sw.Recommender, "recommend", noting)
    for settings in (Settings(), Settings(budget_ms=70)):
        for fields in ({}, {"budget_ms": 30}):
            answer(Handlers(served, settings), FULL, **fields)
    assert budgets == [None, 30, 70, 30]


def test_a_recommender_without_certificates_loses_none(folder: Path, tmp_path: Path) -> None:
    loaded = sw.Recommender.load(folder)
    sw.Recommender(loaded.index, encoder=loaded.encoder, certify=False).save(tmp_path / "uncertified")
    handlers = Handlers(ServedArtifact.open(tmp_path / "uncertified", "v"), Settings())
    assert answer(handlers, UNCERTIFIED)["left_out"] == []
    assert answer(handlers, UNCERTIFIED, certify=True)["left_out"] == ["certificate"]


def test_a_group_loses_the_same(handlers: Handlers) -> None:
    now = time.monotonic()
    requests = [RecommendRequest(history=[f"song-{number}"], k=3) for number in range(3)]
    tasks = [
        TaskMessage("recommend", msgspec.Raw(msgspec.json.encode(one)), now, now + 60, level=GREEDY) for one in requests
    ]
    for reply in handlers.replies(tasks):
        assert json.loads(reply.outcome)["left_out"] == ["certificate", "search"]


def test_nothing_is_lost_without_attention(tmp_path: Path) -> None:
    """The best set of independent items is known at once, with its proof."""
    rng = np.random.default_rng(0)
    nothing = np.zeros((30, 1, 2), np.float32)
    catalog = sw.Catalog(nothing, nothing, nothing, base=rng.normal(size=(30, 2)).astype(np.float32))
    sw.Recommender(sw.Index.build(catalog, cells=2, progress=False)).save(tmp_path / "alone")
    handlers, now = Handlers(ServedArtifact.open(tmp_path / "alone", "v"), Settings()), time.monotonic()
    body = {"user": {"heads": [[0.0, 0.0]], "base": [1.0, 1.0]}, "k": 3}
    task = TaskMessage("recommend", msgspec.Raw(json.dumps(body).encode()), now, now + 60, level=GREEDY)
    found = json.loads(next(handlers.replies([task])).outcome)
    assert (found["left_out"], found["proven"]) == ([], True)


def test_a_service_at_rest_leaves_nothing_out(service: Here) -> None:
    assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["left_out"] == []
