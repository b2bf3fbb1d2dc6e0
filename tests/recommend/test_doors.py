"""One policy behind all doors: the same query has the same slate, bound and effort in Python, alone and among many,
over HTTP, in a batch, on the command line and in a cluster, where the catalogue is too large to enumerate."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from in_process import cluster_of, world
from setwise import cli
from setwise.model.encoder import Encoder
from setwise.model.feature_encoder import FeatureEncoder
from setwise.recommend.batch.users import Columns, answers
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.effort import Effort
from setwise.recommend.query import where_to_json
from setwise.service.decoding import decode_recommend
from setwise.service.handlers import Handlers, TaskMessage
from setwise.service.served import ServedArtifact
from setwise.service.settings import Settings

TICK_S = 1.7e-4  # between two readings of the clock: bounds end after as many steps on any machine, however busy
LONG_MS = 300_000.0  # a budget that is not used up, within the deadline of the service
NOT_IN_TABLES = {"include", "scores", "scores_floor"}
ON_THE_COMMAND_LINE = 2  # queries: every one loads the recommender


class Answer(NamedTuple):
    """What a door says of a query."""

    items: list[Any]
    value: float
    upper_bound: float | None
    proven: bool

    @classmethod
    def of(cls, slate: sw.Slate) -> Answer:
        bound = slate.upper_bound if np.isfinite(slate.upper_bound) else None
        return cls(slate.items.tolist(), slate.value, bound, slate.proven)

    @classmethod
    def of_json(cls, body: dict[str, Any]) -> Answer:
        return cls([item["id"] for item in body["items"]], body["value"], body["upper_bound"], body["proven"])

    def check(self, other: Answer, of: str, same_steps: bool = True) -> None:
        """The same items, value and bound; a search that takes other steps must have the same bound if it ends."""
        assert self.items == other.items, of
        assert self.value == pytest.approx(other.value, rel=1e-12), of
        assert (self.upper_bound is None) == (other.upper_bound is None), of
        if self.upper_bound is None or other.upper_bound is None:
            return
        if same_steps or (self.proven and other.proven):
            assert self.upper_bound == pytest.approx(other.upper_bound, rel=1e-9), of
            assert self.proven == other.proven, of
        else:
            assert min(self.upper_bound, other.upper_bound) >= self.value * (1 - 1e-12), of


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

    def alone(self, query: dict[str, Any]) -> Answer:
        return Answer.of(self.recommender.recommend(**query))

    def among_many(self, query: dict[str, Any]) -> Answer:
        options, names = dict(query), {"user": "users", "history": "histories", "features": "features"}
        for name, of_many in {**names, "scores": "scores"}.items():
            if name in query:
                options[of_many] = [options.pop(name)] * 3
        slates = [Answer.of(slate) for slate in self.recommender.recommend_many(**options, threads=1)]
        slates[0].check(slates[2], "the first and the last of many")
        return slates[0]

    def over_http(self, query: dict[str, Any]) -> Answer:
        request = decode_recommend(json.dumps(in_json(query)).encode(), Settings(deadline_ms=600_000))
        now = time.monotonic()
        task = TaskMessage("recommend", msgspec.Raw(msgspec.json.encode(request)), now, now + 600)
        body = json.loads(next(self.handlers.replies([task])).outcome)
        assert body["left_out"] == []
        return Answer.of_json(body)

    def in_a_batch(self, query: dict[str, Any]) -> Answer:
        options = dict(query)
        if "user" in query:
            columns, cell = Columns(vector="vector"), options.pop("user").tolist()
        elif "history" in query:
            columns, cell = Columns(history="history"), options.pop("history")
        else:
            columns, cell = Columns(features=("size",)), options.pop("features")["size"]
        (slate,) = answers(self.recommender, columns, [("u", cell)], options)
        assert isinstance(slate, sw.Slate), slate
        return Answer.of(slate)

    def on_the_command_line(self, query: dict[str, Any], file: Path) -> Answer:
        arguments = ["recommend", str(self.folder), "--json", "--k", str(query["k"])]
        if "user" in query:
            file.write_text(json.dumps({"heads": [query["user"].tolist()]}))
            arguments += ["--user-json", str(file)]
        elif "history" in query:
            arguments += ["--history", ",".join(query["history"])]
        else:
            arguments += ["--features", f"size={query['features']['size']}"]
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 0, result.output
        return Answer.of_json(json.loads(result.stdout))

    def in_a_cluster(self, query: dict[str, Any]) -> Answer:
        return Answer.of(self.cluster.recommend(**query))


def in_json(query: dict[str, Any]) -> dict[str, Any]:
    """The body of this query."""
    body = dict(query)
    if "user" in body:
        body["user"] = {"heads": [body["user"].tolist()]}
    if "where" in body:
        body["where"] = where_to_json(body["where"])
    return body


def query_of(seed: int, n: int) -> dict[str, Any]:
    """A query with some of the arguments; every one is in a tenth of them at least."""
    rng = np.random.default_rng([seed, 1])

    def ids(many: int) -> list[str]:
        return [f"item {row}" for row in rng.choice(np.arange(8, n), many, replace=False)]

    descriptions: list[dict[str, Any]] = [
        {"user": rng.normal(size=3)},
        {"history": [*ids(3), "unheard"], "unknown": "ignore", "filter_seen": bool(seed % 2)},
        {"features": {"size": 1.0}},
    ]
    query: dict[str, Any] = {"k": int(rng.integers(2, 5)), **descriptions[seed % 3]}
    options: dict[str, Any] = {
        "exclude": ids(20),
        "include": ids(1),
        "where": {"colour": ["red", "blue"], "price": (1, None)},
        "at_most": {"colour": 2},
        "at_least": {"colour": {"green": 1}},
        "exactly": {"colour": 1},
        "budget_ms": LONG_MS,
        "certify": False,
        "ranker": "greedy",
        "scores": {one: float(score) for one, score in zip(ids(300), rng.normal(size=300), strict=True)},
    }
    query |= {name: options[name] for name in options if rng.random() < 0.2}
    if "budget_ms" in query:
        query["certify"] = False  # its bound would be searched as long
    if "exactly" in query:  # one item of each of three colours
        query = {name: query[name] for name in query if name not in ("where", "at_least", "at_most", "include")}
        query["k"] = 3
    if "where" in query:
        query = {name: query[name] for name in query if name not in ("include", "at_least")}
    if "scores" in query:
        query = {name: query[name] for name in query if name not in ("include", "exactly", "at_least")}
        query["scores_floor"] = -0.5
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
    queries, n = count(200, 20), 100_000 if count(200, 20) == 200 else 3_000
    doors, stated, compared, readings = Doors(n, tmp_path), set[str](), 0, itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: TICK_S * next(readings))
    for seed in range(queries):
        query = query_of(seed, n)
        stated |= query.keys()
        efforts.clear()
        expected = doors.alone(query)
        effort = set(efforts)
        others = {"many": doors.among_many, "HTTP": doors.over_http, "cluster": doors.in_a_cluster}
        if not query.keys() & NOT_IN_TABLES:
            others["batch"] = doors.in_a_batch
        for door, answered in others.items():
            efforts.clear()
            answered(query).check(expected, f"{door}, {seed}: {query}", door != "cluster")
            assert set(efforts) == effort, (door, seed)
            compared += 1
    assert compared > 3 * queries
    assert stated >= {"user", "history", "features", "unknown", "filter_seen", "scores", "exactly", "budget_ms"}
    for seed in range(ON_THE_COMMAND_LINE):
        query = {name: query_of(seed, n)[name] for name in ("k", "user", "history") if name in query_of(seed, n)}
        doors.on_the_command_line(query, tmp_path / "user.json").check(doors.alone(query), f"command line, {seed}")


def test_a_short_deadline_stops_searches_and_changes_no_effort(
    tmp_path: Path, efforts: list[Effort], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty requests to a batch share a deadline of 2 s: 67 ms each, less than a request usually takes."""
    doors, readings = Doors(3_000, tmp_path), itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: TICK_S * next(readings))
    queries = [{"user": np.random.default_rng(seed).normal(size=3), "k": 4} for seed in range(30)]
    efforts.clear()  # of kernels that were compiled
    expected = [doors.alone(query) for query in queries]
    effort = set(efforts)
    efforts.clear()
    now = time.monotonic()
    body = msgspec.json.encode({"requests": [in_json(query) for query in queries]})
    reply = next(doors.handlers.replies([TaskMessage("batch", msgspec.Raw(body), now, now + 2.0)]))
    answers = json.loads(reply.outcome)["answers"]
    assert set(efforts) == effort
    for answer, alone in zip(answers, expected, strict=True):
        assert answer["items"][0].keys() >= {"id", "reward"}
        Answer.of_json(answer).check(alone, "a batch", same_steps=False)
        assert answer["left_out"] in ([], ["time"])
