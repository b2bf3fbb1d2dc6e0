"""Reload under load, damaged artifacts, and SIGTERM under load."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from raw_http import BODY, HEALTH, Client, head
from services import Here, Running, error_message, here, post, running, world_recommender

import setwise as sw
from processes import until, workers
from setwise.errors import StartTimeout
from setwise.service.http_errors import reload_failed
from setwise.service.metrics import Metrics
from setwise.service.reload import Reloader
from setwise.service.served import ServedArtifact
from setwise.service.settings import Settings
from setwise.service.worker_pool import Worker, WorkerPool

HISTORY = ["song-1", "song-40"]
KEY = "a-long-and-random-key"


class Load:
    """Clients that send requests until they are stopped: all responses, and all transport errors."""

    def __init__(self, service: Here | Running, clients: int, key: str | None = None) -> None:
        self._url, self._stop = service.url, threading.Event()
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.answers: list[httpx.Response] = []
        self.failures: list[Exception] = []
        self._clients = [threading.Thread(target=self._send, args=(number,)) for number in range(clients)]

    def _send(self, number: int) -> None:
        with httpx.Client(base_url=self._url, headers=self._headers, timeout=30) as client:
            while not self._stop.is_set():
                body = {"history": HISTORY, "k": 2 + number % 3, "budget_ms": 20}
                try:
                    self.answers.append(client.post("/v1/recommend", json=body))
                except httpx.TransportError as error:
                    self.failures.append(error)
                    return

    def __enter__(self) -> Load:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for client in self._clients:
            client.join()


@pytest.mark.promise("restarts")
def test_reloads_under_load(tmp_path: Path, count) -> None:
    """Two worlds by turns: every response is right for the world that its version names."""
    worlds = [world_recommender(n=200, seed=seed) for seed in (0, 1)]
    worlds[0].save(tmp_path / "world")
    with here(tmp_path / "world", key=KEY) as service, Load(service, 4, KEY) as load:
        owner = {service.client.get("/v1/info").json()["version"]: worlds[0]}
        for number in range(1, count(50) + 1):
            worlds[number % 2].save(tmp_path / "world")
            response = service.client.post("/admin/reload")
            assert response.status_code == 200, response.text
            owner[response.json()["version"]] = worlds[number % 2]
            had = len(load.answers)
            while len(load.answers) < had + 8:  # some answers from each
                time.sleep(0.01)
        assert f'setwise_reloads_total{{outcome="done"}} {count(50)}.0' in service.client.get("/metrics").text
    assert load.failures == []
    assert {response.status_code for response in load.answers} == {200}
    assert {response.json()["version"] for response in load.answers} == set(owner)
    users = {version: world.recommend(history=HISTORY, k=1).user for version, world in owner.items()}
    for response in load.answers:
        answer = response.json()
        catalog = owner[answer["version"]].index.catalog
        rows = catalog.rows_of([item["id"] for item in answer["items"]])
        assert answer["value"] == pytest.approx(sw.set_value(catalog, users[answer["version"]], rows), rel=1e-9)
        assert [item["attributes"]["title"] for item in answer["items"]] == catalog.attributes["title"][rows]


def damage(folder: Path, rng: random.Random, number: int) -> None:
    """One of several ways to damage the files in place."""
    data, manifest = next(folder.glob("arrays-*.safetensors")), folder / "manifest.json"
    victim = (data, manifest)[number % 2]
    content = bytearray(victim.read_bytes())
    way = number // 2 % 5
    if way == 0:
        victim.write_bytes(content[: rng.randrange(len(content))])
    elif way == 1:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        victim.write_bytes(content)
    elif way == 2:
        victim.write_bytes(rng.randbytes(len(content)))
    elif way == 3:
        victim.unlink()
    else:
        victim.write_bytes(b"")


def test_corrupt_artifacts_are_refused_and_the_old_one_serves(tmp_path: Path, count) -> None:
    """The service has a copy, so that even a truncated file does not affect it."""
    recommender, folder, rng = world_recommender(n=200), tmp_path / "world", random.Random(0)
    recommender.save(folder)
    with running(folder, "--workers", "1", key=KEY) as service:
        first = post(service, "/v1/recommend", {"history": HISTORY, "k": 3})
        for number in range(count(20, 4)):
            damage(folder, rng, number)
            sentence = error_message(service.client.post("/admin/reload"), 422)
            assert sentence.endswith("; the old one is still served.")
            again = post(service, "/v1/recommend", {"history": HISTORY, "k": 3})
            assert again["version"] == first["version"]
            assert again["items"] == first["items"]
            for leftover in folder.iterdir():
                leftover.unlink()
            recommender.save(folder)
        assert service.client.post("/admin/reload").json() == {"version": first["version"], "before": first["version"]}
        assert service.end() == 0
    refused = [line for line in service.logs if line.get("event") == "reload refused"]
    assert len(refused) == count(20, 4)
    assert not any("song-" in str(line) for line in service.logs), "no user's data in the logs"


def test_other_kinds_are_error_message(tmp_path: Path) -> None:
    recommender = world_recommender(n=50)
    recommender.save(tmp_path / "world")
    with here(tmp_path / "world", key=KEY) as service:
        for entry in (tmp_path / "world").iterdir():
            entry.unlink()
        assert "there is no manifest.json" in error_message(service.client.post("/admin/reload"), 422)
        recommender.index.catalog.save(tmp_path / "world")
        assert "the kind is 'catalog'" in error_message(service.client.post("/admin/reload"), 422)


def test_an_error_names_the_folder_and_not_the_copy(tmp_path: Path) -> None:
    catalog = sw.Catalog(np.eye(3), np.eye(3), np.eye(3))
    catalog.save(tmp_path / "only a catalogue")
    with pytest.raises(sw.SetwiseError, match="only a catalogue must be") as error:
        asyncio.run(WorkerPool.start(tmp_path / "only a catalogue", Settings(workers=2), Metrics()))
    assert "setwise-" not in str(error.value)


def test_a_worker_that_takes_too_long_to_open_the_artifact(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting: the artifact may be intact."""
    monkeypatch.setattr(Worker, "_handle", lambda *_: None)  # the report is never received
    with pytest.raises(StartTimeout, match="within 100 ms, but took longer; raise --start-ms") as error:
        asyncio.run(WorkerPool.start(folder, Settings(workers=1, start_ms=100), Metrics()))
    answer = reload_failed(error.value)
    assert (answer.status, answer.code) == (503, "start_timeout")
    assert "--start-ms" in str(answer)


