"""Staying awake: a thread that waits for the next request a moment before it sleeps.

A core that has slept finds its caches given to others and its clock turned down: the first request it computes then
takes longer by some percent, and its thread must be woken first. Who asks again at once should not pay for that. So a
thread with nothing to do watches its flag for a moment, without the interpreter's lock, and only then goes to sleep.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Flag = NDArray[np.int64]  # (1,): 0 until somebody raises it

_SAMPLE = 500_000  # looks by which the pace is measured: some tenths of a millisecond


@intrinsic
def _seen(typing_context: Any, flag: Any) -> Any:
    """What the flag is now: read from memory at every look, where the compiler would else read it once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0]).data
        return builder.load_atomic(data, "monotonic", 8)

    return types.int64(flag), generate


@njit(cache=True, nogil=True)
def watch(flag: Flag, looks: int) -> bool:
    """Look at the flag so many times, or until it is raised; whether it was."""
    while looks > 0 and not _seen(flag):
        looks -= 1
    return looks > 0


class Bell:
    """Wakes the one thread that waits for it; who looks out for so many ``looks`` need not be woken."""

    def __init__(self, looks: int) -> None:
        self._rung: Flag = np.zeros(1, np.int64)
        self._looks, self._door = looks, threading.Lock()
        self._door.acquire()

    def ring(self) -> None:
        """End the wait, or the next one if nobody waits now; once for every wait."""
        self._rung[0] = 1
        self._door.release()

    def wait(self) -> None:
        """Until somebody rings: awake for a while, then asleep."""
        watch(self._rung, self._looks)
        self._door.acquire()
        self._rung[0] = 0


def looks_in(milliseconds: float) -> int:
    """How many looks take so long on this machine, roughly."""
    flag: Flag = np.zeros(1, np.int64)
    watch(flag, _SAMPLE)  # compiled, or loaded
    began = time.perf_counter()
    watch(flag, _SAMPLE)
    return int(_SAMPLE * milliseconds / (1000 * (time.perf_counter() - began)))
