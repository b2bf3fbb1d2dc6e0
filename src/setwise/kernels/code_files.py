"""Files of machine code that cannot be read or written are no reason to fail: the function is compiled for the process.

numba writes a file beside its place and renames it, but does not wait for the disk: after a power failure a file may be
short or empty. It then raises what unpickling raises, in every process until someone removes the file; and a full disk
raises OSError after a function was compiled. ``tolerate`` replaces the two methods by which numba reads and writes this
code. Functions that other packages keep elsewhere are left as they are.

Where code cannot be kept, every process compiles for some minutes, and ``announce`` says so. Compilation whose code is
kept happens once, and shows its progress (preparation.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from setwise._standard_error import say as write
from setwise.kernels.cache import code_folder

PROBE_BYTES = 1 << 26  # bytes, more than any code that is kept
NO_FOLDER = (
    "compiling the inner loops for some minutes; each process does so, as no folder for machine code can be written: "
    "set NUMBA_CACHE_DIR to one that can"
)
NOT_KEPT = (
    "the machine code of the inner loops cannot be kept, so that each process compiles for some minutes: make room in "
    "its folder, or set NUMBA_CACHE_DIR to one with room"
)
_announced: set[str] = set()


def print_text(text: str) -> None:
    """Print to standard error."""
    write(f"setwise: {text}")


say: Callable[[str], None] | None = print_text


def announce(text: str) -> None:
    """Say this once for a process."""
    if say is not None and text not in _announced:
        _announced.add(text)
        say(text)


def tolerate() -> None:
    """Make numba go on without files that it cannot use. Importing kernels/options.py calls it."""
    from numba.core.caching import FunctionCache

    load, save = FunctionCache.load_overload, FunctionCache.save_overload

    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:
        """What is kept for a signature; None if that cannot be read. Damaged code is then written again."""
        if not _ours(self):
            return load(self, sig, target_context)
        try:
            return load(self, sig, target_context)
        except OSError:
            return None
        except Exception as error:  # unpickling a damaged file may raise anything
            if isinstance(error, MemoryError):
                bytearray(PROBE_BYTES)  # fails too where memory is short; a damaged length asks for more than there is
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self: Any, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if that is possible."""
        try:
            save(self, sig, data)
        except OSError:
            if not _ours(self):
                raise
            announce(NOT_KEPT)

    FunctionCache.load_overload, FunctionCache.save_overload = load_overload, save_overload


def _ours(cache: Any) -> bool:
    folder = code_folder()
    return folder is not None and Path(cache.cache_path).is_relative_to(folder)