def test_one_reload_at_a_time(folder: Path) -> None:
    with here(folder, key=KEY) as service, ThreadPoolExecutor(2) as pool:
        responses = [*pool.map(lambda _: service.client.post("/admin/reload"), range(2))]
    late = min(responses, key=lambda response: response.is_success)
    assert error_message(late, 409) == "A reload is in progress; wait until it ends."
    assert sorted(response.status_code for response in responses) == [200, 409]


def test_a_sighup_during_a_reload(tmp_path: Path) -> None:
    """The reload in progress may have read the old folder: one more follows, however often it was asked for."""
    asyncio.run(_reload_during_another(Reloader(tmp_path, Settings(), Metrics())))


async def _reload_during_another(reloader: Reloader) -> None:
    begun: list[float] = []

    async def new_pool() -> SimpleNamespace:
        begun.append(time.monotonic())
        await asyncio.sleep(0.02)
        return SimpleNamespace(info=SimpleNamespace(version=str(len(begun))))

    reloader._new_pool = new_pool
    queue = reloader.queue = SimpleNamespace(pool=await new_pool())
    queue.replace = lambda pool: setattr(queue, "pool", pool)
    first = asyncio.create_task(reloader.reload_later())
    while len(begun) < 2:
        await asyncio.sleep(0)
    changed = time.monotonic()
    await asyncio.gather(first, *(reloader.reload_later() for _ in range(5)))
    assert len(begun) == 3
    assert begun[-1] > changed
    assert queue.pool.info.version == "3"


