"""``setwise diagnose`` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import setwise as sw
from saved_songs import N, model, run, sessions_file
from setwise.recommend.diagnosis import diagnose, random_histories


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("saved")
    made = model()
    made.save(root / "model")
    sw.Recommender.from_model(made, cells=4).save(root / "recommender")
    made.catalog().save(root / "catalog")
    return {name: root / name for name in ("model", "recommender", "catalog")}


def test_the_report_is_that_of_the_library(folders: dict[str, Path]) -> None:
    result = run("diagnose", folders["recommender"], "--users", 5, "--k", 3, "--seed", 2, "--json")
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    rec = sw.Recommender.load(folders["recommender"])
    expected = diagnose(rec, 3, histories=random_histories(rec, 5, 5, 2)).to_dict()
    assert report["source"] == "histories of random items"
    for name in ("top_k_over_best", "greedy_over_best", "base_rate", "items_attended"):
        assert report[name] == pytest.approx(expected[name])
    assert (report["users"], report["k"]) == (5, 3)


def test_sessions_are_the_users(folders: dict[str, Path], tmp_path: Path) -> None:
    file = sessions_file(tmp_path, [f"s{i}" for i in range(N)])
    result = run("diagnose", folders["recommender"], "--sessions", file, "--users", 7, "--k", 3, "--json")
    assert result.exit_code == 0, result.output or result.exception
    report = json.loads(result.stdout)
    assert (report["source"], report["users"]) == ("sessions", 7)


@pytest.mark.parametrize(("kind", "drawn"), [("model", "histories of random items"), ("catalog", "random vectors")])
def test_models_and_catalogues_in_a_table(folders: dict[str, Path], kind: str, drawn: str) -> None:
    result = run("diagnose", folders[kind], "--users", 4, "--k", 2)
    assert result.exit_code == 0, result.output or result.exception
    text = " ".join(result.stdout.split())
    for part in (
        "Sets of 2 for 4 users",
        drawn,
        "top-k / best",
        "greedy / best",
        "proven gap",
        "base rate",
        "items attended",
    ):
        assert part in text
    assert "pays" in text or "greedy is enough" in text or "does not pay" in text
