"""A service of a cluster answers as one of the index does; what the front lacks is refused, lost shards are said."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from cluster_services import split
from services import Here, error_message, here, post, world_recommender

import setwise as sw
from processes import until
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.recommend.cluster.files import read_front
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.cluster.joining import check_address
from setwise.service.metrics import Metrics
from setwise.service.served_cluster import FrontAnswers, TimedCalls
from setwise.service.settings import Settings
from setwise.service.worker_pool import WorkerPool

HISTORY = ["song-1", "song-40"]
KEY = "a-long-and-random-key"


@pytest.fixture(scope="module")
def world() -> sw.Recommender:
    return world_recommender(n=300)


@pytest.fixture(scope="module")
def index(world: sw.Recommender, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """The service of the index itself."""
    folder = tmp_path_factory.mktemp("index") / "world"
    world.save(folder)
    with here(folder) as service:
        yield service


@pytest.fixture(scope="module")
def service(world: sw.Recommender, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("cluster")
    with here(folder, key=KEY, cluster=split(world, folder), workers=2) as service:
        yield service


def test_slates_are_those_of_the_index(service: Here, index: Here) -> None:
    for body in (
        {"k": 4},
        {"k": 3, "where": {"year": {"from": 1990}}, "at_most": {"artist": 1}},
        {"history": [], "k": 2, "include": ["song-9"], "exclude": ["song-3"]},
    ):
        body = {"history": HISTORY, "certify": False, "budget_ms": 9000} | body
        ours, theirs = (post(one, "/v1/recommend", body) for one in (service, index))
        assert ours["items"] == theirs["items"]
        assert ours["value"] == theirs["value"]
        assert not ours["partial"]
    requests = [{"history": [f"song-{number}"], "k": 3, "certify": False, "ranker": "knn"} for number in range(6)]
    ours, theirs = (post(one, "/v1/recommend/batch", {"requests": requests})["answers"] for one in (service, index))
    assert [one["items"] for one in ours] == [one["items"] for one in theirs]


def test_info_and_items_are_those_of_the_index(service: Here, index: Here) -> None:
    ours, theirs = (one.client.get("/v1/info").json() for one in (service, index))
    assert (ours.pop("shards"), theirs.pop("shards")) == (3, 0)
    assert ours.pop("version") != theirs.pop("version")
    assert {**ours, "limits": 0} == {**theirs, "limits": 0}
    titles = [item["attributes"]["title"] for item in index.client.get("/v1/items?limit=9").json()["items"]]
    for query in ("limit=5", f"q={titles[0].split()[0]}&limit=7", f"q={titles[8]}", "q=song-2&limit=3", "q=nothing",
                  "ids=song-299,song-0,other,song-150", "ids=song-7,song-8&limit=1", 'ids=["song-7","song,8","song-9"]', 'ids=["song-7"', "ids="):  # fmt: skip
        ours, theirs = (one.client.get(f"/v1/items?{query}").json() for one in (service, index))
        assert ours == theirs, query


def test_mistakes_are_errors_of_the_request(service: Here) -> None:
    refused = service.client.post("/v1/recommend", json={"history": ["nothing"], "unknown": "error"})
    assert "an id of history" in error_message(refused, 422)
    refused = service.client.post("/v1/recommend", json={"history": HISTORY, "where": {"colour": "red"}})
    assert "colour" in error_message(refused, 422)
    given = {"history": HISTORY, "k": 2, "items": ["song-none"]}
    assert "song-none" in error_message(service.client.post("/v1/explain", json=given), 422)


def test_explanations_are_those_of_the_index(service: Here, index: Here) -> None:
    body = {"history": HISTORY, "k": 4, "certify": False, "budget_ms": 5000}
    for more in ({}, {"items": ["song-9", "song-30", "song-5"]}):
        ours, theirs = (post(one, "/v1/explain", body | more) for one in (service, index))
        for name in ("attention", "sink", "rewards", "alone", "lent", "gain_over_top_k", "gain_over_greedy"):
            assert ours[name] == theirs[name], name
        sets = [[(one["ranker"], one["items"], one["value"]) for one in each["rivals"]] for each in (ours, theirs)]
        assert sets[0] == sets[1]


class FewAnswers:
    """A front that has two arguments."""

    ranker = "swap"

    def recommend(self, user=None, k=10) -> str:
        return f"{user} {k}"

    def recommend_many(self, users=(), k=10, threads=1) -> list[str]:
        return [self.recommend(one, k) for one in users]


def test_what_a_front_does_not_have_is_refused() -> None:
    answers = FrontAnswers(FewAnswers())  # type: ignore[arg-type]
    assert answers.recommend(user="u", k=3) == "u 3"
    assert answers.recommend_many(users=["a", "b"], k=1, threads=1) == ["a 1", "b 1"]
    for call, arguments, name in (
        (answers.recommend, {"user": "u", "exactly": {"artist": 1}}, "exactly"),
        (answers.recommend_many, {"users": ["a"], "scores": [{}], "k": 1}, "scores"),
        (answers.recommend_many, {"features": [{}], "k": 1}, "features"),
    ):
        with pytest.raises(InvalidInput, match=f"{name} must be left out, as a cluster does not have it"):
            call(**arguments)


def test_a_reload_serves_the_changes_in_one_step(world: sw.Recommender, tmp_path: Path) -> None:
    cluster = split(world, tmp_path)
    hosts = cluster.hosts(tmp_path, read_front(tmp_path), Settings())
    with here(tmp_path, key=KEY, cluster=cluster) as service:
        first = post(service, "/v1/recommend", {"history": HISTORY, "k": 3})
        gone = [item["id"] for item in first["items"]]
        ClusterRecommender.open(tmp_path, hosts).remove(gone)
        again = post(service, "/v1/recommend", {"history": HISTORY, "k": 3})
        assert (again["items"], again["version"]) == (first["items"], first["version"]), "the layout of the start"
        reloaded = service.client.post("/admin/reload").json()
        assert reloaded["before"] == first["version"] != reloaded["version"]
        after = post(service, "/v1/recommend", {"history": HISTORY, "k": 3})
        assert after["version"] == reloaded["version"]
        assert not {item["id"] for item in after["items"]} & set(gone)
        assert service.client.get("/v1/info").json()["items"] == 297
        assert service.client.get(f"/v1/items?ids={gone[0]}").json() == {"items": [], "total": 0}
        assert service.client.get(f"/v1/items?q={gone[0]}").json()["total"] == sum(
            gone[0] in f"song-{row}" and f"song-{row}" not in gone for row in range(300)
        )


@pytest.mark.parametrize("partial", [False, True])
def test_lost_shards(world: sw.Recommender, tmp_path: Path, partial: bool) -> None:
    body = {"history": HISTORY, "k": 3, "ranker": "knn", "certify": False}  # of no search, so of no time
    with here(tmp_path, cluster=split(world, tmp_path, partial=partial), deadline_ms=8000) as service:
        whole = post(service, "/v1/recommend", body)
        for what in ("fail", "silent"):
            (tmp_path / f"{what}-1").touch()
            answer = service.client.post("/v1/recommend", json=body)
            if partial:
                assert answer.json()["partial"]
                assert not {int(item["id"][5:]) for item in answer.json()["items"]} & set(range(100, 200))
            else:
                assert answer.headers["Retry-After"] == "1"
                assert error_message(answer, 503).startswith("Shard 1 must answer, but did not")
            answers = post(service, "/v1/recommend/batch", {"requests": [body] * 3})["answers"]
            expected = [None if partial else "shard_unavailable"] * 3
            assert [one.get("error", {}).get("code") for one in answers] == expected
            assert service.client.get("/readyz").status_code == 200, "workers are ready"
            (tmp_path / f"{what}-1").unlink()
            until(lambda: service.client.post("/v1/recommend", json=body).json().get("items") == whole["items"])
        text = service.client.get("/metrics").text
    assert 'setwise_shard_failures_total{shard="1"}' in text
    assert 'setwise_shard_seconds_count{shard="2"}' in text
    assert ("setwise_partial_slates_total 0.0" in text) != partial


def test_what_a_lost_shard_may_have_is_not_called_unknown(world: sw.Recommender, tmp_path: Path) -> None:
    with here(tmp_path, cluster=split(world, tmp_path, partial=True), deadline_ms=8000) as service:
        (tmp_path / "fail-1").touch()
        pinned = service.client.post("/v1/recommend", json={"history": [], "k": 3, "include": ["song-150"]})
        assert error_message(pinned, 503).startswith("Shard 1 must answer")
        body = {"k": 3, "ranker": "knn", "certify": False, "unknown": "error"}
        batch = {"requests": [{**body, "history": [f"song-{row}"]} for row in (1, 150, 250)]}
        answers = post(service, "/v1/recommend/batch", batch)["answers"]
    assert [one.get("error", {}).get("code") for one in answers] == [None, "shard_unavailable", None]
    assert answers[0]["partial"]


def test_late_and_refused_calls_count_as_failures() -> None:
    """A host that is started again answers what it was asked before, too late; meanwhile its calls are refused."""
    asked = list[Future[int]]()

    class Slow:
        def submit(self, *arguments: object) -> Future[int]:
            asked.append(Future())
            return asked[-1]

    timed = TimedCalls(deadline_ms=20)
    host = timed.host(3, Slow())
    host.submit()
    time.sleep(0.03)
    assert isinstance(host.submit().exception(), ConnectionError)
    asked[0].set_result(1)
    host.submit()
    asked[1].set_result(1)
    late, refused, answered = sorted(timed.taken(), key=lambda call: call[1] is not None)
    assert late == refused == (3, None)
    assert answered[0] == 3
    assert answered[1] is not None


def test_a_folder_without_shards(world: sw.Recommender, tmp_path: Path) -> None:
    """A bad layout is refused by a reload, and the old one is served."""
    with here(tmp_path, key=KEY, cluster=split(world, tmp_path)) as service:
        (tmp_path / "fail-2").touch()
        assert "shard 2 did not answer" in error_message(service.client.post("/admin/reload"), 422)
        (tmp_path / "fail-2").unlink()
        (tmp_path / "cluster" / "manifest.json").unlink()
        assert "there is no manifest.json" in error_message(service.client.post("/admin/reload"), 422)
        assert post(service, "/v1/recommend", {"history": HISTORY, "k": 3})["items"]
    with pytest.raises(DamagedArtifact):
        asyncio.run(WorkerPool.start(tmp_path, Settings(workers=1), Metrics(), split(world, tmp_path / "other")))


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("nowhere", "cluster must be the address of a cluster of Ray, such as"),
        ("ray://here", "such as 10.0.0.1:6379, or auto, got 'ray://here'"),
        ("127.0.0.1:1", "the address of a running cluster of Ray, got '127.0.0.1:1' .no process listens there."),
    ],
)
def test_addresses_where_no_cluster_is(address: str, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        check_address(address)
    check_address("auto")
