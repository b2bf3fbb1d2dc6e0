"""The queue by itself: who is let in, who computes with whom, who is told to go. The test is at the worker's end."""

from __future__ import annotations

import asyncio
import socket
from multiprocessing.connection import Connection

import pytest

from setwise.service.handlers import Find, One, Reply
from setwise.service.http_errors import Refusal
from setwise.service.metrics import Metrics
from setwise.service.queue import Admission
from setwise.service.schemas import Ask, Info
from setwise.service.settings import Settings
from setwise.service.worker import ORDERS, said
from setwise.service.worker_pool import Crew, Worker

INFO = Info("setwise", "v1", 3, 1, 1, False, [], None, None, [], {})


class End:
    """The other end of a worker's line: what was sent to it, and answers when the test says so."""

    def __init__(self, line: socket.socket) -> None:
        self._line = Connection(line.detach())
        self.orders: list[str] = []

    async def takes(self) -> list[str]:
        """The names of the orders of the next group."""
        group = ORDERS.decode(await asyncio.to_thread(self._line.recv_bytes))
        names = [order.task.query if isinstance(order.task, Find) else order.task.ask.history[0] for order in group]
        assert all(order.waited_ms() >= 0 and order.left_ms() <= 5000 for order in group)
        self.orders += names
        return names

    def answers(self, *names: str) -> None:
        for name in names:
            self._line.send_bytes(said(Reply(name.encode(), [({"total": 1.0}, 0.25)])))

    async def works(self) -> None:
        """Take and answer, for ever."""
        while True:
            self.answers(*await self.takes())

    def hangs_up(self) -> None:
        self._line.close()

    async def hears_the_end(self) -> bool:
        try:
            await asyncio.to_thread(self._line.recv_bytes)
        except EOFError:
            return True
        return False


class Office:
    """A queue and the ends of its workers' lines."""

    def __init__(self, **limits: int) -> None:
        self.settings = Settings(**{"workers": 1, "queue": 4, "deadline_ms": 5000, "micro_batch": 3} | limits)
        self.metrics, self.short = Metrics(), 0

    async def open(self) -> Office:
        crew, self.ends = await self.crew()
        self.queue = Admission(self.settings, self.metrics, crew, self.miss)
        return self

    def miss(self) -> None:
        self.short += 1

    async def crew(self) -> tuple[Crew, list[End]]:
        workers, ends = [], []
        for _ in range(self.settings.crew):
            ours, theirs = socket.socketpair()
            workers.append(Worker(self.metrics))
            workers[-1]._ready.set_result(None)
            await workers[-1].connect(ours)
            ends.append(End(theirs))
        return Crew(INFO, workers), ends

    def asks(self, name: str) -> asyncio.Future[bytes]:
        """Somebody asks: those of one first letter are of one kind."""
        return asyncio.ensure_future(self.queue.submit(One(Ask(history=[name], k=ord(name[0])))))

    def looks(self, name: str) -> asyncio.Future[bytes]:
        """Somebody looks for items, alone."""
        return asyncio.ensure_future(self.queue.submit(Find(name, 1, None)))


def scenario(**limits: int):
    """Run a test in an event loop, in an office with these limits."""

    def decorate(play):
        async def played() -> None:
            office = await Office(**limits).open()
            try:
                await play(office)
            finally:
                for worker in office.queue.crew.workers:
                    worker.dismiss()  # whoever still listens at an end hears it
                await asyncio.sleep(0.01)

        def test() -> None:
            asyncio.run(asyncio.wait_for(played(), 30))

        test.__name__, test.__doc__ = play.__name__, play.__doc__
        return test

    return decorate


@scenario()
async def test_company_is_computed_together_and_nobody_waits_for_it(office: Office) -> None:
    (end,) = office.ends
    first = office.asks("a first")
    assert await end.takes() == ["a first"]
    rest = [office.asks(name) for name in ("a0", "b1", "a2", "a3")]
    await asyncio.sleep(0)
    end.answers("a first")
    assert await first == b"a first"
    assert await end.takes() == ["a0", "a2", "a3"]
    end.answers("a0", "a2", "a3")
    assert await end.takes() == ["b1"]
    end.answers("b1")
    assert await asyncio.gather(*rest) == [b"a0", b"b1", b"a2", b"a3"]
    text = office.metrics.text()
    assert b"setwise_micro_batch_sum 5.0" in text
    assert b"setwise_gap_sum 1.25" in text


@scenario(workers=2)
async def test_several_processes_share_what_waits(office: Office) -> None:
    busy = [office.looks(f"busy{number}") for number in range(2)]
    taken = [await end.takes() for end in office.ends]
    rest = [office.asks(f"a{number}") for number in range(4)]
    await asyncio.sleep(0)
    office.ends[0].answers(*taken[0])
    assert await office.ends[0].takes() == ["a0", "a1"], "two of four: half for each"
    office.ends[1].answers(*taken[1])
    assert await office.ends[1].takes() == ["a2"], "one of two"
    office.ends[0].answers("a0", "a1")
    office.ends[1].answers("a2")
    working = [asyncio.ensure_future(end.works()) for end in office.ends]
    await asyncio.gather(*busy, *rest)
    for one in working:
        one.cancel()


@scenario(queue=2)
async def test_a_full_queue_turns_away_at_once(office: Office) -> None:
    (end,) = office.ends
    accepted = [office.looks("one")]
    await end.takes()
    accepted += [office.looks("two") for _ in range(2)]
    await asyncio.sleep(0)
    assert office.queue.waiting == 2
    with pytest.raises(Refusal) as refusal:
        await office.looks("three")
    assert refusal.value.status == 503
    assert int(refusal.value.headers["Retry-After"]) >= 1
    assert str(refusal.value).startswith("The service is busy; try again in 1 second")
    end.answers("one")
    for _ in range(2):
        end.answers(*await end.takes())
    assert await asyncio.gather(*accepted) == [b"one", b"two", b"two"]
    assert b'setwise_sheds_total{why="queue"} 1.0' in office.metrics.text()