def test_a_save_in_the_middle_of_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder changes between manifest and data: the copy is of the new artifact, or refused if it keeps changing."""
    from setwise.service import artifact_copy

    recommenders = [world_recommender(n=n) for n in (50, 60)]
    recommenders[0].save(tmp_path / "world")
    real, saves = artifact_copy._copy_file, []

    def meddling(source: Path, target: Path) -> None:
        if late:
            real(source, target)
        if len(saves) < most:
            saves.append(1)
            recommenders[len(saves) % 2].save(tmp_path / "world")
        if not late:
            real(source, target)

    monkeypatch.setattr(artifact_copy, "_copy_file", meddling)
    late, most = False, 1
    assert _items(artifact_copy.copy_artifact(tmp_path / "world", tmp_path / "first"), tmp_path / "first") == 60
    late, most = True, 2
    assert _items(artifact_copy.copy_artifact(tmp_path / "world", tmp_path / "second"), tmp_path / "second") == 50
    most = 100
    with pytest.raises(sw.SetwiseError, match="kept changing"):
        artifact_copy.copy_artifact(tmp_path / "world", tmp_path / "third")


def _items(version: str, artifact: Path) -> int:
    served = ServedArtifact.open(artifact, version)
    assert served.version == version
    return served.recommender.index.catalog.n_items


@pytest.mark.nightly
def test_sighup_reloads(tmp_path: Path) -> None:
    world_recommender(n=100).save(tmp_path / "world")
    with running(tmp_path / "world", "--workers", "2") as service:
        before = service.client.get("/v1/info").json()
        world_recommender(n=120).save(tmp_path / "world")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: service.client.get("/v1/info").json()["items"] == 120)
        assert service.client.get("/v1/info").json()["version"] != before["version"]
        next((tmp_path / "world").glob("arrays-*")).unlink()
        service.process.send_signal(signal.SIGHUP)
        until(lambda: any(line.get("event") == "reload refused" for line in service.logs))
        assert service.client.get("/v1/info").json()["items"] == 120
        until(lambda: len(workers(service)) == 2)  # a replaced worker may still be ending
        pids = workers(service)
        assert service.end() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


SIGNALLED = """
import os, signal
from setwise.cli import main
from setwise.service.http import Service

start = Service.start

async def start_and_signal(*arguments):
    service = await start(*arguments)
    os.kill(os.getpid(), signal.SIGHUP)
    return service

if __name__ == "__main__":  # not in workers
    Service.start = start_and_signal
    main()
"""  # a process that gets SIGHUP after it read the folder and before it listens


@pytest.mark.nightly
def test_sighup_while_the_service_starts(tmp_path: Path) -> None:
    """It ended the process: nothing handled the signal yet."""
    world_recommender(n=100).save(tmp_path / "world")
    with running(tmp_path / "world", "--workers", "1", program=["-c", SIGNALLED]) as service:
        until(lambda: any(line.get("event") == "reloaded" for line in service.logs))
        assert service.client.get("/v1/info").json()["items"] == 100
        assert service.end() == 0


def test_sigterm_under_load_answers_what_was_accepted(folder: Path) -> None:
    """As many responses arrive as the service has logged; the other clients see a closed connection."""
    with running(folder, "--workers", "1", "--deadline-ms", "60000") as service:
        service.client.close()
        with Load(service, 16) as load:
            while len(load.answers) < 40:
                time.sleep(0.01)
            status = service.end()
    assert status == 0
    ended = next(line for line in service.logs if line["event"] == "ended")
    assert ended["answered"] == len(load.answers)
    assert np.unique([response.status_code for response in load.answers]).tolist() == [200]
    assert len(load.failures) == 16, "every client notices the end"


@pytest.mark.nightly
def test_the_last_response_says_that_the_connection_closes(folder: Path) -> None:
    """A request that was pipelined behind it is not answered: the client sees that, and sends it again elsewhere."""
    with running(folder, "--workers", "1", "--heartbeat-ms", "30000", "--drain-ms", "200") as service:
        (worker,) = workers(service)
        os.kill(worker, signal.SIGSTOP)
        clients = [Client(service).send(head() + BODY + HEALTH) for _ in range(2)]
        until(lambda: "setwise_queue_length 1.0" in service.client.get("/metrics").text)  # the worker has the other
        service.client.close()
        assert service.end() == 0
        for client in clients:
            status, headers, _ = client.response()
            assert (status, headers["connection"]) == (503, "close")
            assert client.is_closed()
            client.socket.close()
