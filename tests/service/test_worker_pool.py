"""The processes that compute: what they say and do, how they end, and who takes their place."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest
from services import Running, here, post, refused, running, world_recommender

from setwise.service import worker
from setwise.service.handlers import Find, Many, One, Order, Reply, Why
from setwise.service.http_errors import Refusal
from setwise.service.schemas import Ask
from setwise.service.settings import Settings
from setwise.service.worker import Fit, Unfit

HEARD = msgspec.msgpack.Decoder(Reply | Fit | Unfit)


@contextlib.contextmanager
def at_work(artifact: Path) -> Iterator[Connection]:
    """The other end of the line of a worker in a thread of this process."""
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())

    def work() -> None:
        with contextlib.suppress(EOFError), theirs:
            worker.serve(theirs, artifact, "version", Settings(awake_ms=1))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield ours
    finally:
        ours.close()
        thread.join()
        gc.unfreeze()


def heard(line: Connection) -> Reply | Fit | Unfit:
    """The next message; an empty one only announces it."""
    message = b""
    while not message:
        assert line.poll(30)
        message = line.recv_bytes()
    return HEARD.decode(message)


def test_a_worker_says_what_it_has_and_answers_in_order(folder: Path) -> None:
    with at_work(folder) as line:
        fit = heard(line)
        assert isinstance(fit, Fit)
        assert (fit.info.version, fit.info.items) == ("version", 300)
        now = time.monotonic()
        asks = [Ask(history=[name], k=2) for name in ("song-1", "nobody", "song-2")]
        tasks = [[One(ask) for ask in asks], [Why(asks[0])], [Many(asks)], [Find("", 3, None)], [One(asks[1])]]
        for group in tasks:
            line.send_bytes(msgspec.json.encode([Order(task, now, now + 30) for task in group]))
        outcomes = [heard(line).outcome for _ in range(7)]
        kinds = [isinstance(outcome, bytes) for outcome in outcomes]
        assert kinds == [True, False, True, True, True, True, False]
        assert outcomes[1].code == outcomes[6].code == "unknown_id"


def test_an_accident_is_one_groups_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first was answered, the second was the accident, the third goes with it; the next group is as ever."""
    real = worker.Desk._written

    written = []

    def spoilt(*given):
        written.append(given)
        if len(written) == 2:
            raise ZeroDivisionError
        return real(*given)

    monkeypatch.setattr(worker.Desk, "_written", spoilt)
    with at_work(folder) as line:
        heard(line)
        now = time.monotonic()
        orders = [Order(One(Ask(history=[f"song-{number}"], k=2)), now, now + 30) for number in (1, 2, 3)]
        for group in (orders, orders[:1]):
            line.send_bytes(msgspec.json.encode(group))
        replies = [heard(line) for _ in range(4)]
        assert [isinstance(reply.outcome, Refusal) for reply in replies] == [False, True, True, False]
        assert replies[1].outcome.status == 500
        assert [len(reply.slates) for reply in replies] == [1, 0, 0, 1]


def test_a_worker_that_cannot_open_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_work(tmp_path) as line:
        assert heard(line) == Unfit(
            "there is no manifest.json", "check the path: it must be a folder that setwise saved"
        )
    monkeypatch.setattr(worker.Served, "opened", lambda *_: 1 / 0)
    with at_work(tmp_path) as line:
        assert "not as a recommender has it" in heard(line).reason


def test_the_loop_has_its_process_for_itself(folder: Path) -> None:
    """Workers are others' children, less urgent, and deaf to signals that are meant for the service."""
    with running(folder, "--workers", "2") as service:
        crew = workers(service)
        assert len(crew) == 2
        for pid in crew:
            assert os.getpriority(os.PRIO_PROCESS, pid) == worker.NICE + os.getpriority(os.PRIO_PROCESS, 0)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(pid, number)
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]
        assert workers(service) == crew
        assert service.end() == 0
        for pid in crew:
            assert not Path(f"/proc/{pid}").exists()


def test_workers_end_with_a_service_that_was_killed(folder: Path) -> None:
    with running(folder, "--workers", "1") as service:
        (pid,) = workers(service)
        service.process.kill()
        until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    """Once it cannot be, for the folder is spoilt: then the service says so, and serves again when it can."""
    world_recommender(n=50).save(tmp_path / "world")
    with running(tmp_path / "world", "--workers", "2") as service:
        first = workers(service)
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(set(workers(service)) - set(first)) == 2)
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]
        until(lambda: len(workers(service)) == 2)
        (tmp_path / "world" / "manifest.json").rename(tmp_path / "away")
        for pid in workers(service):
            os.kill(pid, signal.SIGKILL)
        until(lambda: service.client.get("/readyz").status_code == 503)
        assert "Nobody is there to compute" in refused(service.client.get("/readyz"), 503)
        assert service.client.get("/healthz").status_code == 200
        (tmp_path / "away").rename(tmp_path / "world" / "manifest.json")
        until(lambda: service.client.get("/readyz").status_code == 200)
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]
        assert service.end() == 0
    assert sum(line.get("event") == "a computing process ended" for line in service.logs) == 3


def test_a_process_that_dies_while_it_opens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with here(folder) as service:
        monkeypatch.setattr("setwise.service.worker_pool.work", _dies)
        assert "the process that opened it ended" in refused(service.client.post("/admin/reload"), 422)
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]


def _dies(*_: object) -> None:
    os._exit(1)


def workers(service: Running) -> list[int]:
    """The processes that compute: children of Python's fork server, which is the service's child."""
    return [pid for server in children(service.process.pid) for pid in children(server)]


def children(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(status.parent.name))
    return sorted(found)


def until(holds) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