@scenario(deadline_ms=50)
async def test_a_deadline_that_passes_in_the_queue(office: Office) -> None:
    (end,) = office.ends
    taken = office.looks("taken")
    await end.takes()
    with pytest.raises(Refusal) as refusal:
        await office.looks("late")
    assert refusal.value.status == 504
    assert office.queue.waiting == 0
    await asyncio.sleep(0.1)
    end.answers("taken")
    assert await taken == b"taken", "what is being computed is answered, late or not"
    assert end.orders == ["taken"], "what nobody waits for any more is not computed"
    assert b'setwise_sheds_total{why="deadline"} 1.0' in office.metrics.text()


@scenario(deadline_ms=60)
async def test_deadlines_one_after_the_other(office: Office) -> None:
    (end,) = office.ends
    taken = office.looks("taken")
    await end.takes()
    late = [office.looks("first")]
    await asyncio.sleep(0.03)
    late.append(office.looks("second"))
    refusals = await asyncio.gather(*late, return_exceptions=True)
    assert [refusal.status for refusal in refusals] == [504, 504]
    assert office.queue.waiting == 0
    end.answers("taken")
    assert await taken == b"taken"
    assert b'setwise_sheds_total{why="deadline"} 2.0' in office.metrics.text()


@scenario()
async def test_one_who_has_gone_is_not_told(office: Office) -> None:
    (end,) = office.ends
    gone = office.looks("gone")
    await end.takes()
    gone.cancel()
    there = office.looks("here")
    end.answers("gone")
    end.answers(*await end.takes())
    assert await there == b"here"


@scenario()
async def test_a_refusal_comes_back_as_it_was(office: Office) -> None:
    (end,) = office.ends
    asked = office.looks("nothing")
    await end.takes()
    end._line.send_bytes(said(Reply(Refusal(422, "invalid", "No.", {"X": "y"}))))
    with pytest.raises(Refusal, match="No") as refusal:
        await asked
    assert (refusal.value.status, refusal.value.code, refusal.value.headers) == (422, "invalid", {"X": "y"})


@scenario()
async def test_messages_in_pieces_and_several_at_once(office: Office) -> None:
    (end,) = office.ends
    asked = [office.asks(f"a{number}") for number in range(4)]
    await end.takes()
    end.answers("a0")
    assert await end.takes() == ["a1", "a2", "a3"]
    messages = [said(Reply(b"a1")), b"", said(Reply(b"a2")), b"", b"", said(Reply(b"a3"))]  # empty ones say: soon
    raw = b"".join(len(message).to_bytes(4, "big") + message for message in messages)
    worker = office.queue.crew.workers[0]
    for at in range(0, len(raw), 5):
        worker.data_received(raw[at : at + 5])
    assert await asyncio.gather(*asked) == [b"a0", b"a1", b"a2", b"a3"]


@scenario(workers=2)
async def test_another_crew_takes_over(office: Office) -> None:
    """Who is free goes at once, who computes when that is done; what waits is the new crew's."""
    busy = office.looks("busy")
    old = {"busy": office.ends[1], "free": office.ends[0]}  # the last of a crew is first
    assert await old["busy"].takes() == ["busy"]
    crew, ends = await office.crew()
    office.queue.replace(crew)
    assert await old["free"].hears_the_end()
    after = office.looks("after")
    assert await ends[1].takes() == ["after"]
    ends[1].answers("after")
    assert await after == b"after"
    old["busy"].answers("busy")
    assert await busy == b"busy"
    assert await old["busy"].hears_the_end()
    assert office.short == 0


@scenario(workers=2)
async def test_a_worker_that_dies(office: Office) -> None:
    """What it had is an accident; what waits, and who comes, is the others'."""
    first, second = office.looks("first"), office.looks("second")
    assert await office.ends[1].takes() == ["first"]
    await office.ends[0].takes()
    waits = office.looks("waits")
    office.ends[1].hangs_up()
    with pytest.raises(Refusal, match="The service failed here") as refusal:
        await first
    assert refusal.value.status == 500
    assert office.short == 1
    assert len(office.queue.crew.workers) == 1
    office.ends[0].answers("second")
    office.ends[0].answers(*await office.ends[0].takes())
    assert [await second, await waits] == [b"second", b"waits"]


@scenario(workers=2)
async def test_a_worker_that_dies_at_rest(office: Office) -> None:
    office.ends[1].hangs_up()
    while office.short < 1:
        await asyncio.sleep(0.001)
    asked = office.looks("one")
    office.ends[0].answers(*await office.ends[0].takes())
    assert await asked == b"one"


@scenario(workers=2)
async def test_one_of_the_old_crew_that_dies_is_not_missed(office: Office) -> None:
    busy = office.looks("busy")
    await office.ends[1].takes()
    crew, _ = await office.crew()
    office.queue.replace(crew)
    office.ends[1].hangs_up()
    with pytest.raises(Refusal, match="The service failed here"):
        await busy
    assert office.short == 0


@scenario()
async def test_a_worker_dismissed_before_its_line_is_open(office: Office) -> None:
    """One of a crew is unfit while another still starts: nobody may be left behind."""
    ours, theirs = socket.socketpair()
    worker = Worker(office.metrics)
    worker.dismiss()
    await worker.connect(ours)
    assert await End(theirs).hears_the_end()
