"""``setwise verify`` through its command line."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from mistakes import refused
from setwise import _progress, cli
from setwise.verification.slate_file import read_slate, write_slate
from worlds import random_catalog


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with a catalogue and an optimal slate of two items that claims to be proven."""
    catalog, user = random_catalog(0)
    catalog.save(tmp_path / "catalog")
    ranking = sw.rank(sw.Instance.from_catalog(catalog, user, np.arange(12)), 2, "exhaustive")
    write_slate(
        tmp_path / "slate.json",
        {
            "catalog": catalog.digest,
            "query": {
                "user": {"heads": user.heads, "base": None},
                "scores": None,
                "scores_floor": None,
                "k": 2,
                "exclude": [],
                "include": [],
                "where": {},
                "at_most": {},
                "at_least": {},
                "exactly": {},
                "budget_ms": None,
                "ranker": "exhaustive",
                "certify": True,
            },
            "indices": ranking.indices,
            "positions": None,
            "items": catalog.ids[ranking.indices],
            "value": ranking.value,
            "rewards": sw.item_rewards(catalog, user, ranking.indices),
            "upper_bound": ranking.value,
            "proven": True,
        },
    )
    return tmp_path


def change(path: Path, **parts) -> None:
    content = read_slate(path)
    del content["digest"]
    write_slate(path, content | parts)


def run(folder: Path, *arguments: str):
    return CliRunner().invoke(
        cli.app, ["verify", str(folder / "slate.json"), "--catalog", str(folder / "catalog"), *arguments]
    )


def test_a_valid_slate(saved: Path) -> None:
    result = run(saved)
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "The slate is valid" in said
    for check in ("catalogue", "feasible", "value", "bound"):
        assert check in said


def test_json(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "QUIET", 0.0)
    result = run(saved, "--json")
    assert result.stderr.startswith("proving the upper bound again, with at most 20,000 nodes: 0%\n")
    report = json.loads(result.stdout)
    assert report["ok"] is True
    assert report["value"] == pytest.approx(report["upper_bound"])
    assert all(check["ok"] for check in report["checks"])
    change(saved / "slate.json", upper_bound=math.inf, proven=False)
    assert json.loads(run(saved, "--json").output)["upper_bound"] is None


def test_a_wrong_value(saved: Path) -> None:
    change(saved / "slate.json", value=5.0)
    result = run(saved)
    assert result.exit_code == 1
    assert "The slate is not valid" in result.output
    report = run(saved, "--json")
    assert report.exit_code == 1
    assert [check["name"] for check in json.loads(report.output)["checks"] if not check["ok"]] == ["value"]


def test_too_few_nodes(saved: Path) -> None:
    assert run(saved, "--nodes", "1").exit_code == 1
    assert run(saved, "--nodes", "0").exit_code == 2


def test_an_index_folder(saved: Path) -> None:
    sw.Index.build(sw.Catalog.load(saved / "catalog"), cells=2, progress=False).save(saved / "index")
    result = CliRunner().invoke(cli.app, ["verify", str(saved / "slate.json"), "--catalog", str(saved / "index")])
    assert result.exit_code == 0, result.output


def test_files_that_cannot_be_read(saved: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    slate, catalog = saved / "slate.json", saved / "catalog"
    for words in ((saved / "none", "--catalog", catalog), (slate, "--catalog", saved / "none")):
        refused(monkeypatch, capsys, shlex.join(map(str, ("verify", *words))))
    slate.write_bytes(slate.read_bytes()[:-9])
    assert "not JSON, or cut short" in refused(monkeypatch, capsys, f"verify {slate} --catalog {catalog}")


def test_a_misspelt_slate_file(saved: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    sentence = refused(monkeypatch, capsys, f"verify {saved / 'slat.json'} --catalog {saved / 'catalog'}")
    assert "SLATE must be a file, got" in sentence
    assert "did you mean 'slate.json'?" in sentence
    sentence = refused(monkeypatch, capsys, f"verify {saved / 'catalog'} --catalog {saved / 'catalog'}")
    assert "SLATE must be a file, got the folder" in sentence


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(cli.app, ["verify", "--help"])
    assert "Example" in result.output
    assert "verify" in CliRunner().invoke(cli.app, ["--help"]).output
