"""``setwise batch`` killed by SIGKILL at random moments and resumed: the bytes of a run that was not interrupted.

A run is killed when a random number of parts has been finished, after a random further delay; the process alone, or
its workers with it.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import processes
import setwise as sw
from recommend.test_batch import parquet, users, written
from saved_songs import model
from setwise.recommend.batch.run import recommend_table
from setwise.recommend.batch.users import Columns

pytestmark = pytest.mark.nightly

PART_ROWS, K, SECONDS = 4, 5, 600
LONGEST_DELAY = 0.2  # seconds


def arguments(table: Path, model: Path, out: Path) -> list[str]:
    named = ["--model", str(model), "--out", str(out), "--part-rows", str(PART_ROWS), "--k", str(K), "--processes", "2"]
    return [sys.executable, "-m", "setwise", "batch", str(table), *named]


def killed_run(command: Sequence[str], folder: Path, parts: int, rng: random.Random) -> bool:
    """Start the command and kill it when ``parts`` parts are there; whether it was still running."""
    with processes.started(command, stdout=subprocess.DEVNULL) as process:
        processes.until(
            lambda: process.poll() is not None or len(list(folder.glob("part-*.parquet"))) >= parts, seconds=SECONDS
        )
        time.sleep(LONGEST_DELAY * rng.random())
        running, workers = process.poll() is None, processes.children(process.pid)
        if rng.random() < 0.5:  # the others are killed with their workers
            process.kill()
            processes.until(lambda: not any(map(processes.alive, workers)), seconds=SECONDS)
    return running


def kill_and_resume(table: Path, model: Path, users: int, folder: Path, kills: int, seed: int = 0) -> tuple[Path, int]:
    """The output after so many killed runs and one that ended, and how many of the kills met a running process."""
    rng, out = random.Random(seed), folder / "killed.parquet"
    parts = out.with_name(out.name + ".parts")
    targets = sorted(rng.randrange(-(-users // PART_ROWS)) for _ in range(kills))
    met = sum(killed_run(arguments(table, model, out), parts, target, rng) for target in targets)
    processes.run(arguments(table, model, out), check=True, limit=SECONDS)
    return out, met


def unbroken(table: Path, model: Path, folder: Path) -> Path:
    """The output of one run in this process."""
    limits: dict[str, object] = {"at_most": {}, "at_least": {}, "exactly": {}}
    options = {
        "k": K,
        "unknown": "ignore",
        "filter_seen": True,
        "where": {},
        **limits,
        "budget_ms": None,
        "ranker": None,
    }
    out = folder / "unbroken.parquet"
    recommend_table(table, model, out, Columns(history="history"), processes=1, part_rows=PART_ROWS, **options)
    return out


def test_killed_and_resumed_equals_an_unbroken_run(tmp_path: Path, count: Callable[..., int], large: bool) -> None:
    number = 120 if large else 40
    sw.Recommender.from_model(model()).save(tmp_path / "shop")
    table = parquet(tmp_path / "users.parquet", users(number))
    out, met = kill_and_resume(table, tmp_path / "shop", number, tmp_path, count(20))
    assert met >= 1
    assert [row["user"] for row in written(out)] == [row["user"] for row in users(number)]
    assert out.read_bytes() == unbroken(table, tmp_path / "shop", tmp_path).read_bytes()
    assert not out.with_name(out.name + ".parts").exists()
