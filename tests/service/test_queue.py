"""The task queue by itself. The tests are at the worker's end of the connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

from processes import LIMIT
from setwise.service.handlers import Reply
from setwise.service.http_errors import HttpError
from setwise.service.metrics import Metrics
from setwise.service.queue import TaskQueue
from setwise.service.schemas import Info, ItemsRequest, RecommendRequest
from setwise.service.settings import Settings
from setwise.service.worker import TASKS, encode_reply
from setwise.service.worker_pool import Launcher, Worker, WorkerPool

INFO = Info("setwise", "v1", 3, 1, 1, False, [], None, None, hits=False, rankers=[], limits={})


class WorkerEnd:
    """The worker's end of a connection: it receives tasks, and replies when the test says so."""

    def __init__(self, line: socket.socket) -> None:
        self.line = Connection(line.detach())
        self.received: list[str] = []
        self.pings = 0

    async def receive(self) -> list[str]:
        """The names of the next group of tasks; pings are acknowledged."""
        message = b""
        while not message:
            message = await asyncio.to_thread(self.line.recv_bytes)
            self.line.send_bytes(b"")
            self.pings += not message
        tasks = TASKS.decode(message)
        assert all(task.left_ms() <= 5000 for task in tasks)
        contents = [msgspec.json.decode(task.request) for task in tasks]
        names = [content["history"][0] if "history" in content else content["q"] for content in contents]
        self.received += names
        return names

    def reply(self, *names: str) -> None:
        for name in names:
            self.line.send_bytes(encode_reply(Reply(name.encode(), [({"total": 1.0}, 0.25)])))

    async def reply_to_all(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self.reply(*await self.receive())

    def close(self) -> None:
        self.line.close()

    async def is_closed(self) -> bool:
        try:
            while not await asyncio.to_thread(self.line.recv_bytes):
                pass
        except (EOFError, OSError):
            return True
        return False


class Fixture:
    """A queue, and the ends of its workers' connections."""

    def __init__(self, **limits: int) -> None:
        patient = {"workers": 1, "queue": 4, "deadline_ms": 5000, "micro_batch": 3, "heartbeat_ms": 30_000}
        self.settings = Settings(**patient | limits)
        self.metrics, self.short = Metrics(), 0

    async def start(self) -> Fixture:
        pool, self.ends = await self.pool()
        self.queue = TaskQueue(self.settings, self.metrics, pool, self.count_lost)
        return self

    def count_lost(self) -> None:
        self.short += 1

    async def pool(self) -> tuple[WorkerPool, list[WorkerEnd]]:
        workers, ends = [], []
        for _ in range(self.settings.worker_count):
            ours, theirs = socket.socketpair()
            workers.append(Worker(self.settings, self.metrics))
            workers[-1].opened.set_result(None)
            await workers[-1].connect(ours)
            ends.append(WorkerEnd(theirs))
        launcher = Launcher(Path(), Path(), "", self.settings, self.metrics, None)
        return WorkerPool(INFO, workers, launcher, ExitStack()), ends

    def recommend(self, name: str) -> asyncio.Future[bytes]:
        """A request for a slate; those with one first letter differ only in the user."""
        task = self.queue.add("recommend", RecommendRequest(history=[name], k=ord(name[0])))
        return asyncio.ensure_future(task.body())

    def items(self, name: str) -> asyncio.Future[bytes]:
        """A search, which is always computed alone."""
        return asyncio.ensure_future(self.queue.add("items", ItemsRequest(name)).body())


def scenario(**limits: int):
    """Run a test in an event loop, with a queue of these settings."""

    def decorate(play):
        async def run() -> None:
            fixture = await Fixture(**limits).start()
            try:
                await play(fixture)
            finally:
                for worker in fixture.queue.pool.workers:
                    worker.close()
                await asyncio.sleep(0.01)

        def test() -> None:
            asyncio.run(asyncio.wait_for(run(), LIMIT))

        test.__name__, test.__doc__ = play.__name__, play.__doc__
        return test

    return decorate


@scenario()
async def test_tasks_of_a_group_are_computed_together_and_none_waits_for_others(fixture: Fixture) -> None:
    (end,) = fixture.ends
    first = fixture.recommend("a first")
    assert await end.receive() == ["a first"]
    rest = [fixture.recommend(name) for name in ("a0", "b1", "a2", "a3")]
    end.reply("a first")
    assert await first == b"a first"
    assert await end.receive() == ["a0", "a2", "a3"]
    end.reply("a0", "a2", "a3")
    assert await end.receive() == ["b1"]
    end.reply("b1")
    assert await asyncio.gather(*rest) == [b"a0", b"b1", b"a2", b"a3"]
    text = fixture.metrics.text()
    assert b"setwise_micro_batch_sum 5.0" in text
    assert b"setwise_gap_sum 1.25" in text


@scenario(workers=2)
async def test_several_workers_share_the_queue(fixture: Fixture) -> None:
    busy = [fixture.items(f"busy{number}") for number in range(2)]
    received = [await end.receive() for end in fixture.ends]
    rest = [fixture.recommend(f"a{number}") for number in range(4)]
    fixture.ends[0].reply(*received[0])
    assert await fixture.ends[0].receive() == ["a0", "a1"], "half of four"
    fixture.ends[1].reply(*received[1])
    assert await fixture.ends[1].receive() == ["a2"], "half of two"
    fixture.ends[0].reply("a0", "a1")
    fixture.ends[1].reply("a2")
    working = [asyncio.ensure_future(end.reply_to_all()) for end in fixture.ends]
    await asyncio.gather(*busy, *rest)
    for one in working:
        one.cancel()


@scenario(queue=2)
async def test_a_full_queue_sheds_at_once(fixture: Fixture) -> None:
    (end,) = fixture.ends
    accepted = [fixture.items("one")]
    await end.receive()
    accepted += [fixture.items("two") for _ in range(2)]
    assert len(fixture.queue) == 2
    with pytest.raises(HttpError) as error:
        fixture.items("three")
    assert error.value.status == 503
    assert int(error.value.headers["Retry-After"]) >= 1
    assert str(error.value).startswith("The service is busy; try again in 1 second")
    end.reply("one")
    for _ in range(2):
        end.reply(*await end.receive())
    assert await asyncio.gather(*accepted) == [b"one", b"two", b"two"]
    assert b'setwise_sheds_total{why="queue"} 1.0' in fixture.metrics.text()


@scenario(deadline_ms=50)
async def test_a_deadline_that_passes_in_the_queue(fixture: Fixture) -> None:
    (end,) = fixture.ends
    computed = fixture.items("computed")
    await end.receive()
    with pytest.raises(HttpError) as error:
        await fixture.items("queued")
    assert error.value.status == 504
    assert len(fixture.queue) == 0
    await asyncio.sleep(0.1)
    end.reply("computed")
    assert await computed == b"computed", "a task that is being computed is answered, even late"
    assert end.received == ["computed"], "a task past its deadline is not computed"
    assert b'setwise_sheds_total{why="deadline"} 1.0' in fixture.metrics.text()


@scenario(deadline_ms=60)
async def test_deadlines_one_after_the_other(fixture: Fixture) -> None:
    (end,) = fixture.ends
    computed = fixture.items("computed")
    await end.receive()
    queued = [fixture.items("first")]
    await asyncio.sleep(0.03)
    queued.append(fixture.items("second"))
    errors = await asyncio.gather(*queued, return_exceptions=True)
    assert [error.status for error in errors] == [504, 504]
    assert len(fixture.queue) == 0
    end.reply("computed")
    assert await computed == b"computed"
    assert b'setwise_sheds_total{why="deadline"} 2.0' in fixture.metrics.text()


@scenario()
async def test_a_client_that_disconnects(fixture: Fixture) -> None:
    """Its task leaves the queue; if it is being computed, its outcome is dropped."""
    (end,) = fixture.ends
    computed = fixture.queue.add("items", ItemsRequest("computed"))
    await end.receive()
    queued = fixture.queue.add("items", ItemsRequest("queued"))
    fixture.queue.abandon(computed)
    fixture.queue.abandon(queued)
    assert len(fixture.queue) == 0
    after = fixture.items("after")
    end.reply("computed")
    end.reply(*await end.receive())
    assert await after == b"after"
    assert end.received == ["computed", "after"]


@scenario()
async def test_an_error_of_a_worker_is_passed_on(fixture: Fixture) -> None:
    (end,) = fixture.ends
    request = fixture.items("nothing")
    await end.receive()
    end.line.send_bytes(encode_reply(Reply(HttpError(422, "invalid", "No.", {"X": "y"}))))
    with pytest.raises(HttpError, match="No") as error:
        await request
    assert (error.value.status, error.value.code, error.value.headers) == (422, "invalid", {"X": "y"})


@scenario()
async def test_messages_in_pieces_and_several_at_once(fixture: Fixture) -> None:
    (end,) = fixture.ends
    requests = [fixture.recommend(f"a{number}") for number in range(4)]
    await end.receive()
    end.reply("a0")
    assert await end.receive() == ["a1", "a2", "a3"]
    messages = [encode_reply(Reply(b"a1")), b"", encode_reply(Reply(b"a2")), b"", b"", encode_reply(Reply(b"a3"))]
    raw = b"".join(len(message).to_bytes(4, "big") + message for message in messages)
    worker = fixture.queue.pool.workers[0]
    for at in range(0, len(raw), 5):
        worker.data_received(raw[at : at + 5])
    assert await asyncio.gather(*requests) == [b"a0", b"a1", b"a2", b"a3"]


@scenario(workers=2)
async def test_another_pool_takes_over(fixture: Fixture) -> None:
    """Idle workers end at once, busy ones after their tasks; the queue belongs to the new pool."""
    busy = fixture.items("busy")
    old_busy, old_idle = fixture.ends[1], fixture.ends[0]  # the last worker of a pool is used first
    assert await old_busy.receive() == ["busy"]
    pool, ends = await fixture.pool()
    fixture.queue.replace(pool)
    assert await old_idle.is_closed()
    after = fixture.items("after")
    assert await ends[1].receive() == ["after"]
    ends[1].reply("after")
    assert await after == b"after"
    old_busy.reply("busy")
    assert await busy == b"busy"
    assert await old_busy.is_closed()
    assert fixture.short == 0


# --- workers that end or hang ---


@scenario(workers=2)
async def test_tasks_of_a_worker_that_ends_are_retried_once(fixture: Fixture) -> None:
    first, second = fixture.items("first"), fixture.items("second")
    assert await fixture.ends[1].receive() == ["first"]
    assert await fixture.ends[0].receive() == ["second"]
    queued = fixture.items("queued")
    fixture.ends[1].close()
    while fixture.short < 1:
        await asyncio.sleep(0.001)
    assert len(fixture.queue.pool.workers) == 1
    fixture.ends[0].reply("second")
    assert await second == b"second"
    assert await fixture.ends[0].receive() == ["first"], "the retried task is the oldest"
    fixture.ends[0].close()
    with pytest.raises(HttpError, match="The worker that computed this request failed") as error:
        await first
    assert error.value.status == 503
    assert error.value.headers["Retry-After"] == "1"
    pool, ends = await fixture.pool()
    fixture.queue.replace(pool)
    ends[1].reply(*await ends[1].receive())
    assert await queued == b"queued"
    assert b'setwise_workers_lost_total{why="ended"} 2.0' in fixture.metrics.text()


@scenario(workers=2, micro_batch=4)
async def test_a_retried_task_is_computed_alone(fixture: Fixture) -> None:
    """A request that ends its worker must not take its group with it twice."""
    busy = [fixture.items("busy0"), fixture.items("busy1")]
    names = [await end.receive() for end in fixture.ends]
    rest = [fixture.recommend(f"a{number}") for number in range(4)]
    fixture.ends[0].reply(*names[0])
    assert await fixture.ends[0].receive() == ["a0", "a1"]
    fixture.ends[0].close()
    while fixture.short < 1:
        await asyncio.sleep(0.001)
    fixture.ends[1].reply(*names[1])
    for name in ("a0", "a1"):
        assert await fixture.ends[1].receive() == [name]
        fixture.ends[1].reply(name)
    working = asyncio.ensure_future(fixture.ends[1].reply_to_all())
    await asyncio.gather(*busy, *rest)
    working.cancel()


@scenario()
async def test_retried_tasks_return_to_their_places_by_deadline(fixture: Fixture) -> None:
    """b1 is older than a2, which was computed before it in the group of a0."""
    busy = fixture.items("busy")
    (end,) = fixture.ends
    await end.receive()
    rest = [fixture.recommend(name) for name in ("a0", "b1", "a2")]
    end.reply("busy")
    assert await end.receive() == ["a0", "a2"]
    end.close()
    while fixture.short < 1:
        await asyncio.sleep(0.001)
    pool, (end,) = await fixture.pool()
    fixture.queue.replace(pool)
    for name in ("a0", "b1", "a2"):
        assert await end.receive() == [name]
        end.reply(name)
    assert await asyncio.gather(busy, *rest) == [b"busy", b"a0", b"b1", b"a2"]


@scenario(workers=2)
async def test_an_idle_worker_that_ends(fixture: Fixture) -> None:
    fixture.ends[1].close()
    while fixture.short < 1:
        await asyncio.sleep(0.001)
    request = fixture.items("one")
    fixture.ends[0].reply(*await fixture.ends[0].receive())
    assert await request == b"one"


@scenario(workers=2)
async def test_a_busy_worker_of_an_old_pool_that_ends(fixture: Fixture) -> None:
    """Its task is retried by the new pool, and the new pool is complete."""
    busy = fixture.items("busy")
    await fixture.ends[1].receive()
    pool, ends = await fixture.pool()
    fixture.queue.replace(pool)
    fixture.ends[1].close()
    ends[1].reply(*await ends[1].receive())
    assert await busy == b"busy"
    assert fixture.short == 0


@scenario(workers=2, heartbeat_ms=200)
async def test_a_task_that_is_not_acknowledged_is_retried(fixture: Fixture) -> None:
    request = fixture.items("one")
    assert b"one" in await asyncio.to_thread(fixture.ends[1].line.recv_bytes)
    working = asyncio.ensure_future(fixture.ends[0].reply_to_all())
    assert await request == b"one"
    assert fixture.short == 1
    assert len(fixture.queue.pool.workers) == 1
    assert b'setwise_workers_lost_total{why="hung"} 1.0' in fixture.metrics.text()
    working.cancel()


@scenario(heartbeat_ms=100)
async def test_an_idle_worker_that_does_not_acknowledge_is_replaced(fixture: Fixture) -> None:
    while fixture.short < 1:
        await asyncio.sleep(0.01)
    assert fixture.queue.pool.workers == []
    assert await fixture.ends[0].is_closed()


@scenario(heartbeat_ms=700)
async def test_an_idle_worker_that_acknowledges_is_kept(fixture: Fixture) -> None:
    working = asyncio.ensure_future(fixture.ends[0].reply_to_all())
    while fixture.ends[0].pings < 3:
        await asyncio.sleep(0.01)
    assert await fixture.items("one") == b"one"
    assert fixture.short == 0
    working.cancel()


@scenario(deadline_ms=50, grace_ms=50)
async def test_a_task_without_end(fixture: Fixture) -> None:
    """The worker has acknowledged the task and does not finish it: it is killed after the grace time."""
    request = fixture.items("endless")
    await fixture.ends[0].receive()
    with pytest.raises(HttpError) as error:
        await request
    assert error.value.status == 504
    assert fixture.short == 1
    assert b'setwise_workers_lost_total{why="deadline"} 1.0' in fixture.metrics.text()


@scenario()
async def test_the_end_of_the_service(fixture: Fixture) -> None:
    """At the end of the drain time, tasks in the queue and at workers are answered 503."""
    requests = [fixture.items("computed")]
    await fixture.ends[0].receive()
    requests.append(fixture.items("queued"))
    fixture.queue.fail_all()
    errors = await asyncio.gather(*requests, return_exceptions=True)
    assert [(error.status, error.code) for error in errors] == [(503, "shutting_down")] * 2


@scenario()
async def test_a_worker_that_is_closed_before_its_connection_is_open(fixture: Fixture) -> None:
    """Another worker of the pool could not open the artifact while this one was starting."""
    ours, theirs = socket.socketpair()
    worker = Worker(fixture.settings, fixture.metrics)
    worker.close()
    await worker.connect(ours)
    assert await WorkerEnd(theirs).is_closed()
