"""Worker processes: what they report and compute, how they end or hang, and how they are replaced."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import pytest
from services import Here, error_message, here, post, running, world_recommender

import processes
from processes import alive, until, workers
from setwise.errors import SetwiseError
from setwise.service import worker
from setwise.service.handlers import Reply, TaskMessage
from setwise.service.http_errors import HttpError
from setwise.service.metrics import Metrics
from setwise.service.queue import TaskQueue
from setwise.service.schemas import BatchRequest, ItemsRequest, RecommendRequest
from setwise.service.settings import Settings
from setwise.service.worker import NotOpened, Opened
from setwise.service.worker_pool import WorkerPool

MESSAGES = msgspec.msgpack.Decoder(Reply | Opened | NotOpened)
KEY = "a-long-and-random-key"


@contextlib.contextmanager
def working(artifact: Path) -> Iterator[Connection]:
    """The parent's end of the connection to a worker in a thread of this process."""
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())

    def work() -> None:
        with contextlib.suppress(EOFError), theirs:
            worker.serve_tasks(theirs, artifact, "version", Settings())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield ours
    finally:
        ours.close()
        thread.join()
        gc.unfreeze()


def receive(line: Connection) -> Reply | Opened | NotOpened:
    """The next message that is not an acknowledgement."""
    message = b""
    while not message:
        assert line.poll(60)
        message = line.recv_bytes()
    return MESSAGES.decode(message)


def task(handler: str, request: Any) -> TaskMessage:
    now = time.monotonic()
    return TaskMessage(handler, msgspec.Raw(msgspec.json.encode(request)), now, now + 30)


def test_a_worker_reports_its_artifact_and_replies_in_order(folder: Path) -> None:
    with working(folder) as line:
        opened = receive(line)
        assert isinstance(opened, Opened)
        assert (opened.info.version, opened.info.items) == ("version", 300)
        line.send_bytes(b"")
        assert line.poll(60)
        assert line.recv_bytes() == b"", "a ping is acknowledged"
        requests = [RecommendRequest(history=[name], unknown="error", k=2) for name in ("song-1", "unknown", "song-2")]
        groups = [
            [task("recommend", request) for request in requests],
            [task("explain", requests[0])],
            [task("batch", BatchRequest(requests))],
            [task("items", ItemsRequest(limit=3))],
            [task("recommend", requests[1])],
        ]
        for group in groups:
            line.send_bytes(msgspec.json.encode(group))
        outcomes = [receive(line).outcome for _ in range(7)]
        kinds = [isinstance(outcome, bytes) for outcome in outcomes]
        assert kinds == [True, False, True, True, True, True, False]
        assert outcomes[1].code == outcomes[6].code == "unknown_id"


def test_an_exception_fails_its_group_and_not_the_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first task was answered; the second failed, and the third with it; the next group is computed."""
    real, calls = worker.Handlers._encoded, []

    def failing(*given):
        calls.append(given)
        if len(calls) == 2:
            raise ZeroDivisionError
        return real(*given)

    monkeypatch.setattr(worker.Handlers, "_encoded", failing)
    with working(folder) as line:
        receive(line)
        group = [task("recommend", RecommendRequest(history=[f"song-{number}"], k=2)) for number in (1, 2, 3)]
        for tasks in (group, group[:1]):
            line.send_bytes(msgspec.json.encode(tasks))
        replies = [receive(line) for _ in range(4)]
        assert [isinstance(reply.outcome, HttpError) for reply in replies] == [False, True, True, False]
        assert replies[1].outcome.status == 500
        assert [len(reply.slates) for reply in replies] == [1, 0, 0, 1]


def test_a_worker_that_cannot_open_the_artifact_reports_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with working(tmp_path) as line:
        report = receive(line)
        assert isinstance(report, NotOpened)
        assert "manifest.json" in report.reason
    monkeypatch.setattr(worker.ServedArtifact, "open", lambda *_: 1 / 0)
    with working(tmp_path) as line:
        assert "not a saved recommender" in receive(line).reason


INHERITED = """
import sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher

def loaded():
    parts = [vars(module) for name, module in [*sys.modules.items()] if name.startswith("setwise.")]
    functions = {part for parts in parts for part in parts.values() if isinstance(part, Dispatcher)}
    return {function: len(function.overloads) for function in functions if function.overloads}

