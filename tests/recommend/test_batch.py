"""Slates of a table of users: one row a user, equal to ``recommend``, whatever the form of the table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

import setwise as sw
from saved_songs import model, run
from setwise.errors import InvalidInput
from setwise.recommend.batch.run import recommend_table
from setwise.recommend.batch.users import Columns
from worlds import random_catalog

K = 3
HISTORIES = Columns(history="history")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch") / "shop"
    sw.Recommender.from_model(model()).save(folder)
    return folder


def users(count: int = 23) -> list[dict]:
    rng = np.random.default_rng(3)
    drawn = [[f"s{i}" for i in rng.choice(60, int(rng.integers(0, 6)), replace=False)] for _ in range(count)]
    return [{"user": f"u{number}", "history": history} for number, history in enumerate(drawn)]


def parquet(path: Path, rows: list[dict]) -> Path:
    pa.parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=5)
    return path


def written(path: Path) -> list[dict]:
    return pa.parquet.read_table(path).to_pylist()


def test_rows_are_the_slates_of_the_users(shop: Path, tmp_path: Path) -> None:
    rows, out = users(), tmp_path / "slates.parquet"
    report = recommend_table(
        parquet(tmp_path / "users.parquet", rows), shop, out, HISTORIES, processes=1, part_rows=4, k=K
    )
    assert (report.users, report.computed, report.resumed, report.errors) == (23, 23, 0, 0)
    recommender = sw.Recommender.load(shop)
    found = written(out)
    assert [row["user"] for row in found] == [row["user"] for row in rows]
    for asked, row in zip(rows, found, strict=True):
        slate = recommender.recommend(history=asked["history"], k=K, certify=False)
        assert row["items"] == slate.items.tolist()
        assert row["rewards"] == slate.rewards.tolist()
        assert row["value"] == slate.value
        assert (row["upper_bound"], row["error"]) == (None, None)
    assert not out.with_name("slates.parquet.parts").exists()


@pytest.mark.nightly
def test_processes_give_the_same_bytes_as_one(shop: Path, tmp_path: Path) -> None:
    table = parquet(tmp_path / "users.parquet", users())
    for processes in (1, 2):
        recommend_table(table, shop, tmp_path / f"{processes}.parquet", HISTORIES, processes=processes, part_rows=5)
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "2.parquet").read_bytes()


def test_files_of_others_in_the_folder_of_parts_stay(shop: Path, tmp_path: Path) -> None:
    folder = tmp_path / "slates.parquet.parts"
    folder.mkdir()
    (folder / "mine.csv").write_text("kept")
    out = tmp_path / "slates.parquet"
    recommend_table(parquet(tmp_path / "users.parquet", users()), shop, out, HISTORIES, processes=1, part_rows=5)
    assert len(written(out)) == 23
    assert [path.name for path in folder.iterdir()] == ["mine.csv"]


def test_a_finished_run_is_not_repeated(shop: Path, tmp_path: Path) -> None:
    table, out = parquet(tmp_path / "users.parquet", users()), tmp_path / "slates.parquet"
    recommend_table(table, shop, out, HISTORIES, processes=1)
    before = out.stat().st_mtime_ns
    again = recommend_table(table, shop, out, HISTORIES, processes=1)
    assert (again.computed, again.resumed, out.stat().st_mtime_ns) == (0, 23, before)
    with pytest.raises(InvalidInput, match="out must be a new file, or that of the same run"):
        recommend_table(table, shop, out, HISTORIES, processes=1, k=4)


def test_parts_of_another_run_are_refused(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "slates.parquet"
    folder = tmp_path / "slates.parquet.parts"
    folder.mkdir()
    (folder / "job.json").write_text("{}")
    with pytest.raises(InvalidInput, match="of another table, model or options; run that again to finish it"):
        recommend_table(parquet(tmp_path / "users.parquet", users()), shop, out, HISTORIES, processes=1)


@pytest.mark.nightly
def test_damaged_and_missing_parts_are_computed_again(shop: Path, tmp_path: Path) -> None:
    table, whole = parquet(tmp_path / "users.parquet", users()), tmp_path / "whole.parquet"
    recommend_table(table, shop, whole, HISTORIES, processes=1, part_rows=5)
    out = tmp_path / "slates.parquet"
    real, kept = pa.parquet.write_table, []

    def stop_after_three(data, path, **options):
        kept.append(path)
        if len(kept) > 3:
            raise KeyboardInterrupt
        real(data, path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pa.parquet, "write_table", stop_after_three)
        with pytest.raises(KeyboardInterrupt):
            recommend_table(table, shop, out, HISTORIES, processes=1, part_rows=5)
    parts = sorted((tmp_path / "slates.parquet.parts").glob("part-*.parquet"))
    assert len(parts) == 3
    parts[1].write_bytes(parts[1].read_bytes()[:-20])
    report = recommend_table(table, shop, out, HISTORIES, processes=1, part_rows=5)
    assert (report.computed, report.resumed) == (13, 10)
    assert out.read_bytes() == whole.read_bytes()


def test_histories_filters_and_exclusions_from_columns(shop: Path, tmp_path: Path) -> None:
    lines = [
        "id;seen;never;who;cost",
        "1;s1 s2;;artist 3;",
        "2;;s5 s6;;10..30",
        "3;s9;;;",
        "4;s1;;no such artist;",
        "5;s1;;;thirty",
    ]
    (tmp_path / "users.csv").write_text("\n".join(lines) + "\n")
    named = Columns("id", "seen", exclude="never", where={"artist": "who", "price": "cost"}, separator=" ")
    out = tmp_path / "slates.parquet"
    report = recommend_table(tmp_path / "users.csv", shop, out, named, processes=1, k=K)
    recommender = sw.Recommender.load(shop, certify=False)
    asked = [
        {"history": ["s1", "s2"], "where": {"artist": "artist 3"}},
        {"history": [], "exclude": ["s5", "s6"], "where": {"price": (10, 30)}},
        {"history": ["s9"]},
    ]
    found = written(out)
    assert [row["user"] for row in found] == ["1", "2", "3", "4", "5"]
    for arguments, row in zip(asked, found[:3], strict=True):
        assert row["items"] == recommender.recommend(k=K, **arguments).items.tolist()
    assert [row["items"] for row in found[3:]] == [[], []]
    assert "no such artist" in found[3]["error"]
    assert "'thirty'" in found[4]["error"]
    assert (report.errors, report.first_error) == (2, found[3]["error"])


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_ids_of_histories_that_the_model_does_not_have_are_reported(shop: Path, tmp_path: Path, processes: int) -> None:
    rows = ['{"user": 1, "history": ["s1"]}', '{"user": 2, "history": ["gone", "s2", "\\ud800"]}', '{"user": 3}']
    (tmp_path / "users.jsonl").write_text("\n".join([*rows, '{"user": 4, "history": "[\'s1\', \'s2\']"}']))
    out = tmp_path / "slates.parquet"
    arguments = tmp_path / "users.jsonl", shop, out, HISTORIES
    report = recommend_table(*arguments, processes=processes, part_rows=2, k=K)
    assert [row["ignored"] for row in written(out)] == [[], ["gone", "?"], [], ["['s1'", "'s2']"]]
    assert (report.errors, report.ignoring, report.first_ignored) == (0, 2, "gone")
    again = recommend_table(*arguments, processes=processes, part_rows=2, k=K)
    assert (again.resumed, again.ignoring, again.first_ignored) == (4, 2, "gone")
    command = ["batch", tmp_path / "users.jsonl", "--model", shop, "--out", tmp_path / "more.parquet", "--processes", 1]
    assert "2 users have ids that the model does not have" in run(*command).stdout


def test_users_by_vectors_and_whole_numbers_as_ids(tmp_path: Path) -> None:
    catalog, _ = random_catalog(5, n=40, heads=2, base=True)
    recommender = sw.Recommender(sw.Index.build(catalog), certify=True)
    recommender.save(tmp_path / "shop")
    vectors = np.random.default_rng(0).normal(size=(6, 2 * 3 + 2))
    lines = [json.dumps({"user": 10 + i, "vector": row.tolist()}) for i, row in enumerate(vectors)]
    (tmp_path / "users.jsonl").write_text("\n".join(lines))
    out = tmp_path / "slates.parquet"
    recommend_table(
        tmp_path / "users.jsonl", tmp_path / "shop", out, Columns(vector="vector"), processes=1, certify=True
    )
    for number, row in enumerate(written(out)):
        user = sw.User(vectors[number, :6].reshape(2, 3), vectors[number, 6:])
        assert row["user"] == 10 + number
        assert row["value"] == sw.set_value(catalog, user, catalog.rows_of(row["items"]))
        assert row["upper_bound"] >= row["value"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"user": "a", "history": []}, {"user": "a", "history": []}], "one user in rows 1 and 2; keep one row a user"),
        ([{"user": None, "history": []}], "None in line 1; give every user an id"),
        ([{"user": 1.5, "history": []}], "1.5 in line 1"),
        ([{"user": "a\ud800", "history": []}], r"valid Unicode in every row, one kind in all, got .a.ud800. in line 1"),
        ([], "users.jsonl"),
    ],
)
def test_tables_without_one_row_a_user_are_refused(shop: Path, tmp_path: Path, rows: list, message: str) -> None:
    table = tmp_path / "users.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InvalidInput, match=message):
        recommend_table(table, shop, tmp_path / "out.parquet", HISTORIES, processes=1)
    assert not (tmp_path / "out.parquet.parts").exists()


def test_options_that_no_user_can_have_are_refused_at_once(shop: Path, tmp_path: Path) -> None:
    table, out = parquet(tmp_path / "users.parquet", users(2)), tmp_path / "out.parquet"
    with pytest.raises(InvalidInput, match="ranker"):
        recommend_table(table, shop, out, HISTORIES, ranker="best")
    with pytest.raises(InvalidInput, match="features must be left out"):
        recommend_table(table, shop, out, Columns(features=("user",)))
    with pytest.raises(
        InvalidInput, match="where must be about attributes without a column of conditions, got 'price'"
    ):
        recommend_table(table, shop, out, Columns(history="history", where={"price": "user"}), where={"price": (5, 40)})
    with pytest.raises(InvalidInput, match=r"let it end in \.parquet"):
        recommend_table(table, shop, tmp_path / "out.csv", HISTORIES)
    with pytest.raises(InvalidInput, match="exactly one of history, vector, features, got history and vector"):
        Columns(history="history", vector="v")


def test_exactly_counts_the_values_that_a_row_leaves(shop: Path, tmp_path: Path) -> None:
    rows = [{"user": number, "history": [], "year": years} for number, years in enumerate([[1990, 1992], [1990], []])]
    table, out = tmp_path / "users.jsonl", tmp_path / "slates.parquet"
    table.write_text("\n".join(map(json.dumps, rows)))
    columns = Columns(history="history", where={"year": "year"})
    recommend_table(table, shop, out, columns, processes=1, k=2, exactly={"year": 1})  # of five years in all
    recommender = sw.Recommender.load(shop)
    for row, found in zip(rows[:2], written(out), strict=False):
        slate = recommender.recommend(history=[], k=2, where={"year": row["year"]}, exactly={"year": 1})
        assert found["items"] == slate.items.tolist()
    assert written(out)[2]["error"]


def test_two_conditions_of_one_attribute_are_refused(shop: Path, tmp_path: Path) -> None:
    table = parquet(tmp_path / "users.parquet", [{"user": 1, "history": [], "low": "5..", "high": "..40"}])
    wanted = ("batch", table, "--model", shop, "--out", tmp_path / "out.parquet", "--where-column", "price=high")
    refused = {"--where": "about attributes without a column", "--where-column": "given once for each name"}
    for option, message in refused.items():
        result = run(*wanted, option, "price=low" if option == "--where-column" else "price=5..")
        assert isinstance(result.exception, InvalidInput)
        assert message in str(result.exception)
    assert not list(tmp_path.glob("out.parquet*"))


def test_a_range_is_not_a_list_of_its_ends(shop: Path, tmp_path: Path) -> None:
    rows = [{"user": number, "history": [], "price": price} for number, price in enumerate(["5..40", [5.0, 40.0]])]
    table, out = tmp_path / "users.jsonl", tmp_path / "by_column.parquet"
    table.write_text("\n".join(map(json.dumps, rows)))
    recommend_table(table, shop, out, Columns(history="history", where={"price": "price"}), processes=1, k=K)
    recommender = sw.Recommender.load(shop)
    conditions = ((5, 40), [5, 40])
    expected = [recommender.recommend(history=[], k=K, where={"price": one}).items.tolist() for one in conditions]
    assert expected[0] != expected[1]
    assert [row["items"] for row in written(out)] == expected
    wanted = ("batch", table, "--model", shop, "--out", tmp_path / "slates.parquet", "--processes", 1)
    assert run(*wanted, "--where", "price=5..40").exit_code == 0
    other = run(*wanted, "--where", "price=5", "--where", "price=40")
    assert "that of the same run" in str(other.exception)


def test_the_command_and_what_reads_its_output(shop: Path, tmp_path: Path) -> None:
    table, out = parquet(tmp_path / "users.parquet", users()), tmp_path / "slates.parquet"
    result = run("batch", table, "--model", shop, "--out", out, "--processes", 1, "--k", K, "--at-most", "artist=1",
                 "--where", "price=5..40")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert " ".join(result.stdout.split()).startswith(f"23 users in {out}. 23 in ")  # progress is on standard error
    again = run("batch", table, "--model", shop, "--out", out, "--processes", 1, "--k", K, "--at-most", "artist=1",
                "--where", "price=5..40", "--json")  # fmt: skip
    assert json.loads(again.stdout)["resumed"] == 23
    rows = written(out)
    assert polars.read_parquet(out)["items"].to_list() == [row["items"] for row in rows]
