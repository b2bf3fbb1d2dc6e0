"""Preparation: compile parts of the code in other processes, and load them here.

A first slate needs the code of retrieval and of the search; its bound needs three times as much. So ``require`` waits
for some parts, and ``begin`` has others compiled beside the caller's work: ``is_ready`` says when they can be used.

Each part is compiled by one process, as many at a time as there are cores. A process that needs a part that another one
is compiling waits for it: a lock says so, and the system frees it when its holder ends. A file, the *mark*, says that a
part is compiled. Its name depends on all that numba's own cache depends on: the versions of Python and numba, the
processor, and the times of the source files. Where code cannot be kept, or a process fails, this process compiles.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from setwise._progress import Progress
from setwise._validation import available_cores
from setwise.kernels import code_files
from setwise.kernels.cache import DIGITS, PACKAGE, code_folder, compiled_sources
from setwise.kernels.parts import ALL, FIRST, Part, called

TITLE = "compiling the inner loops, once after an installation"
PROGRAM = "import sys; from setwise.kernels.preparation import main; sys.exit(main(sys.argv[1]))"
GO_ON = b"g"
LOOK_S = 0.1  # between two looks at a lock that another process holds
_loading = threading.RLock()
_loaded: set[str] = set()
_running: set[str] = set()  # being loaded: what they call may require them
_begun: set[str] = set()
_processes: set[Any] = set()  # that compile for this one


class Ended(Exception):
    """The program ends."""


# --- what callers ask ---


def is_ready(parts: Iterable[Part]) -> bool:
    """Whether all of these parts are loaded in this process."""
    return all(part.name in _loaded for part in parts)


def require(parts: Sequence[Part], progress: bool | None = None) -> None:
    """Wait until the parts are compiled, with ``progress`` as ``Progress`` has it, and load them."""
    missing = [part for part in parts if part.name not in _loaded | _running]
    if not missing:
        return
    if set(missing) & set(FIRST):  # what needs one of these needs the others soon
        begin([part for part in FIRST if part not in missing])
    compile_parts(missing, progress)
    load(missing)


def begin(parts: Sequence[Part]) -> None:
    """Load the parts that are compiled, and have the others compiled while the caller goes on."""
    load([part for part in parts if is_compiled(part)])
    missing = [part for part in parts if part.name not in _loaded | _running | _begun]
    if missing and code_folder() is None:
        load(missing)
    elif missing:
        _begun.update(part.name for part in missing)
        threading.Thread(target=_compile_and_load, args=(missing,), name="setwise-compilation").start()


def _compile_and_load(parts: Sequence[Part]) -> None:
    """Compile and load the parts. A program that ends before lets what it has begun go on, for the next one."""
    try:
        compile_parts(parts, progress=False)
        for part in parts:
            _check_end()
            load([part])
    except Ended:
        for process in _processes:
            with contextlib.suppress(OSError):
                os.write(process.stdin.fileno(), GO_ON)


def _check_end() -> None:
    """Stop this thread if the main thread is over: the interpreter waits for it."""
    if not threading.main_thread().is_alive():
        raise Ended


# --- load ---


def load(parts: Iterable[Part]) -> None:
    """Run the parts in this process: what is compiled is loaded, in a second or less each; the rest is compiled."""
    for part in parts:
        with _loading:
            if part.name not in _loaded | _running:
                _running.add(part.name)
                if code_folder() is None:
                    code_files.announce(code_files.NO_FOLDER)
                try:
                    part.run()
                    _loaded.add(part.name)
                finally:
                    _running.remove(part.name)


# --- compile ---


def is_compiled(part: Part) -> bool:
    """Whether the machine code of the part is kept on disk."""
    return code_folder() is not None and _mark(part).exists()


def compile_parts(parts: Sequence[Part], progress: bool | None = None) -> None:
    """Compile the parts that are not compiled, each in a process of its own."""
    missing = [part for part in parts if not is_compiled(part)]
    if not missing or code_folder() is None:
        return
    waiting: SimpleQueue[Part] = SimpleQueue()
    for part in missing:
        waiting.put(part)
    compiled = {part.name: 0 for part in missing}  # functions of each part
    # Threads that end with the program, and with them the processes that they started (_end_with_parent).
    threads = [
        threading.Thread(target=_compile_waiting, args=(waiting, compiled), daemon=True)
        for _ in range(min(available_cores(), len(missing)))
    ]
    for thread in threads:
        thread.start()
    total, shown = sum(part.functions for part in missing), 0
    with Progress(TITLE, total, progress) as bar:
        while any(thread.is_alive() for thread in threads):
            _check_end()
            done = sum(compiled.values())
            bar.advance(done - shown, ", ".join(part.title for part in missing if compiled[part.name] < part.functions))
            shown = done
            time.sleep(LOOK_S)
        bar.advance(total - shown)


def _compile_waiting(waiting: SimpleQueue[Part], compiled: dict[str, int]) -> None:
    """Compile one part after another, and count the functions of each."""
    with contextlib.suppress(Empty):
        while True:
            part = waiting.get_nowait()

            def count(part: Part = part) -> None:
                compiled[part.name] = min(compiled[part.name] + 1, part.functions - 1)

            with contextlib.suppress(OSError):  # the folder is gone, or its disk is full
                _compile(part, count)
            compiled[part.name] = part.functions


def _compile(part: Part, count: Callable[[], None]) -> None:
    """Compile one part, or wait for the process that does; ``count`` is called after each function."""
    from filelock import FileLock, Timeout

    while not is_compiled(part):
        try:
            with FileLock(_mark(part).with_suffix(".lock"), timeout=0, thread_local=False):
                if not is_compiled(part) and _run_process(part, count):
                    _mark(part).touch()
                return
        except Timeout:
            time.sleep(LOOK_S)


def _run_process(part: Part, count: Callable[[], None]) -> bool:
    """Whether a process compiled the part."""
    command = [sys.executable or "python3", "-c", PROGRAM, part.use]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **pipes, text=True, env=_environment()) as process:
        _processes.add(process)
        for _ in process.stdout or ():
            count()
        _processes.remove(process)
        return process.wait() == 0


def _environment() -> dict[str, str]:
    """That of this process; setwise is found where it was found here."""
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _mark(part: Part) -> Path:
    folder = code_folder()
    assert folder is not None
    return folder / f"{part.name}-{_platform()}.compiled"


@cache
def _platform() -> str:
    """A digest of what numba's cache depends on."""
    import llvmlite.binding
    import numba

    files = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in compiled_sources(PACKAGE)]
    processor = llvmlite.binding.get_host_cpu_name(), os.environ.get("NUMBA_CPU_NAME")
    state = repr((sys.version, numba.__version__, processor, files))
    return hashlib.sha256(state.encode()).hexdigest()[:DIGITS]


# --- the process that compiles ---


def main(use: str) -> int:
    """Compile what this call needs (``Part.use``), and print the name of each function of setwise that was compiled."""
    from numba.core import event

    code_files.say = None
    _running.update(part.name for part in ALL)  # nothing is required from other processes
    threading.Thread(target=_end_with_parent, daemon=True).start()

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:
            """Nothing is printed before the end."""

        def on_end(self, event: object) -> None:
            """A function is compiled."""
            function = event.data["dispatcher"].py_func  # type: ignore[attr-defined]
            if function.__module__.startswith("setwise."):
                print(function.__name__, flush=True)

    with event.install_listener("numba:compile", Listener()):
        called(use)()
    return 0


def _end_with_parent() -> None:
    """End this process when the other end of its standard input is closed, unless ``GO_ON`` came before."""
    with contextlib.suppress(OSError):
        if os.read(0, 1) == GO_ON:  # not through sys.stdin, whose lock this thread would hold at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is printed is not read
            return
    os._exit(1)
