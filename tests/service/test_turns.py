"""Turns: long work in small parts, between which everything else has its turn too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from setwise.service.turns import TURNS_S, Turns


def work(name: str, turns: int, done: list[str]) -> Callable[[], bool]:
    """Something that takes a while in each of its turns."""
    left = iter(range(turns - 1, -1, -1))

    def turn() -> bool:
        time.sleep(TURNS_S / 4)
        done.append(name)
        return next(left) > 0

    return turn


def test_others_have_their_turn() -> None:
    async def passes() -> int:
        turns, done, count = Turns(), list[str](), 0
        for name in "ab":
            turns.add(work(name, 40, done))
        while len(done) < 80:
            await asyncio.sleep(0)
            count += 1
        assert "".join(done) == "ab" * 40
        return count

    assert asyncio.run(passes()) >= 80 // 5  # four turns fit into one pass, or five that began in time


def test_a_turn_that_fails_ends_no_other() -> None:
    def fail() -> bool:
        raise ValueError("a turn that fails")

    async def failed() -> list[str]:
        errors, turns, done = list[str](), Turns(), list[str]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(str(context["exception"])))
        for turn in (work("a", 3, done), fail, work("b", 3, done)):
            turns.add(turn)
        while len(done) < 6:
            await asyncio.sleep(0)
        turns.add(work("c", 1, done))
        while len(done) < 7:
            await asyncio.sleep(0)
        return errors

    assert asyncio.run(failed()) == ["a turn that fails"]


def test_results_come_in_turns() -> None:
    """Many responses that take long to compute leave room for others; an error reaches the one who waits for it."""

    def slow() -> int:
        time.sleep(TURNS_S / 4)
        return 7

    def fail() -> int:
        raise ValueError("an error of the computation")

    async def passes() -> tuple[list[int], int]:
        turns, count = Turns(), 0
        waiting = [asyncio.create_task(turns.result(slow)) for _ in range(40)]
        waiting[3].cancel()
        while not all(task.done() for task in waiting):
            await asyncio.sleep(0)
            count += 1
        with pytest.raises(ValueError, match="an error of the computation"):
            await turns.result(fail)
        return [task.result() for task in waiting if not task.cancelled()], count

    results, count = asyncio.run(passes())
    assert results == [7] * 39
    assert count >= 39 // 5