import setwise.service.preload
before = loaded()
from setwise.service.served import ServedArtifact
ServedArtifact.open(Path(sys.argv[1]), "version")
assert len(before) > 5, before
assert loaded() == before, loaded().keys() - before.keys()
"""


@pytest.mark.nightly
def test_workers_inherit_the_compiled_code(folder: Path) -> None:
    """What the fork server has loaded is all that a worker needs to open an artifact and to compute slates."""
    done = processes.run([sys.executable, "-c", INHERITED, str(folder)])
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
def test_workers_are_separate_processes(folder: Path) -> None:
    """They have a lower priority, ignore the signals that are meant for the service, and end with it if it is killed."""
    with running(folder, "--workers", "2") as service:
        pids = workers(service)
        assert len(pids) == 2
        for pid in pids:
            assert os.getpriority(os.PRIO_PROCESS, pid) == worker.NICE + os.getpriority(os.PRIO_PROCESS, 0)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(pid, number)
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]
        assert workers(service) == pids
        service.process.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.promise("worker-kills")
def test_a_worker_that_ends_is_replaced(tmp_path: Path) -> None:
    """By one that has mapped the same files, even if the folder is damaged by then; the other workers stay."""
    world_recommender(n=50).save(tmp_path / "world")
    with here(tmp_path / "world", workers=2) as service:
        before, pool = service.client.get("/v1/info").json()["version"], service.queue.pool
        killed, other = service.workers()
        (tmp_path / "world" / "manifest.json").rename(tmp_path / "away")
        os.kill(killed, signal.SIGKILL)
        until(lambda: complete_without(service, [killed]))
        assert other in service.workers()
        both = service.workers()
        for pid in both:
            os.kill(pid, signal.SIGKILL)
        until(lambda: complete_without(service, both))
        slate = post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})
        assert (len(slate["items"]), slate["version"]) == (3, before)
        assert service.queue.pool is pool
        assert service.lost("ended", 3)


@pytest.mark.nightly
@pytest.mark.promise("worker-kills")
def test_the_other_workers_finish_their_requests(folder: Path) -> None:
    """A request is computed once, by the process that began it, while another process is replaced."""
    with here(folder, workers=2, deadline_ms=120_000) as service, ThreadPoolExecutor(1) as pool:
        pids = service.workers()
        body = {"requests": [{"history": [f"song-{number}"], "k": 20, "budget_ms": 100} for number in range(20)]}
        response = pool.submit(service.client.post, "/v1/recommend/batch", json=body)
        spent = {pid: cpu_seconds(pid) for pid in pids}
        until(lambda: any(cpu_seconds(pid) > spent[pid] + 0.3 for pid in pids))
        busy = max(pids, key=lambda pid: cpu_seconds(pid) - spent[pid])
        (idle,) = set(pids) - {busy}
        os.kill(idle, signal.SIGKILL)
        until(lambda: complete_without(service, [idle]))
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]
        assert response.result().status_code == 200
        assert busy in service.workers()
        assert service.lost("ended", 1)


def complete_without(service: Here, killed: list[int]) -> bool:
    """Whether two workers are ready, and none of them is one of these."""
    return len(service.workers()) == 2 and not {*service.workers()} & {*killed}


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_a_worker_that_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/readyz says so; the folder is opened again, as in a reload, until there are workers."""
    monkeypatch.setattr("setwise.service.reload.RETRY_S", 0.1)
    world_recommender(n=50).save(tmp_path / "world")
    with here(tmp_path / "world") as service:
        shutil.rmtree(service.queue.pool.launcher.artifact)  # as a cleaner of the temporary folder does
        (tmp_path / "world" / "manifest.json").rename(tmp_path / "away")
        service.queue.pool.workers[0].kill()
        until(lambda: service.client.get("/readyz").status_code == 503)
        time.sleep(0.3)
        assert "No worker is ready" in error_message(service.client.get("/readyz"), 503)
        assert service.client.get("/healthz").status_code == 200
        (tmp_path / "away").rename(tmp_path / "world" / "manifest.json")
        until(lambda: service.client.get("/readyz").status_code == 200)
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]


def test_a_worker_of_a_pool_that_was_replaced_meanwhile_ends(folder: Path) -> None:
    asyncio.run(_join_late(folder))


async def _join_late(folder: Path) -> None:
    settings, metrics = Settings(workers=1), Metrics()
    first, second = [await WorkerPool.start(folder, settings, metrics) for _ in range(2)]
    queue = TaskQueue(settings, metrics, first, lambda: None)
    late = await first.start_worker()
    queue.replace(second)
    queue.join(first, late)
    with pytest.raises(SetwiseError, match="there is no folder"):  # its files are closed
        await first.start_worker()
    while late.alive:
        await asyncio.sleep(0.01)
    assert len(second.workers) == 1
    await queue.end()


def test_a_process_that_ends_while_it_opens_the_artifact(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with here(folder, key=KEY) as service:
        monkeypatch.setattr("setwise.service.worker_pool.run_worker", _exit)
        assert "the process that opened it ended" in error_message(service.client.post("/admin/reload"), 422)
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]


