"""Reloads, saves and lost workers at the same time: every answer is right for the version that it names."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from services import Here, here, post, world_recommender

import setwise as sw
from processes import children, until

pytestmark = pytest.mark.nightly

KEY = "a-long-and-random-key"
HISTORY = ["song-1", "song-40"]
BODY = {"history": HISTORY, "k": 3, "budget_ms": 5}
WORKERS = 2


@contextmanager
def repeating(*works: Callable[[], None]) -> Iterator[list[Exception]]:
    """Threads that do each of these again and again, until the block ends; what they raised."""
    stop, raised = threading.Event(), []

    def repeat(work: Callable[[], None]) -> None:
        while not stop.is_set():
            try:
                work()
            except Exception as error:
                raised.append(error)
                return

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield raised
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def without_collection() -> Iterator[None]:
    """No passes of the garbage collector: what is freed in the block is freed by those who have used it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Storm:
    """Clients, saves, reloads and kills against one service."""

    def __init__(self, service: Here, folder: Path) -> None:
        self.service, self.folder, self.rng = service, folder, random.Random(0)
        self.worlds = {number: world_recommender(n=number, heads=1) for number in (60, 80)}
        self.slates: list[dict[str, Any]] = []
        self.statuses: Counter[int] = Counter()
        self.reloads: Counter[int] = Counter()
        self.kills = 0
        self.client = httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)

    def ask(self) -> None:
        response = self.client.post("/v1/recommend", json=BODY)
        self.statuses[response.status_code] += 1
        if response.status_code == 200:
            self.slates.append(response.json())

    def save(self) -> None:
        self.worlds[self.rng.choice([60, 80])].save(self.folder)
        time.sleep(0.02)

    def reload(self) -> None:
        response = self.client.post("/admin/reload")
        self.reloads[response.status_code] += 1
        time.sleep(0.05 * self.rng.random())

    def kill(self) -> None:
        """Kill a worker at a random moment, and let as many answers come as there are workers: a slow machine may
        need longer to start one than a fixed pause, and then no worker would ever live."""
        time.sleep(0.3 * self.rng.random())
        pids = self.service.workers()
        if pids:
            os.kill(self.rng.choice(pids), signal.SIGKILL)
            self.kills += 1
        enough, latest = self.statuses[200] + WORKERS, time.monotonic() + 5
        while self.statuses[200] < enough and time.monotonic() < latest:
            time.sleep(0.01)


@pytest.mark.promise("worker-kills")
def test_reloads_saves_and_kills_at_once(tmp_path: Path, count, record_property) -> None:
    folder = tmp_path / "world"
    world_recommender(n=60, heads=1).save(folder)
    others = _worker_processes()  # services of other tests
    with without_collection(), here(folder, key=KEY, workers=WORKERS, deadline_ms=60_000) as service:
        assert post(service, "/v1/recommend", BODY)["items"]
        before = _descriptors()
        storm = Storm(service, folder)
        with repeating(storm.ask, storm.ask, storm.save, storm.reload, storm.reload, storm.kill) as raised:
            until(lambda: raised or (storm.kills >= count(200, 25) and storm.reloads[200] >= count(200, 40)), 600)
        storm.client.close()
        assert raised == []
        until(lambda: len(service.workers()) == WORKERS)
        assert post(service, "/v1/recommend", BODY)["items"]
        until(lambda: len(_worker_processes() - others) == WORKERS)  # those of former pools have ended
        until(lambda: _descriptors() <= before)
    assert set(storm.statuses) <= {200, 503}, storm.statuses
    assert storm.statuses[200] > storm.statuses[503]
    assert set(storm.reloads) <= {200, 409}, storm.reloads
    sizes = _check(storm)
    record_property(
        "seen",
        f"{storm.kills} kills, {storm.reloads[200]} reloads: {storm.statuses[200]:,} slates of {sizes} versions right, "
        f"{storm.statuses[503]} × 503",
    )


def _worker_processes() -> set[int]:
    """The workers of all services of this process: children of the server from which they are forked."""
    return {pid for server in children(os.getpid()) for pid in children(server)}


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _check(storm: Storm) -> int:
    """Compare every slate with the world that has its version; the number of versions."""
    of_version: dict[str, sw.Recommender] = {}
    for slate in storm.slates:
        rows = [int(item["id"].removeprefix("song-")) for item in slate["items"]]
        assert len(set(rows)) == len(rows)
        right = [
            world
            for world in storm.worlds.values()
            if max(rows) < len(world.index.catalog)
            and slate["value"] == pytest.approx(_value(world, [item["id"] for item in slate["items"]]), rel=1e-9)
        ]
        assert right, slate
        assert of_version.setdefault(slate["version"], right[0]) in right
    return len(of_version)


def _value(world: sw.Recommender, ids: list[str]) -> float:
    catalog = world.index.catalog
    user = world.recommend(history=HISTORY, k=1, certify=False).user
    return sw.set_value(catalog, user, catalog.rows_of(ids))
