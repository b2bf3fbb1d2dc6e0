"""One policy behind all doors: the same query has the same slate, bound and effort in Python, alone and among many,
over HTTP, in a batch, on the command line and in a cluster, where the catalogue is too large to enumerate."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import setwise as sw
from doors import NOT_IN_TABLES, Answer, Query, by_command, by_many, by_one, by_table, unless_refused
from in_process import cluster_of, world
from setwise.errors import SetwiseError
from setwise.model.encoder import Encoder
from setwise.model.feature_encoder import FeatureEncoder
from setwise.recommend.arguments import ARGUMENTS
from setwise.recommend.batch.users import Columns, answers
from setwise.recommend.cluster.front import ONE_PROCESS, ClusterRecommender
from setwise.recommend.effort import Effort
from setwise.recommend.query import arguments_from_json
from setwise.service.decoding import decode_recommend
from setwise.service.handlers import Handlers, TaskMessage
from setwise.service.http_errors import HttpError
from setwise.service.served import ServedArtifact
from setwise.service.settings import Settings

TICK_S = 1.7e-4  # between two readings of the clock: bounds end after as many steps on any machine, however busy
LONG_MS = 300_000.0  # a budget that is not used up, within the deadline of the service
LOADING = 20  # queries that commands answer, too: each loads the recommender


def check(answer: Answer | None, expected: Answer | None, of: str, same_steps: bool = True) -> None:
    """The same items, value and bound; a search that takes other steps must have the same bound if it ends."""
    assert (answer is None) == (expected is None), of
    if answer is None or expected is None:
        return
    assert (answer.items, [*map(str, answer.ignored)]) == (expected.items, [*map(str, expected.ignored)]), of
    assert answer.value == pytest.approx(expected.value, rel=1e-12), of
    assert (answer.upper_bound is None) == (expected.upper_bound is None), of
    if answer.upper_bound is None or expected.upper_bound is None:
        return
    if same_steps or (answer.proven and expected.proven):
        assert answer.upper_bound == pytest.approx(expected.upper_bound, rel=1e-9), of
        assert answer.proven == expected.proven, of
    else:
        assert min(answer.upper_bound, expected.upper_bound) >= answer.value * (1 - 1e-12), of


class Doors:
    """One saved recommender behind all doors."""

    def __init__(self, n: int, folder: Path) -> None:
        rng = np.random.default_rng(0)
        catalog, _ = world(0, n, d=3)
        encoder = Encoder(rng.normal(size=(n, 4)), rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 3)))
        leaf = (np.zeros(1, np.int64), np.array([-1]), np.zeros(1), np.zeros(1, np.int64), np.zeros(1, np.int64))
        features = FeatureEncoder(
            ("size",), np.zeros(1), np.zeros(0, np.int64), *leaf, np.array([0, 3]), np.arange(3), rng.normal(size=3),
            np.ones((1, 3)),
        )  # fmt: skip
        made = sw.Recommender(sw.Index.build(catalog, cells=12), candidates=100, encoder=encoder, features=features)
        made.save(folder / "saved")
        self.folder, self.recommender = folder / "saved", sw.Recommender.load(folder / "saved").prepare()
        served = ServedArtifact.open(self.folder, "v")
        served.recommender.prepare()
        self.handlers = Handlers(served, Settings())
        self.cluster: ClusterRecommender = cluster_of(self.recommender, folder / "cluster", 3)[0]

    def over_http(self, query: Query) -> Answer | None:
        request = decode_recommend(json.dumps(query).encode(), Settings(deadline_ms=600_000))
        now = time.monotonic()
        task = TaskMessage("recommend", msgspec.Raw(msgspec.json.encode(request)), now, now + 600)
        outcome = next(self.handlers.replies([task])).outcome
        if isinstance(outcome, HttpError):
            assert outcome.status == 422
            return None
        body = json.loads(outcome)
        assert body["left_out"] == []
        return Answer.of_json(body)

    def in_a_batch(self, query: Query) -> Answer:
        """A row of a table that is read already."""
        options = arguments_from_json(query)
        if "user" in query:
            columns, cell = Columns(vector="vector"), options.pop("user").heads.ravel().tolist()
        elif "history" in query:
            columns, cell = Columns(history="history"), options.pop("history")
        else:
            columns, cell = Columns(features=("size",)), options.pop("features")["size"]
        (slate,) = answers(self.recommender, columns, [("u", cell)], options)
        if isinstance(slate, SetwiseError):
            raise slate
        return Answer.of(slate)

    def ways(self, query: Query, number: int) -> dict[str, Callable[[], Answer | None]]:
        """How each door is asked."""
        stated, folder = arguments_from_json(query), self.folder.parent
        ways: dict[str, Callable[[], Answer | None]] = {
            "python": lambda: by_one(self.recommender, stated),
            "many": lambda: by_many(self.recommender, stated),
            "HTTP": lambda: self.over_http(query),
        }
        if not query.keys() & set(ONE_PROCESS):
            ways["cluster"] = lambda: by_one(self.cluster, stated)
        if number < LOADING:
            ways["command line"] = lambda: by_command(query, self.folder, folder)
        if not query.keys() & NOT_IN_TABLES:
            ways["batch"] = lambda: self.in_a_batch(query)
            if number < LOADING:
                ways["table"] = lambda: by_table(query, self.folder, folder, number)
        return ways


def query_of(seed: int, n: int) -> dict[str, Any]:
    """A query with some of the arguments; every one is in a tenth of them at least."""
    rng = np.random.default_rng([seed, 1])

    def ids(many: int) -> list[str]:
        return [f"item {row}" for row in rng.choice(np.arange(8, n), many, replace=False)]

    scores = {id_: float(score) for id_, score in zip(ids(300), rng.normal(size=300), strict=True)}
    descriptions: list[Query] = [
        {"user": {"heads": [rng.normal(size=3).tolist()]}},
        {"history": [*ids(3), "unheard"], "unknown": "ignore", "filter_seen": bool(seed % 2)},
        {"features": {"size": 1.0}},
        {"scores": {**scores, "unscored": 1.0}},
        {"history": [*ids(3), "unheard"], "unknown": "error"},
    ]
    query: Query = {"k": int(rng.integers(2, 5)), **descriptions[seed % 5]}
    options: Query = {
        "exclude": [*ids(20), "unseen"],
        "include": ids(1),
        "where": {"colour": ["red", "blue"], "price": {"from": 1}},
        "at_most": {"colour": 2},
        "at_least": {"colour": {"green": 1}},
        "exactly": {"colour": 1},
        "weights": "price",
        "value_unit": "EUR",
        "sum_at_most": {"price": 9.0},
        "sum_at_least": {"price": 1.0},
        "after": [f"item {row}" for row in range(3)],
        "after_counts": True,
        "budget_ms": LONG_MS,
        "certify": False,
        "ranker": "greedy",
        "scores": scores,
    }
    for number, (name, value) in enumerate(options.items()):
        if name not in query and (rng.random() < 0.2 or seed % len(options) == number):
            query[name] = value
    if "budget_ms" in query:
        query["certify"] = False  # its bound would be searched as long
    if "exactly" in query:  # one item of each of three colours
        query = {name: query[name] for name in query if name not in ("where", "at_least", "at_most", "include")}
        query["k"] = 3
    if "after" in query or "sum_at_least" in query:  # which may contradict other limits
        query = {name: query[name] for name in query if name not in ("include", "at_least", "exactly", "after_counts")}
        query |= {"after_counts": True} if seed % 2 and "after" in query else {}
    if "where" in query:
        query = {name: query[name] for name in query if name != "include"}
    if "scores" in query:
        query = {name: query[name] for name in query if name not in ("include", "exactly", "at_least")}
        query |= {"scores_floor": -0.5} if seed % 5 != 3 else {}
    return query


@pytest.fixture
def efforts(monkeypatch: pytest.MonkeyPatch) -> list[Effort]:
    """The efforts of the queries that were answered."""
    noted: list[Effort] = []
    original = Effort.of

    def noting(*arguments: Any) -> Effort:
        noted.append(original(*arguments))
        return noted[-1]

    monkeypatch.setattr(Effort, "of", noting)
    return noted


def test_the_same_query_has_the_same_answer_behind_all_doors(
    count, tmp_path: Path, efforts: list[Effort], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, n = count(200, 32), 100_000 if count(200, 32) == 200 else 3_000
    doors, stated, compared, refused, readings = Doors(n, tmp_path), set[str](), 0, 0, itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: TICK_S * next(readings))
    for seed in range(queries):
        query = query_of(seed, n)
        stated |= query.keys()
        ways = doors.ways(query, seed)
        efforts.clear()
        expected = unless_refused(ways.pop("python"))
        effort, refused = set(efforts), refused + (expected is None)
        for door, ask in ways.items():
            efforts.clear()
            check(unless_refused(ask), expected, f"{door}, {seed}: {query}", door != "cluster")
            assert expected is None or set(efforts) == effort, (door, seed)
            compared += 1
    assert compared > 3 * queries
    assert 0 < refused < queries / 2
    assert stated >= ARGUMENTS.keys()


def test_a_short_deadline_stops_searches_and_changes_no_effort(
    tmp_path: Path, efforts: list[Effort], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty requests to a batch share a deadline of 2 s: 67 ms each, less than a request usually takes."""
    doors, readings = Doors(3_000, tmp_path), itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: TICK_S * next(readings))
    queries = [
        {"user": {"heads": np.random.default_rng(seed).normal(size=(1, 3)).tolist()}, "k": 4} for seed in range(30)
    ]
    efforts.clear()  # of kernels that were compiled
    expected = [by_one(doors.recommender, arguments_from_json(query)) for query in queries]
    effort = set(efforts)
    efforts.clear()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)  # however busy the machine is
    body = msgspec.json.encode({"requests": queries})
    reply = next(doors.handlers.replies([TaskMessage("batch", msgspec.Raw(body), now, now + 2.0)]))
    bodies = json.loads(reply.outcome)["answers"]
    assert set(efforts) == effort
    for answer, alone in zip(bodies, expected, strict=True):
        check(Answer.of_json(answer), alone, "a batch", same_steps=False)
    assert bodies[0]["left_out"] == ["time"]
