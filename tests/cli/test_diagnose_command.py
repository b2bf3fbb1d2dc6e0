"""``setwise diagnose`` as a person runs it."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from saved_songs import N, model, run, sessions_file
from setwise import cli
from setwise.recommend.diagnosis import diagnose
from setwise.recommend.sample_users import random_histories
from setwise.training.portfolio import PortfolioModel
from setwise.training.set_outcomes import OutcomeModel
from setwise.training.slate_model import SlateModel


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


@pytest.mark.parametrize(
    ("summary", "sentence"),
    [
        ({"kept": "effects", "words": ["each further item: -1"]}, "see show: each further item: -1."),
        ({"kept": "pointwise", "words": []}, "nothing that items of a slate do to each other"),
        (
            {"kept": "pair_table", "words": []},
            "a table of all pairs of items lowers the log loss of held-out slates from",
        ),
    ],
)
def test_the_data_have_a_verdict_of_their_own(tmp_path: Path, summary: dict[str, Any], sentence: str) -> None:
    made = model()
    losses = {"log_loss": {"effects": 0.5, "pair_table": 0.4}}
    SlateModel(made.catalog(), made.encoder, summary | losses).save(tmp_path / "model")
    shown = " ".join(run("diagnose", tmp_path / "model", "--users", 3, "--k", 2).stdout.split())
    assert "By the model: " in shown
    assert sentence in shown.partition("By its data: ")[2]


def test_users_of_features_and_the_only_user(tmp_path: Path) -> None:
    """They got random vectors, and histories that were left out of the sets: no user of these models is like that."""
    rng = np.random.default_rng(0)
    outcomes, features = (rng.random((60, 5)) < 0.3).astype(float), rng.normal(size=(60, 2))
    PortfolioModel.fit(outcomes, 2, features, ("a", "b"), trees=5).save(tmp_path / "portfolio")
    sets = np.array([*combinations(range(6), 2)])
    outcome_model = OutcomeModel.fit(sets, sets.sum(axis=1) + 3.0, n_items=6, heads=1, dim=2)
    outcome_model.slate_model([f"v{i}" for i in range(6)]).save(tmp_path / "variants")

    def report(name: str) -> dict[str, Any]:
        result = run("diagnose", tmp_path / name, "--users", 8, "--k", 2, "--json")
        assert result.exit_code == 0, result.output or result.exception
        return json.loads(result.stdout)

    found = report("portfolio")
    assert found["source"] == "random features"
    assert 0 < 2 * found["base_rate"] <= 1, "a share of successes"
    found = report("variants")
    assert found["source"] == "the one user of this model"
    assert 2 * found["base_rate"] == pytest.approx(max(outcome_model.predict(sets)), rel=1e-4)
    for name in ("portfolio", "variants"):
        index = CliRunner().invoke(cli.app, ["index", str(tmp_path / name), "--out", str(tmp_path / f"{name}-index")])
        assert index.exit_code == 0, index.output
