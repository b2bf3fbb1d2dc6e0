"""The same request has the same answer: again, in another thread, in another process, in a batch, after a reload.

The answer is compared bit by bit, where no time limit ends a search early: without certificates, and with proofs that
take a fraction of their time.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import processes
import setwise as sw
from saved_songs import model

pytestmark = [pytest.mark.nightly, pytest.mark.promise("determinism")]
THREADS = 4
CHILD = """
import json, sys
import setwise as sw
recommender = sw.Recommender.load(sys.argv[1])
for line in sys.stdin:
    slate = recommender.recommend(**json.loads(line))
    print(json.dumps([slate.items.tolist(), slate.value.hex(), slate.upper_bound.hex()]), flush=True)
"""


def requests(catalog: sw.Catalog, count: int) -> list[dict]:
    rng = np.random.default_rng(5)
    ids = list(catalog.ids)
    found = []
    for number in range(count):
        history = rng.choice(ids, int(rng.integers(1, 4)), replace=False).tolist()
        ranker = ("swap", "greedy", "beam", "paper")[number % 4]
        certified = {"certify": number % 2 == 0, "budget_ms": 60_000.0}
        found.append({"history": history, "k": int(rng.integers(1, 5)), "ranker": ranker, **certified})
    return found


def answer(recommender: sw.Recommender, request: dict) -> list:
    slate = recommender.recommend(**request)
    return [slate.items.tolist(), slate.value.hex(), slate.upper_bound.hex()]


def test_threads_processes_and_reloads(tmp_path: Path, count, record_property) -> None:
    recommender = sw.Recommender.from_model(model(), cells=4)
    recommender.save(tmp_path / "songs")
    asked = requests(recommender.index.catalog, count(1000, 100))
    expected = [answer(recommender, one) for one in asked]
    assert [answer(recommender, one) for one in reversed(asked)] == expected[::-1], "again, in another order"
    again = sw.Recommender.load(tmp_path / "songs")
    assert [answer(again, one) for one in asked] == expected, "after saving and opening"
    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(lambda one: answer(again, one), asked)) == expected, "in threads"
    lines = "\n".join(json.dumps(one) for one in asked)
    command = [sys.executable, "-c", CHILD, str(tmp_path / "songs")]
    for _ in range(2):
        printed = processes.run(command, text=lines, check=True, limit=3600).stdout
        assert [json.loads(line) for line in printed.splitlines()] == expected, "in other processes"
    record_property(
        "seen", f"{len(asked)} requests, six times each: alone, again, reopened, {THREADS} threads, 2 processes"
    )


def test_batches(count) -> None:
    recommender = sw.Recommender.from_model(model(), cells=4, certify=False)
    asked = requests(recommender.index.catalog, count(1000, 50))
    histories = [one["history"] for one in asked]
    alone = [recommender.recommend(history=one, k=3, certify=False).items.tolist() for one in histories]
    assert [one.items.tolist() for one in recommender.recommend_many(histories=histories, k=3, certify=False)] == alone
