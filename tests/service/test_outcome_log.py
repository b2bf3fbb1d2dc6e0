"""The service with a log: slates get ids, outcomes are stored once, and neither is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from raw_http import Client, head
from services import Here, error_message, here, post, running

import processes
from processes import until
from setwise.service import outcome_log
from setwise.service.decoding import PART
from setwise.service.http_errors import HttpError
from setwise.service.metrics import Metrics
from setwise.service.outcome_log import LARGEST_COMMIT, MOST_SLATES, WAITING, OutcomeLog
from setwise.service.settings import Settings
from setwise.storage.slate_log import ItemOutcome, Recorded, ShownSlate, SlateLog, Totals, new_id, read_slates

BODY = {"history": ["song-1", "song-2"], "k": 3, "key": "visit 5", "budget_ms": 20}


@pytest.fixture(scope="module")
def folder_of_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log")


@pytest.fixture(scope="module")
def logging(folder: Path, folder_of_log: Path) -> Iterator[Here]:
    with here(folder, log=folder_of_log, workers=2) as service:
        yield service


def stored(folder: Path) -> dict[str, dict[object, float]]:
    return {one.id: {one.items[at]: outcome for at, outcome, _ in one.outcomes} for one in read_slates(folder)}


def test_a_slate_and_its_outcomes(logging: Here, folder_of_log: Path) -> None:
    answer = post(logging, "/v1/recommend", BODY)
    first, second = (item["id"] for item in answer["items"][:2])
    outcomes = [{"slate": answer["slate"], "item": first}, {"slate": answer["slate"], "item": second, "outcome": 0.5}]
    outcomes += [{"slate": new_id(), "item": first}, {"slate": answer["slate"], "item": "song-1"}]
    found = post(logging, "/v1/outcomes", {"outcomes": outcomes})
    assert (found["new"], found["repeated"]) == (2, 0)
    assert found["unknown_slates"] == [outcomes[2]["slate"]]
    assert found["not_shown"] == [{"slate": answer["slate"], "item": "song-1"}]
    again = post(logging, "/v1/outcomes", {"outcomes": outcomes})
    assert (again["new"], again["repeated"]) == (0, 2)
    (logged,) = (one for one in read_slates(folder_of_log) if one.id == answer["slate"])
    assert (logged.key, logged.version, logged.propensity) == ("visit 5", answer["version"], 1.0)
    assert logged.items == [item["id"] for item in answer["items"]]
    assert logged.rewards == pytest.approx([item["reward"] for item in answer["items"]])
    assert {logged.items[at]: outcome for at, outcome, _ in logged.outcomes} == {first: 1.0, second: 0.5}
    text = logging.metrics.text().decode()
    assert 'setwise_outcomes_total{kind="new"} 2.0' in text
    assert 'setwise_outcomes_total{kind="repeated"} 2.0' in text
    assert 'setwise_outcomes_total{kind="unknown"} 4.0' in text


def test_batches_are_logged_and_explanations_are_not(logging: Here, folder_of_log: Path) -> None:
    before = len(stored(folder_of_log))
    answers = post(logging, "/v1/recommend/batch", {"requests": [BODY, {**BODY, "key": "other", "k": 2}]})["answers"]
    assert post(logging, "/v1/explain", BODY)["slate"]["slate"] is None
    logged = {one.id: one for one in read_slates(folder_of_log)}
    assert len(logged) == before + 2
    assert [logged[one["slate"]].key for one in answers] == ["visit 5", "other"]


def test_a_slate_that_is_only_looked_at_is_not_logged(logging: Here, folder_of_log: Path) -> None:
    before = len(stored(folder_of_log))
    assert post(logging, "/v1/recommend", {**BODY, "log": False})["slate"] is None
    requests = [{**BODY, "log": False}, BODY]
    answers = post(logging, "/v1/recommend/batch", {"requests": requests})["answers"]
    assert [answer["slate"] is None for answer in answers] == [True, False]
    assert len(stored(folder_of_log)) == before + 1


def test_a_slate_that_nobody_received_is_not_logged(folder: Path, tmp_path: Path) -> None:
    """The slates of clients that had given up were logged as shown, and counted as slates without hits."""
    body = json.dumps(BODY | {"key": "gone"}).encode()
    with here(folder, log=tmp_path / "log") as service:
        (pid,), (worker,) = service.workers(), service.queue.pool.workers
        os.kill(pid, signal.SIGSTOP)
        try:
            with Client(service) as client:
                client.send(head(len(body)) + body)
                until(lambda: worker.unfinished)
            until(lambda: service.connections == 0)
        finally:
            os.kill(pid, signal.SIGCONT)
        last = post(service, "/v1/recommend", BODY)
    assert [slate.id for slate in read_slates(tmp_path / "log")] == [last["slate"]]


def test_many_clients_at_once(logging: Here, folder_of_log: Path) -> None:
    """Every client sends the outcomes of its slates three times."""

    def client(number: int) -> list[tuple[str, str]]:
        sent = []
        for _ in range(5):
            answer = post(logging, "/v1/recommend", {**BODY, "key": f"client {number}"})
            sent.append((answer["slate"], answer["items"][0]["id"]))
            for _ in range(3):
                post(logging, "/v1/outcomes", {"outcomes": [{"slate": slate, "item": item} for slate, item in sent]})
        return sent

    with ThreadPoolExecutor(8) as pool:
        sent = [pair for some in pool.map(client, range(8)) for pair in some]
    found = stored(folder_of_log)
    assert len(set(sent)) == 40
    assert all(found[slate] == {item: 1.0} for slate, item in sent)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"outcomes": []}, 422, "outcomes must be 1 to"),
        ({"outcomes": [{"slate": "a", "item": 1, "outcome": 1.5}]}, 422, "outcome must be a number from 0 to 1"),
        ({"outcomes": [{"slate": "a", "item": 1, "outcome": -1}]}, 422, "outcome must be a number from 0 to 1"),
        ({"outcomes": [{"slate": 5, "item": 1}]}, 400, "JSON as /docs describes"),
        ({"outcomes": [{"item": 1}]}, 400, "JSON as /docs describes"),
        ({"outcomes": [{"slate": "a", "item": 1, "colour": 2}]}, 400, "JSON as /docs describes"),
        ([], 400, "JSON as /docs describes"),
    ],
)
def test_outcomes_that_are_refused(logging: Here, body: object, status: int, words: str) -> None:
    assert words in error_message(logging.client.post("/v1/outcomes", json=body), status)


def test_keys_are_short(logging: Here) -> None:
    response = logging.client.post("/v1/recommend", json={**BODY, "key": "x" * 201})
    assert "key must be a text of at most 200 characters" in error_message(response, 422)


def test_a_service_without_a_log(service: Here) -> None:
    assert post(service, "/v1/recommend", BODY)["slate"] is None, "the key is accepted and not kept"
    response = service.client.post("/v1/outcomes", json={"outcomes": [{"slate": "a", "item": 1}]})
    assert "start it with --log DIR" in error_message(response, 404)


def test_explored_slates_are_logged_with_their_propensities(folder: Path, tmp_path: Path) -> None:
    with here(folder, log=tmp_path, explore_permille=500) as service:
        answers = [post(service, "/v1/recommend", BODY) for _ in range(30)]
    logged = {one.id: one for one in read_slates(tmp_path)}
    best = max(answer["value"] for answer in answers)
    for answer in answers:
        one = logged[answer["slate"]]
        assert one.items == [item["id"] for item in answer["items"]]
        assert one.propensity == (pytest.approx(0.5 / 60) if one.explored else 0.5)
        assert one.explored or answer["value"] == pytest.approx(best)
    assert {one.explored for one in logged.values()} == {True, False}  # all alike: once in 5e8


# --- the disk, and kill -9 ---


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 512)


@pytest.mark.promise("disk")
def test_a_full_disk_refuses_outcomes_and_serves_slates(folder: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if processes.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk]).returncode:
        pytest.skip("mounting is not permitted")
    try:
        with here(folder, log=disk / "log") as service:
            answer = post(service, "/v1/recommend", BODY)
            outcomes = {"outcomes": [{"slate": answer["slate"], "item": answer["items"][0]["id"]}]}
            fill(disk / "filler")
            response = service.client.post("/v1/outcomes", json=outcomes)
            assert "send them again" in error_message(response, 503)
            assert response.headers["Retry-After"] == "5"
            fill(disk / "more filler")  # the failed write has left some room
            assert post(service, "/v1/recommend", BODY)["items"], "slates are served all the same"
            assert b"setwise_unlogged_slates_total 1.0" in service.metrics.text()
            (disk / "filler").unlink()
            (disk / "more filler").unlink()
            assert post(service, "/v1/outcomes", outcomes)["new"] == 1
    finally:
        processes.run(["umount", disk], check=True)


@pytest.mark.nightly
@pytest.mark.promise("outcomes")
def test_kill_9_of_the_service_loses_no_outcome(folder: Path, tmp_path: Path, count) -> None:
    """It is killed while outcomes are being sent; those that were answered 200 are in the log."""
    accepted: set[tuple[str, str]] = set()
    for _ in range(count(10, 10)):
        with running(folder, "--log", str(tmp_path), "--workers", "1") as service:
            answer = service.client.post("/v1/recommend", json=BODY).json()
            pairs = [(answer["slate"], item["id"]) for item in answer["items"]]

            def send(pair: tuple[str, str], service=service) -> tuple[str, str] | None:
                body = {"outcomes": [{"slate": pair[0], "item": pair[1]}] * 2}
                try:
                    return pair if service.client.post("/v1/outcomes", json=body).status_code == 200 else None
                except httpx.HTTPError:
                    return None

            with ThreadPoolExecutor(3) as pool:
                sending = [pool.submit(send, pair) for pair in pairs * 20]
                while sum(one.done() for one in sending) < 5:
                    time.sleep(0.001)
                service.process.send_signal(signal.SIGKILL)
                accepted |= {pair for one in sending if (pair := one.result()) is not None}
    found = stored(tmp_path)
    assert accepted
    assert all(found[slate].get(item) == 1.0 for slate, item in accepted)


# --- drift ---


def slate(now: float, *rewards: float) -> ShownSlate:
    return ShownSlate(new_id(now), None, "v", json.dumps(list(range(len(rewards)))), list(rewards))


def test_drift_counts_settled_slates_of_a_week(tmp_path: Path) -> None:
    now, day = time.time(), 86_400.0
    old, settled, unsettled = slate(now - 9 * day, 0.9), slate(now - 2 * day, 0.5, 0.5), slate(now, 0.5)
    others = [slate(now - 2 * day, 0.5, 0.5) for _ in range(3)]
    log = SlateLog(tmp_path)
    log.write([[old, settled, unsettled, *others], [ItemOutcome(settled.id, 0), ItemOutcome(settled.id, 1)]])
    log.close()
    metrics = Metrics()

    async def measure() -> None:
        one = OutcomeLog(tmp_path, Settings(log_wait_h=24), metrics)
        while b"setwise_settled_slates 4.0" not in metrics.text():
            await asyncio.sleep(0.01)
        await one.end()

    asyncio.run(asyncio.wait_for(measure(), 60))
    text = metrics.text().decode()
    assert "setwise_promised_hits 1.0" in text
    assert "setwise_had_hits 0.5" in text
    assert "setwise_drift -0.5" in text
    assert f"setwise_drift_standard_errors {-0.5 / math.sqrt(0.75 / 4)}" in text


def test_no_drift_without_slates() -> None:
    metrics = Metrics()
    metrics.set_drift(Totals())
    text = metrics.text().decode()
    assert "setwise_settled_slates 0.0" in text
    for name in ("promised_hits", "had_hits", "drift", "drift_standard_errors"):
        assert f"setwise_{name} NaN" in text


def test_slates_do_not_wait_for_many_outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million outcomes were written in one transaction; a slate waited 30 s for it, and all were in memory."""
    began, go_on, sizes = threading.Event(), threading.Event(), list[list[str]]()
    write = SlateLog.write

    def watched(self: SlateLog, entries: Sequence[Sequence[ShownSlate | ItemOutcome]]) -> list[Recorded]:
        sizes.append([type(one).__name__ for entry in entries for one in entry])
        began.set()
        assert go_on.wait(60)
        return write(self, entries)

    monkeypatch.setattr(SlateLog, "write", watched)

    async def write_all() -> None:
        log = OutcomeLog(tmp_path, Settings(outcomes=1000), Metrics())
        many = [ItemOutcome(new_id(), "a", 1.0) for _ in range(LARGEST_COMMIT)]
        outcomes = [asyncio.create_task(log.add_outcomes(many)) for _ in range(4)]
        await asyncio.to_thread(began.wait)
        slate = asyncio.create_task(log.add_shown([shown_slate()], time.monotonic() + 600))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(slate, *outcomes)
        with log.room(1000 * WAITING), pytest.raises(HttpError, match="send them again"), log.room(1):
            pass
        with log.room(2000 * WAITING):  # alone it has room
            pass
        await log.end()

    asyncio.run(write_all())
    assert sizes[0] == ["ItemOutcome"] * LARGEST_COMMIT
    assert sizes[1][0] == "ShownSlate"
    assert max(map(len, sizes)) <= LARGEST_COMMIT + 1
    assert sum(map(len, sizes)) == 4 * LARGEST_COMMIT + 1


