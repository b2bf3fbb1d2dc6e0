"""The queue by itself: who is let in, who computes with whom, who is told to go."""

from __future__ import annotations

import asyncio
import threading

import pytest

from setwise.serving.admission import Admission, Job
from setwise.serving.metrics import Metrics
from setwise.serving.refusals import Refusal
from setwise.serving.settings import Settings


class Gate:
    """Work that waits until it is let through, and writes down what it was given together."""

    def __init__(self) -> None:
        self.open, self.entered = threading.Event(), threading.Semaphore(0)
        self.batches: list[list[str]] = []

    def __call__(self, jobs: list[Job]):
        self.batches.append([job.task for job in jobs])
        self.entered.release()
        self.open.wait(10)
        for job in jobs:
            if job.task == "accident":
                raise ZeroDivisionError
            assert job.left_ms() <= 5000
            yield job, job.task.encode()


def admission(work, **limits: int) -> tuple[Admission, Metrics]:
    metrics = Metrics()
    settings = Settings(**{"threads": 1, "queue": 4, "deadline_ms": 5000, "micro_batch": 3} | limits)
    return Admission(settings, work, metrics), metrics


async def entered(gate: Gate) -> None:
    await asyncio.to_thread(gate.entered.acquire)


def test_company_is_computed_together_and_nobody_waits_for_it() -> None:
    async def scenario() -> None:
        gate = Gate()
        queue, metrics = admission(gate)
        first = asyncio.ensure_future(queue.submit(("a",), "first"))
        await entered(gate)
        tasks = [("a",), ("b",), ("a",), ("a",)]
        rest = [asyncio.ensure_future(queue.submit(kind, f"{kind[0]}{i}")) for i, kind in enumerate(tasks)]
        await asyncio.sleep(0)
        gate.open.set()
        assert await first == b"first"
        assert await asyncio.gather(*rest) == [b"a0", b"b1", b"a2", b"a3"]
        assert gate.batches == [["first"], ["a0", "a2", "a3"], ["b1"]]
        assert b"setwise_micro_batch_sum 5.0" in metrics.text()
        queue.close()

    asyncio.run(scenario())


def test_several_threads_share_what_waits() -> None:
    async def scenario() -> None:
        gate = Gate()
        queue, _ = admission(gate, threads=2)
        busy = [asyncio.ensure_future(queue.submit(None, f"busy{i}")) for i in range(2)]
        await entered(gate)
        await entered(gate)
        rest = [asyncio.ensure_future(queue.submit(("a",), f"a{i}")) for i in range(4)]
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(*busy, *rest)
        assert sorted(len(batch) for batch in gate.batches[:3]) == [1, 1, 2], "two of four: half for each thread"
        queue.close()

    asyncio.run(scenario())


def test_a_full_queue_turns_away_at_once() -> None:
    async def scenario() -> None:
        gate = Gate()
        queue, metrics = admission(gate, queue=2)
        accepted = [asyncio.ensure_future(queue.submit(None, "one"))]
        await entered(gate)
        accepted += [asyncio.ensure_future(queue.submit(None, "two")) for _ in range(2)]
        await asyncio.sleep(0)
        assert queue.waiting == 2
        with pytest.raises(Refusal) as refusal:
            await queue.submit(None, "three")
        assert refusal.value.status == 503
        assert int(refusal.value.headers["Retry-After"]) >= 1
        assert str(refusal.value).startswith("The service is busy; try again in 1 second")
        gate.open.set()
        assert await asyncio.gather(*accepted) == [b"one", b"two", b"two"]
        assert b'setwise_sheds_total{why="queue"} 1.0' in metrics.text()
        queue.close()

    asyncio.run(scenario())


def test_a_deadline_that_passes_in_the_queue() -> None:
    async def scenario() -> None:
        gate = Gate()
        queue, metrics = admission(gate, deadline_ms=50)
        taken = asyncio.ensure_future(queue.submit(None, "taken"))
        await entered(gate)
        with pytest.raises(Refusal) as refusal:
            await queue.submit(None, "late")
        assert refusal.value.status == 504
        assert queue.waiting == 0
        gate.open.set()
        assert await taken == b"taken", "what is being computed is answered, late or not"
        assert gate.batches == [["taken"]], "what nobody waits for any more is not computed"
        assert b'setwise_sheds_total{why="deadline"} 1.0' in metrics.text()
        queue.close()

    asyncio.run(scenario())


def test_an_accident_is_one_requests_own(capsys) -> None:
    async def scenario() -> None:
        gate = Gate()
        gate.open.set()
        queue, _ = admission(gate)
        with pytest.raises(Refusal, match="The service failed here") as refusal:
            await queue.submit(None, "accident")
        assert refusal.value.status == 500
        assert await queue.submit(None, "next") == b"next"
        queue.close()

    asyncio.run(scenario())


def test_one_who_has_gone_is_not_told() -> None:
    async def scenario() -> None:
        gate = Gate()
        queue, _ = admission(gate)
        gone = asyncio.ensure_future(queue.submit(None, "gone"))
        await entered(gate)
        gone.cancel()
        gate.open.set()
        assert await queue.submit(None, "here") == b"here"
        queue.close()

    asyncio.run(scenario())


def test_closing_finishes_what_waits() -> None:
    gate = Gate()
    queue, _ = admission(gate)

    async def scenario() -> None:
        jobs = [asyncio.ensure_future(queue.submit(None, f"{i}")) for i in range(3)]
        await entered(gate)
        gate.open.set()
        await asyncio.to_thread(queue.close)
        assert await asyncio.gather(*jobs) == [b"0", b"1", b"2"]

    asyncio.run(scenario())


def test_an_event_loop_that_ended_is_left_alone() -> None:
    gate = Gate()
    queue, _ = admission(gate)

    async def scenario() -> None:
        asyncio.ensure_future(queue.submit(None, "nobody"))  # noqa: RUF006
        await entered(gate)

    asyncio.run(scenario())
    gate.open.set()
    queue.close()
    assert gate.batches == [["nobody"]]
