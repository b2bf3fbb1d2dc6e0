"""Freed memory is kept: a request frees some megabytes, and the next one would wait 3 ms for pages to be mapped anew.

glibc gives memory back to the system when more than a threshold of it is free, and maps large blocks by themselves.
Other C libraries have rules of their own; what is here does nothing there.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

_LARGEST = (32 << 20) - (64 << 10)  # bytes: glibc learns nothing from a block of 32 MiB or more
_KEPT, _MAPPED = 1 << 28, 1 << 25  # bytes
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's numbers


def keep_some() -> None:
    """Keep up to 64 MiB, in whatever process this is.

    glibc takes the largest mapped block that was ever freed for one that will be wanted again, and twice as much free
    memory as worth keeping. So one is taken and freed, of which no page is touched.
    """
    np.empty(_LARGEST, np.uint8)


def keep_much() -> None:
    """Keep up to 256 MiB, in a process that is for requests alone."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None  # glibc alone has it
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED)
