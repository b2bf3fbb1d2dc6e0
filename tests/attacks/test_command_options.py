"""Every option of a command with values and files that are not what it expects: a sentence, and never a traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from odd_options import TEXTS, odd_files, outcomes, variants

import setwise as sw

pytestmark = pytest.mark.nightly


def base_arguments(folder: Path, work: Path) -> dict[str, list[str]]:
    """Arguments with which each command succeeds."""
    (work / "users.jsonl").write_text(json.dumps({"user": "a", "history": ["song-1"]}) + "\n")
    (work / "sessions.csv").write_text("session,item\n" + "".join(f"{n // 4},song-{n % 40}\n" for n in range(80)))
    sw.Recommender.load(folder).recommend(history=["song-1"], k=2, budget_ms=20).save(work / "slate.json")
    small = ["--k", "2", "--budget-ms", "5"]
    return {
        "recommend": [str(folder), "--history", "song-1", *small],
        "verify": ["slate.json", "--catalog", str(folder), "--nodes", "2000"],
        "batch": ["users.jsonl", "--model", str(folder), "--out", "out.parquet", "--processes", "1", *small],
        "evaluate": [str(folder), "sessions.csv", "--k", "2", "--most", "3"],
        "diagnose": [str(folder), "--users", "3", *small],
    }


@pytest.mark.parametrize("command", ["recommend", "verify", "batch", "evaluate", "diagnose"])
def test_odd_values_of_options(command: str, folder: Path, tmp_path: Path, count, record_property) -> None:
    (tmp_path / "odd").mkdir()
    base = base_arguments(folder, tmp_path)
    runs = list(variants(command, base[command], [*TEXTS, *odd_files(tmp_path / "odd")]))
    random.Random(0).shuffle(runs)
    first = [[name, *base[name]] for name in dict.fromkeys(["recommend", "verify", command])]
    found = outcomes(first + runs[: count(len(runs), 80)], tmp_path)
    assert len(found) == len(first) + count(len(runs), 80)
    for one in found[: len(first)]:
        assert one["status"] in (0, 256), one
    for one in found:
        assert "Traceback" not in one["said"], one
        assert one["status"] in (None, 0, 1 << 8, 2 << 8), one  # 1: a slate that is not proven
        if one["status"] == 2 << 8:
            assert one["said"].strip("\n").split("\n")[-1].startswith("setwise: "), one
    record_property("seen", f"{len(found)} runs of {command}")
