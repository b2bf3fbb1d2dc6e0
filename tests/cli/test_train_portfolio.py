"""``setwise train --user-columns``: cases with features, of which at least one item must succeed."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from saved_songs import run, said
from setwise.datasets.cases import read_cases
from setwise.errors import InvalidInput, MalformedFile


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 instances; the solvers a and b fail together, c solves what they do not."""
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("runs") / "runs.csv"
    with file.open("w", newline="") as text:
        rows = csv.writer(text)
        rows.writerow(["instance", "f_size", "f_depth", "solver", "solved"])
        for number in range(120):
            size, kind = rng.random(), rng.random() < 0.6
            for solver, solved in zip("abcd", (kind, kind, not kind, rng.random() < 0.1), strict=True):
                rows.writerow([number, f"{size:.3f}", "" if number % 7 == 0 else number % 5, solver, int(solved)])
        rows.writerow(["", 1, 1, "a", 1])
    return file


COLUMNS = ("--session", "instance", "--item", "solver", "--outcome", "solved")


def test_the_printed_commands_choose_items_that_do_not_fail_together(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("train", runs, *COLUMNS, "--user-columns", "f_*", "--k", 2, "--out", tmp_path / "model")
    assert result.exit_code == 0, result.output or result.exception
    text = said(result)
    for part in (
        "Read 120 cases with 2 features, and 4 items.",
        "Skipped 1 rows without a case, an item or an outcome.",
        "24 held-out cases: at least one of 2 items succeeds",
        "top-k of this model",
        "one set for all",
        "Deploy",
    ):
        assert part in text, part
    monkeypatch.chdir(tmp_path)
    index, recommend = (shlex.split(line)[1:] for line in result.output.splitlines() if "    setwise " in line)
    shown = run(*index)
    assert "Users are given by features" in said(shown)
    answer = json.loads(run(*recommend, "--json").stdout)
    assert "c" in {item["id"] for item in answer["items"]}
    assert len(answer["items"]) == 2
    assert recommend[-2:] == ["--k", "2"]
    assert isinstance(run("recommend", "service", "--features", "size", "--k", 2).exception, InvalidInput)


def test_json(runs: Path, tmp_path: Path) -> None:
    result = run(
        "train", runs, *COLUMNS, "--user-columns", "f_size,f_depth", "--k", 2, "--out", tmp_path / "m", "--json"
    )
    report = json.loads(result.stdout)
    rates = {row["sets"]: row["rate"] for row in report["quality"]["rows"]}
    assert rates["all items"] == 1.0
    assert rates["this model"] > rates["top-k of this model"]
    assert report["read"]["features"] == ["f_size", "f_depth"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("case,item,y,f\n1,a,1,2\n1,b,1,3\n", "all rows of a case must have the same features"),
        ("case,item,y,f\n1,a,1,2\n1,a,1,2\n", "must not try an item twice"),
        ("case,item,y,f\n1,a,0.5,2\n", "y must be 0 or 1, got '0.5'"),
        ("case,item,y,f\n1,a,1,big\n", "the feature f must be a number or empty, got 'big'"),
        ("case,item,y,f\n1,a,1,-1e39\n", r"the feature f must be at most 3e\+38 in size, got '-1e39'"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "cases.csv").write_text(text)
    with pytest.raises(MalformedFile, match=sentence):
        read_cases(tmp_path / "cases.csv", "case", "item", "y", ["f"])


def test_missing_features_as_other_programs_write_them(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("case,item,y,f\n1,a,1,NaN\n1,b,0,\n2,a,0,null\n2,b,1,nan\n")
    assert np.isnan(read_cases(tmp_path / "cases.csv", "case", "item", "y", ["f"]).features).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--session", "instance", "--outcome", "solved", "--user-columns", "f_*"),
            "--item must be given where no column has a usual name (item, item_id",
        ),
        ((*COLUMNS, "--user-columns", "g_*"), "names or patterns of columns of the file"),
        (
            (*COLUMNS, "--user-columns", "f_*", "--heads", 2),
            "--heads must be left out for cases (--user-columns is given)",
        ),
        ((*COLUMNS, "--user-columns", "f_*", "--k", 4), "--k must be below the number of items, 4"),
    ],
)
def test_options_that_are_refused(runs: Path, tmp_path: Path, options: tuple[object, ...], sentence: str) -> None:
    result = run("train", runs, *options, "--out", tmp_path / "m")
    assert isinstance(result.exception, InvalidInput)
    assert sentence in str(result.exception)
