"""The end of a run of pytest: it fails for a process that a test has left behind, names it, and ends it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import processes
from processes import alive, until

TESTS = Path(__file__).parent

LEAVES_ONE = """
import os, sys
import conftest

conftest.PATIENCE = 0.5  # seconds

def test_passes():
    code = "import os, time; os.setsid(); time.sleep(600)  # as a worker of multiprocessing"
    os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", code])
"""


def test_a_process_that_is_left_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_leaves.py").write_text(LEAVES_ONE)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}
    options = ["-n0", "-p", "conftest", "-p", "no:cacheprovider", "-c", TESTS.parent / "pyproject.toml"]
    run = processes.run([sys.executable, "-m", "pytest", *options, tmp_path], env=environment, cwd=tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 passed" in run.stdout
    said = re.search(
        r"still alive at the end of the tests: process (\d+), .*as a worker of multiprocessing", run.stderr
    )
    assert said is not None, run.stderr
    until(lambda: not alive(int(said[1])))
