"""``setwise train`` on outcomes of whole sets: both forms of the table, the report, and the printed commands."""

from __future__ import annotations

import csv
import itertools
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from saved_songs import run, said
from setwise.datasets.outcome_sets import read_outcome_sets
from setwise.errors import InvalidInput, MalformedFile
from setwise.training.slate_model import SlateModel

LETTERS, SITES = "ACDEF", 3
VARIANTS = list(itertools.product(LETTERS, repeat=SITES))


def fitness() -> dict[tuple[str, ...], float]:
    """Outcomes near 0 but for some; pairs of residues explain them."""
    rng = np.random.default_rng(0)
    pair = 2 * rng.normal(size=(SITES, SITES, 5, 5))
    score = [
        sum(pair[a, b, LETTERS.index(one[a]), LETTERS.index(one[b])] for a in range(SITES) for b in range(a))
        for one in VARIANTS
    ]
    return dict(zip(VARIANTS, np.logaddexp(0.0, np.array(score) - 2.0).tolist(), strict=True))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sets in the long and in the wide form."""
    folder = tmp_path_factory.mktemp("sets")
    with (folder / "long.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["variant", "site", "residue", "fitness"])
        for number, (one, value) in enumerate(fitness().items()):
            rows.writerows([number, site + 1, letter, value] for site, letter in enumerate(one))
        rows.writerow(["extra", 1, "A", ""])
    with (folder / "wide.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["p1", "p2", "p3", "fitness"])
        rows.writerows([*one, value] for one, value in fitness().items())
    return folder


LONG = ("--outcome", "fitness", "--group", "site", "--item", "residue")
WIDE = ("--outcome", "fitness", "--group", "p1", "--group", "p2", "--group", "p3")


@pytest.mark.parametrize(("form", "columns"), [("long", LONG), pytest.param("wide", WIDE, marks=pytest.mark.nightly)])
def test_the_printed_commands_find_the_best_set(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, columns: tuple[str, ...]
) -> None:
    result = run("train", tables / f"{form}.csv", *columns, "--out", tmp_path / "model")
    assert result.exit_code == 0, result.output or result.exception
    text = said(result)
    for part in ("Read 125 sets of at most 3 of 15 items in 3 groups.", "link softplus", "additive", "pairwise", "R²"):
        assert part in text, part
    assert ("Skipped 1 rows without an outcome." in text) == (form == "long")
    monkeypatch.chdir(tmp_path)
    index, recommend = (shlex.split(line)[1:] for line in result.output.splitlines() if "    setwise " in line)
    shown = run(*index)
    assert shown.exit_code == 0
    assert f"setwise {shlex.join(recommend)}" in said(shown).replace("service ", "service/ ")
    answer = json.loads(run(*recommend, "--json").stdout)
    group = "site" if form == "long" else "group"
    assert len({item["attributes"][group] for item in answer["items"]}) == SITES
    found = tuple(item["id"].split(":")[1] for item in sorted(answer["items"], key=lambda item: item["id"]))
    assert fitness()[found] >= sorted(fitness().values())[-6], "one of the best sets"


def test_json_and_the_saved_model(tables: Path, tmp_path: Path) -> None:
    result = run("train", tables / "long.csv", *LONG, "--out", tmp_path / "m", "--json", "--heads", 2, "--epochs", 30)
    report = json.loads(result.stdout)
    assert report["read"]["sets"] == 125
    assert report["read"]["held_out"] == 25
    assert report["training"]["heads"] == 2
    assert report["exactly"] == {"site": 1}
    rows = {row["model"]: row for row in report["quality"]["rows"]}
    assert rows["the mean"]["explained"] == 0
    assert rows["attention and pairs"]["behind"] == 0
    assert rows["pairwise"]["loss"] < rows["the mean"]["loss"]
    assert report["quality"]["verdict"]
    model = SlateModel.load(tmp_path / "m")
    assert model.catalog().ids[:2].tolist() == ["1:A", "1:C"]
    assert model.summary["link"] == "softplus"


def test_sets_of_different_sizes_without_groups(tmp_path: Path) -> None:
    (tmp_path / "bundles.csv").write_text(
        "bundle,item,sold\n" + "".join(f"{n},p{i},{n % 2}\n" for n in range(30) for i in range(n % 3 + 1))
    )
    result = run("train", tmp_path / "bundles.csv", "--set", "bundle", "--outcome", "sold", "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output or result.exception
    assert "too few sets" in said(result)
    assert "link logistic" in said(result)
    assert "--exactly" not in result.output
    data = read_outcome_sets(tmp_path / "bundles.csv", "sold", set_column="bundle")
    assert data.sets[:3].tolist() == [[0, -1, -1], [0, 1, -1], [0, 1, 2]]
    assert data.ids == ["p0", "p1", "p2"]
    assert data.attributes == {}


@pytest.mark.parametrize(
    ("text", "arguments", "error", "sentence"),
    [
        ("set,item,y\n1,a,2\n1,b,3\n", {"outcome": "y"}, MalformedFile, "all rows of a set must have the same y"),
        ("set,item,y\n1,a,2\n1,a,2\n", {"outcome": "y"}, MalformedFile, "must not have an item twice"),
        ("set,item,y\n1,a,high\n", {"outcome": "y"}, MalformedFile, "y must be a number, got 'high'"),
        ("set,item,y\n1,a,\n", {"outcome": "y"}, InvalidInput, "at least one with an outcome"),
        ("lot,item,y\n1,a,1\n", {"outcome": "y"}, InvalidInput, "set must be given where no column has a usual name"),
        ("a,b,y\n1,2,1\n", {"outcome": "y", "groups": ["a", "b"], "item": "a"}, InvalidInput, "left out where several"),
        ("a,b,y\n1,2,1\n", {"outcome": "z", "groups": ["a", "b"]}, InvalidInput, "no 'z'"),
        ("a,b,y\n1,2,1\n", {"outcome": "y", "groups": ["a", "y"]}, InvalidInput, "outcome must be a column of its own"),
    ],
)
def test_tables_that_are_refused(
    tmp_path: Path, text: str, arguments: dict, error: type[Exception], sentence: str
) -> None:
    (tmp_path / "sets.csv").write_text(text)
    with pytest.raises(error, match=sentence):
        read_outcome_sets(tmp_path / "sets.csv", **arguments)


def test_an_item_of_two_groups_is_two_items(tmp_path: Path) -> None:
    (tmp_path / "unique.csv").write_text("set,item,shelf,y\n1,tea,hot,1\n1,ice,cold,1\n2,tea,hot,2\n")
    assert read_outcome_sets(tmp_path / "unique.csv", "y", groups=["shelf"]).ids == ["ice", "tea"]
    (tmp_path / "shared.csv").write_text("set,item,shelf,y\n1,tea,hot,1\n1,tea,cold,1\n2,tea,hot,2\n")
    data = read_outcome_sets(tmp_path / "shared.csv", "y", groups=["shelf"])
    assert data.ids == ["cold:tea", "hot:tea"]
    assert not data.one_of_each_group


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--group", "site"), "outcome must be given where no column has a usual name"),
        (
            ("--group", "site", "--outcome", "fitness", "--item", "residue", "--minutes", 1),
            "--minutes must be left out for sets (--group is given), got 1",
        ),
        (
            ("--set", "row", "--outcome", "fitness", "--session", "row"),
            "--session must be left out for sets (--set is given)",
        ),
        (("--outcome", "fitness", "--group", "site", "--k", 3), "--k must be left out for sets (--group is given)"),
        (
            ("--session", "row", "--link", "softplus"),
            "--link must be left out for a file of sessions or slates, got softplus; leave it out, or use setwise train sets",
        ),
        (("--group", "site", "--outcome", "fitness", "--item", "residue", "--link", "cubic"), "link must be one of"),
    ],
)
def test_options_that_are_refused(tables: Path, tmp_path: Path, options: tuple[object, ...], sentence: str) -> None:
    result = run("train", tables / "long.csv", *options, "--out", tmp_path / "m")
    assert isinstance(result.exception, InvalidInput)
    assert sentence in str(result.exception)


@pytest.mark.nightly
def test_the_folder_of_an_index_is_not_replaced(tables: Path, tmp_path: Path) -> None:
    command, shop = ("train", tables / "wide.csv", *WIDE, "--epochs", 2), tmp_path / "shop"
    assert run(*command, "--out", tmp_path / "model").exit_code == 0
    assert run("index", tmp_path / "model", "--out", shop).exit_code == 0
    refused = run(*command, "--out", shop)
    assert (refused.exit_code, str(refused.exception).split(",")[0]) == (1, "--out must be a folder that is new")
    assert run("recommend", shop, "--history", "", "--k", 3).exit_code == 0
    assert run(*command, "--out", tmp_path / "model").exit_code == 0  # an older model is replaced


def test_what_an_interrupted_save_leaves_is_no_obstacle(tables: Path, tmp_path: Path) -> None:
    (tmp_path / "model" / ".setwise-drafts").mkdir(parents=True)
    (tmp_path / "model" / ".setwise-lock").touch()
    result = run("train", tables / "wide.csv", *WIDE, "--epochs", 2, "--out", tmp_path / "model")
    assert result.exit_code == 0, result.output or result.exception
    assert SlateModel.load(tmp_path / "model").catalog().n_items == 15
