"""``setwise bench`` through its command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import setwise as sw
from saved_songs import model, run, said
from worlds import random_catalog


@pytest.fixture(params=["histories", "users", "users with a base"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "histories":
        rec = sw.Recommender.from_model(model(), cells=4)
    else:
        rec = sw.Recommender(sw.Index.build(random_catalog(0, n=50, base=request.param.endswith("base"))[0], cells=4))
    rec.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_as_json(saved: Path) -> None:
    result = run("bench", saved, "--requests", 6, "--k", 3, "--budget-ms", 5, "--json")
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    assert report["requests"] == 6
    assert list(report["milliseconds"]) == ["retrieve", "rank", "certify", "all"]
    for spent in report["milliseconds"].values():
        assert 0 <= spent["p50"] <= spent["p95"]
    assert all(rate > 0 for rate in report["requests_per_second"].values())
    assert "1" in report["requests_per_second"]
    assert 0 <= report["proven"] <= 1
    assert 0 <= report["gap"] <= 1


def test_as_a_table(saved: Path) -> None:
    text = said(run("bench", saved, "--requests", 3, "--k", 2, "--ranker", "greedy", "--no-certify"))
    for part in ("3 requests after warm-up", "p95 ms", "retrieve", "requests per second on 1 thread", "proven optimal"):
        assert part in text, part