def shown_slate() -> ShownSlate:
    return ShownSlate(new_id(), None, "v", '["a"]', [0.5], 1.0, False)


def test_slates_are_served_while_the_log_stalls(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slate waited for the log without a limit: 10 s while another process kept the database."""
    go_on, write = threading.Event(), SlateLog.write

    def stalled(self: SlateLog, entries: Sequence[Sequence[ShownSlate | ItemOutcome]]) -> list[Recorded]:
        assert go_on.wait(300)
        return write(self, entries)

    monkeypatch.setattr(SlateLog, "write", stalled)
    with here(folder, log=tmp_path / "log", deadline_ms=2000) as service:
        try:
            slates = [post(service, "/v1/recommend", BODY)["slate"] for _ in range(2)]
        finally:
            go_on.set()
    assert [slate.id for slate in read_slates(tmp_path / "log")] == slates  # written when the log went on
    assert b"setwise_unlogged_slates_total 0.0" in service.metrics.text()


def test_few_slates_wait_for_a_log_that_stalls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def stalled(self: SlateLog, entries: Sequence[Sequence[ShownSlate | ItemOutcome]]) -> list[Recorded]:
        assert go_on.wait(300)
        raise sqlite3.OperationalError("locked")

    monkeypatch.setattr(SlateLog, "write", stalled)
    metrics = Metrics()

    async def write_all() -> None:
        log = OutcomeLog(tmp_path, Settings(), metrics)
        await log.add_shown([shown_slate()] * MOST_SLATES, 0.0)
        await log.add_shown([shown_slate()], 0.0)
        assert b"setwise_unlogged_slates_total 1.0" in metrics.text()
        go_on.set()
        await log.end()

    asyncio.run(write_all())
    assert f"setwise_unlogged_slates_total {MOST_SLATES + 1}.0" in metrics.text().decode()


def test_a_service_whose_log_is_locked_ends(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes that waited were disconnected without a response, and each commit delayed the end by 10 s."""
    monkeypatch.setattr(outcome_log, "END_S", 0.5)
    with ThreadPoolExecutor(3) as pool, here(folder, log=tmp_path / "log", drain_ms=500) as service:
        slate = post(service, "/v1/recommend", BODY)
        body = {"outcomes": [{"slate": slate["slate"], "item": slate["items"][0]["id"]}]}
        (path,) = (tmp_path / "log").glob("week-*.sqlite")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            sent = [pool.submit(httpx.post, f"{service.url}/v1/outcomes", json=body, timeout=60) for _ in range(3)]
            until(lambda: service.service.log._waiting == 3 * PART)
            service.end()
            answers = [one.result() for one in sent]
    assert [answer.status_code for answer in answers] == [503] * 3
    assert stored(tmp_path / "log").keys() == {slate["slate"]}
