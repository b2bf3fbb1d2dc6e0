"""``setwise rerank`` through its command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from mistakes import refused
from saved_songs import run

COLUMNS = {
    "id": ["1", "2", "3", "4", "5"],
    "score": [0.9, 0.8, 0.7, None, 0.5],
    "brand": ["a", "a", "b", "b", "c"],
    "stock": [1, 1, 0, 3, 2],
    "is_new": [False, True, False, False, True],
    "vector": [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], None, None],
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rows = list(zip(*COLUMNS.values(), strict=True))
    for name, separator in (("list.csv", ","), ("list.tsv", "\t")):
        quote = '"' if separator == "," else ""
        lines = [separator.join(COLUMNS)]
        for row in rows:
            texts = ["" if cell is None else f"{quote}{cell}{quote}" for cell in row]
            lines.append(separator.join(texts))
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    records = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    (tmp_path / "list.jsonl").write_text("\n".join(map(json.dumps, records)))
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(COLUMNS), tmp_path / "list.parquet")
    return tmp_path


def asked(*arguments: object) -> dict:
    result = run("rerank", *arguments, "--json")
    assert result.exit_code == 0, result.output or result.exception
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["list.csv", "list.tsv", "list.jsonl", "list.parquet"])
def test_a_file_of_candidates(files: Path, name: str) -> None:
    answer = asked(
        files / name, "--k", 3, "--at-most", "brand=1", "--where", "stock=1..", "--certify", "--exclude", "77"
    )
    order = sw.rerank(COLUMNS, 3, at_most={"brand": 1}, where={"stock": (1, None)}, warn_above=9)
    assert [item["id"] for item in answer["items"]] == order.tolist() == ["1", "5"]
    assert answer["value"] == pytest.approx(order.value)
    assert answer["upper_bound"] == pytest.approx(order.upper_bound)
    assert answer["notes"] == {"unscored": ["4"], "without_vector": ["5"], "unknown": ["77"]}


def test_options(files: Path) -> None:
    for options, arguments in (
        (["--at-least", "is_new=true:1", "--k", 2], {"at_least": {"is_new": {True: 1}}, "k": 2}),
        (["--include", "3", "--k", 2], {"include": ["3"], "k": 2}),
        (["--by", "brand", "--diversity", 0.9, "--k", 3], {"by": ["brand"], "diversity": 0.9, "k": 3}),
        (["--strategy", "mmr", "--diversity", 0.9, "--k", 3], {"strategy": "mmr", "diversity": 0.9, "k": 3}),
    ):
        answer = asked(files / "list.csv", *options)
        assert [item["id"] for item in answer["items"]] == sw.rerank(COLUMNS, warn_above=9, **arguments).tolist()


def test_a_table_to_read(files: Path) -> None:
    shown = run("rerank", files / "list.csv", "--k", 2, "--certify")
    assert shown.exit_code == 0
    for text in ("The best set", "proven optimal", "unscored: 4", "without vector: 5"):
        assert text in shown.stdout


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_many_lists(files: Path, name: str) -> None:
    answer = asked(files / "list.csv", "--lists", "brand", "--k", 1, "--save", files / name)
    assert [(row["brand"], row["id"], row["rank"]) for row in answer["rows"]] == [
        ("a", "1", 1),
        ("b", "3", 1),
        ("c", "5", 1),
    ]
    assert answer["notes"] == {"b": {"unscored": ["4"]}, "c": {"without_vector": ["5"]}}
    if name.endswith(".jsonl"):
        assert [json.loads(line)["id"] for line in (files / name).read_text().split("\n") if line] == ["1", "3", "5"]
    elif name.endswith(".csv"):
        assert (files / name).read_text().startswith("brand,id,rank,score,reward,row")
    else:
        saved = pytest.importorskip("pyarrow.parquet").read_table(files / name)
        np.testing.assert_array_equal(saved["id"].to_pylist(), ["1", "3", "5"])


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["list.csv", "--at-most", "brnd=1"], ("--at-most", "'brnd'", "did you mean 'brand'?")),
        (["list.csv", "--where", "brnd=a"], ("--where", "'brnd'")),
        (["list.csv", "--include", "77"], ("--include", "'77'")),
        (["list.csv", "--by", "brnd"], ("--by", "'brnd'")),
        (["list.csv", "--strategy", "mrm"], ("--strategy", "setwise, mmr, dpp")),
        (["list.csv", "--lists", "user"], ("one of the columns",)),
        (["list.csv", "--save", "out.xls"], ("--save", ".csv, .jsonl or .parquet")),
        (["list.txt"], ("FILE", ".csv")),
        (["none.csv"], ("FILE", "check the path")),
        (["odd.csv"], ("odd.csv", "line 3", "expected 2 cells, found 1")),
        (["odd.jsonl"], ("odd.jsonl", "line 1")),
    ],
)
def test_mistakes(monkeypatch, capsys, files: Path, options, parts) -> None:
    (files / "odd.csv").write_text("id,score\na,1\nb\n")
    (files / "odd.jsonl").write_text("[1, 2]\n")
    paths = [str(files / option) if "." in option else option for option in options]
    sentence = refused(monkeypatch, capsys, f"rerank {' '.join(paths)}")
    for part in parts:
        assert part in sentence
