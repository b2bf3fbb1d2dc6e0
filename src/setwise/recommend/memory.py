"""Keep freed memory: a request frees some megabytes, and mapping pages again costs the next request 3 ms.

glibc returns memory to the system when more than a threshold of it is free, and maps large blocks separately. These
functions raise both thresholds. They do nothing with other C libraries.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

_LARGEST = (32 << 20) - (64 << 10)  # bytes: glibc adapts to blocks below 32 MiB only
_KEPT, _MAPPED = 1 << 28, 1 << 25  # bytes
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's numbers


def keep_some() -> None:
    """Keep up to 64 MiB of freed memory, in any process.

    glibc sets its thresholds from the largest mapped block ever freed: blocks up to that size are no longer mapped
    separately, and twice as much free memory is kept. So one block is allocated and freed; no page of it is touched.
    """
    np.empty(_LARGEST, np.uint8)


def keep_much() -> None:
    """Keep up to 256 MiB of freed memory, in a process that only serves requests."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None  # glibc alone has it
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED)