def _exit(*_: object) -> None:
    os._exit(1)


# --- hung workers: real ones, stopped by SIGSTOP ---


@pytest.mark.promise("hung-workers")
def test_a_stopped_idle_worker_is_replaced(folder: Path) -> None:
    """/readyz tells the truth within the heartbeat, and the service recovers by itself."""
    with here(folder, heartbeat_ms=2000) as service:  # a busy machine is no hung worker
        (pid,) = service.workers()
        os.kill(pid, signal.SIGSTOP)
        until(lambda: not alive(pid))
        until(lambda: service.client.get("/readyz").status_code == 200 and service.workers() not in ([], [pid]))
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 3})["items"]
        assert service.lost("hung", 1)


@pytest.mark.promise("hung-workers")
def test_requests_at_a_stopped_worker_are_answered(folder: Path) -> None:
    """They are retried on the worker that lives, or answered 503 or 504; none is left without an answer."""
    options = {"workers": 2, "heartbeat_ms": 1000, "deadline_ms": 20_000}
    with here(folder, **options) as service, ThreadPoolExecutor(8) as pool:
        stopped = service.workers()[0]
        os.kill(stopped, signal.SIGSTOP)
        body = {"history": ["song-1"], "k": 5, "budget_ms": 50}
        responses = [*pool.map(lambda _: service.client.post("/v1/recommend", json=body), range(16))]
        assert {response.status_code for response in responses} <= {200, 503, 504}
        assert sum(response.status_code == 200 for response in responses) >= 8
        until(lambda: not alive(stopped))


@pytest.mark.promise("hung-workers")
def test_a_worker_stopped_in_a_task_is_killed_after_the_deadline(folder: Path) -> None:
    with here(folder, deadline_ms=1500, grace_ms=200) as service, ThreadPoolExecutor(1) as pool:
        (pid,) = service.workers()
        body = {"requests": [{"history": [f"song-{number}"], "k": 20, "budget_ms": 1000} for number in range(200)]}
        response = pool.submit(service.client.post, "/v1/recommend/batch", json=body)
        until(lambda: service.queue.pool.workers[0].unfinished)
        os.kill(pid, signal.SIGSTOP)
        assert "deadline of 1500 ms" in error_message(response.result(), 504)
        until(lambda: not alive(pid))
        until(lambda: service.client.get("/readyz").status_code == 200)
        assert service.lost("deadline", 1)


@pytest.mark.nightly
@pytest.mark.promise("hung-workers")
def test_a_worker_stopped_in_a_task_is_noticed_before_the_deadline(folder: Path) -> None:
    """Its request is computed again by the worker that takes its place."""
    with here(folder, deadline_ms=120_000, heartbeat_ms=3000) as service, ThreadPoolExecutor(1) as pool:
        (pid,) = service.workers()
        body = {"requests": [{"history": [f"song-{number}"], "k": 20, "budget_ms": 100} for number in range(30)]}
        response = pool.submit(service.client.post, "/v1/recommend/batch", json=body)
        until(lambda: service.queue.pool.workers[0].unfinished)
        os.kill(pid, signal.SIGSTOP)
        until(lambda: not alive(pid))
        assert not response.done()
        assert response.result().status_code == 200
        assert all("items" in answer for answer in response.result().json()["answers"])
        assert service.lost("hung", 1)


@pytest.mark.promise("hung-workers")
def test_a_stopped_worker_of_an_old_pool_ends(folder: Path) -> None:
    with here(folder, heartbeat_ms=600_000, key=KEY) as service:
        (pid,) = service.workers()
        os.kill(pid, signal.SIGSTOP)
        assert service.client.post("/admin/reload").status_code == 200
        until(lambda: not alive(pid))
        assert service.client.get("/readyz").status_code == 200


@pytest.mark.nightly
@pytest.mark.promise("hung-workers")
def test_sigterm_ends_the_service_with_a_stopped_worker(folder: Path) -> None:
    """Even with a request at the worker, and neither heartbeat nor deadline near."""
    options = ("--workers", "1", "--heartbeat-ms", "600000", "--deadline-ms", "600000", "--drain-ms", "500")
    with running(folder, *options) as service, ThreadPoolExecutor(2) as pool:
        (pid,) = workers(service)
        os.kill(pid, signal.SIGSTOP)
        body = {"history": ["song-1"]}
        responses = [pool.submit(service.client.post, "/v1/recommend", json=body) for _ in range(2)]
        until(lambda: "setwise_queue_length 1.0" in service.client.get("/metrics").text)  # the worker has the other
        assert service.end() == 0
        for response in responses:
            assert "shutting down" in error_message(response.result(), 503)
        until(lambda: not alive(pid))
