"""``setwise compile``: compile the inner loops now instead of at the first request."""

from __future__ import annotations

import time

from rich.console import Console


def compile_loops() -> None:
    """Compile the inner loops now (about two minutes), so that first requests and services start in seconds.

    Run it after installation and when an image is built, as the user who will run setwise. The machine code is kept in
    NUMBA_CACHE_DIR if that is set, or in the user's cache folder; where it exists already, this takes a second.

    Example: [bold]setwise compile[/bold]
    """
    from setwise.recommend.compilation import compile_requests

    began = time.perf_counter()
    compile_requests()
    Console().print(f"The inner loops are compiled ({time.perf_counter() - began:.0f} s).")
