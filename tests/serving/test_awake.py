"""A thread that waits: woken whether it looks out, sleeps or comes late, and nobody else waits for it."""

import threading
import time

import numpy as np
import pytest

from setwise.serving.awake import Bell, looks_in, watch

FOREVER = 2**62


def rung(bell: Bell, times: int, by_then: list[int]) -> None:
    for number in range(times):
        bell.wait()
        by_then.append(number)


@pytest.mark.parametrize("looks", [0, 1000, FOREVER])
def test_every_ring_ends_one_wait(looks: int) -> None:
    bell, ended = Bell(looks), []
    thread = threading.Thread(target=rung, args=(bell, 3, ended))
    bell.ring()  # before anybody waits
    thread.start()
    for number in range(3):
        while len(ended) <= number:
            time.sleep(0.001)
        assert len(ended) == number + 1, "a wait ended that nobody had rung for"
        if number < 2:
            bell.ring()
    thread.join()


def test_who_looks_out_keeps_nobody_from_running() -> None:
    """The watch is without the interpreter's lock: this thread must get as far as raising the flag."""
    flag = np.zeros(1, np.int64)
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(watch(flag, FOREVER)))
    thread.start()
    time.sleep(0.02)
    assert thread.is_alive()
    flag[0] = 1
    thread.join(timeout=60)
    assert seen == [True]


def test_a_watch_ends() -> None:
    assert not watch(np.zeros(1, np.int64), 1000)
    assert not watch(np.ones(1, np.int64), 0)
    assert looks_in(0) == 0
    assert looks_in(1) > 0
