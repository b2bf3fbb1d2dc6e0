"""``setwise batch`` killed by SIGKILL at random moments and started again, until it ends: what it wrote at last.

    python tests/attacks/killed_batches.py --kills 20        with PYTHONPATH=src:tests

A run is killed when a random number of parts has been finished, after a random further delay; the process alone, or
its workers with it. The output must have the bytes of a run that was not interrupted.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import processes
from setwise.recommend.batch.run import recommend_table
from setwise.recommend.batch.users import Columns

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
    options = {"k": K, "where": {}, "at_most": {}, "at_least": {}, "exactly": {}, "budget_ms": None, "ranker": None}
    out = folder / "unbroken.parquet"
    recommend_table(table, model, out, Columns(history="history"), processes=1, part_rows=PART_ROWS, **options)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--users", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    import setwise as sw
    from recommend.test_batch import parquet, users
    from saved_songs import model

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sw.Recommender.from_model(model()).save(folder / "shop")
        table = parquet(folder / "users.parquet", users(options.users))
        whole = unbroken(table, folder / "shop", folder)
        out, met = kill_and_resume(table, folder / "shop", options.users, folder, options.kills, options.seed)
        same = out.read_bytes() == whole.read_bytes()
        print(f"{met} of {options.kills} kills met a running process; the output is {'equal' if same else 'DIFFERENT'}")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
