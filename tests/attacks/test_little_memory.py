"""With too little memory a command ends with one sentence, and what was saved before is intact."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from saved_songs import model, run
from setwise import cli

pytestmark = [pytest.mark.nightly, pytest.mark.promise("memory")]
ITEMS = 200_000


def ended_with(work: Callable[[], None], megabytes: int, log: Path) -> tuple[int, str]:
    """The exit status and the last output of ``work`` in a child that may allocate so much more than this process has."""
    child = os.fork()
    if child == 0:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(
            resource.RLIMIT_AS, (pages * resource.getpagesize() + (megabytes << 20), resource.RLIM_INFINITY)
        )
        status = 0
        try:
            work()
        except SystemExit as end:
            status = int(end.code or 0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            status = 99
        sys.stderr.flush()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text(errors="replace")


def command(*arguments: object) -> Callable[[], None]:
    def work() -> None:
        sys.argv = ["setwise", *map(str, arguments)]
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        cli.main()

    return work


def arrays(path: Path, items: int) -> Path:
    """A file of arrays for ``setwise index``."""
    rng = np.random.default_rng(0)
    np.savez(path, **{name: rng.normal(size=(items, 1, 16)).astype(np.float32) for name in ("query", "key", "value")})
    return path


@pytest.mark.parametrize("megabytes", [1, 8, 30, 60])
def test_index_with_too_little_memory(megabytes: int, tmp_path: Path) -> None:
    small = run("index", arrays(tmp_path / "small.npz", 600), "--out", tmp_path / "small")
    assert small.exit_code == 0, "what is imported or compiled at first is so now"
    sw.Recommender.from_model(model(), cells=4).save(tmp_path / "shop")
    large = command("index", arrays(tmp_path / "large.npz", ITEMS), "--out", tmp_path / "shop")
    status, said = ended_with(large, megabytes, tmp_path / "log")
    assert status == 2, said[-2000:]
    assert "memory" in said
    assert "Traceback" not in said
    assert len(sw.Recommender.load(tmp_path / "shop").index.catalog) == 60
