"""Calls to the replicas of shards: the first answer counts, and there is none from some of the shards alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from setwise.errors import ShardUnavailable
from setwise.retrieval.shards import Patience, first_answers, row_ranges

SHORT = Patience(deadline_ms=300, hedge_ms=20)  # where a call is never answered
LONG = Patience(deadline_ms=3.6e6, hedge_ms=20)  # where one is, on the slowest machine
NO_HEDGE = Patience(deadline_ms=3.6e6, hedge_ms=3.6e6)

Call = Callable[[], Future[int]]


def answering(number: int) -> Call:
    def call() -> Future[int]:
        future: Future[int] = Future()
        future.set_result(number)
        return future

    return call


def silent() -> Future[int]:
    return Future()


def broken() -> Future[int]:
    future: Future[int] = Future()
    future.set_exception(ConnectionError("the host ended"))
    return future


def test_rows_are_divided_evenly() -> None:
    assert row_ranges(10, 3) == [(0, 3), (3, 6), (6, 10)]
    assert row_ranges(2, 5) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("bad", [silent, broken])
def test_another_replica_answers_for_one_that_does_not(bad: Call) -> None:
    calls = [[bad, answering(1)], [answering(2), bad], [answering(3), answering(4)]]
    assert first_answers(calls, LONG) == [1, 2, 3]


@pytest.mark.parametrize(
    ("bad", "reason"), [(silent, "no answer within 300 ms"), (broken, "ConnectionError: the host")]
)
def test_a_lost_shard_is_refused(bad: Call, reason: str) -> None:
    with pytest.raises(ShardUnavailable, match=reason) as raised:
        first_answers([[answering(1)], [bad, bad], [answering(3)]], SHORT)
    assert raised.value.shard == 1


def test_a_second_replica_is_asked_only_when_the_first_is_slow() -> None:
    second_calls: list[int] = []

    def second() -> Future[int]:
        second_calls.append(1)
        return silent()

    assert first_answers([[answering(1), second], [answering(2)]], NO_HEDGE) == [1, 2]
    assert second_calls == []


def test_an_answer_that_comes_during_the_wait_counts() -> None:
    future: Future[int] = Future()
    threading.Timer(0.05, future.set_result, [7]).start()
    assert first_answers([[lambda: future]], LONG) == [7]


def test_an_answer_that_is_there_counts_after_the_deadline() -> None:
    assert first_answers([[answering(7)]], Patience(0, 0)) == [7]
