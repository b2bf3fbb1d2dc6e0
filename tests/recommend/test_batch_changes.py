"""A table that changes while its slates are computed: refused, and no part of the other table is used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

import setwise as sw
from saved_songs import model
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.recommend.batch import run
from setwise.recommend.batch.parts import Parts
from setwise.recommend.batch.run import Report, recommend_table
from setwise.recommend.batch.users import Columns
from setwise.storage import artifact

ROWS = [f"u{number:02d},s{number} s{number + 7}" for number in range(12)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch") / "shop"
    sw.Recommender.from_model(model()).save(folder)
    return folder


def table(folder: Path, rows: list[str]) -> Path:
    path = folder / "users.csv"
    path.write_text("\n".join(["user,history", *rows, ""]))
    return path


def slates(path: Path, shop: Path, out: Path) -> Report:
    columns = Columns(history="history", separator=" ")
    return recommend_table(path, shop, out, columns, processes=1, part_rows=4, progress=False, k=3)


def after_part(number: int, change: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Call ``change`` when part ``number`` has been written."""
    write = Parts.write

    def changing(self: Parts, at: int, cells: object) -> int:
        count = write(self, at, cells)
        if at == number:
            change()
        return count

    patch.setattr(Parts, "write", changing)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_model_that_is_replaced_while_the_table_is_checked(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """One process has opened it before, two open it afterwards. The output named the new one, and had the slates of the old."""
    served, out = tmp_path / "shop", tmp_path / "slates.parquet"
    sw.Recommender.from_model(model()).save(served)
    before, checked = artifact.digest(served), run._checked_users

    def checked_and_replaced(*arguments):
        found = checked(*arguments)
        sw.Recommender.from_model(model(seed=1)).save(served)
        return found

    monkeypatch.setattr(run, "_checked_users", checked_and_replaced)
    path, columns = table(tmp_path, ROWS), Columns(history="history", separator=" ")
    options = {"processes": processes, "part_rows": 4, "progress": False, "k": 3}
    if processes == 2:
        with pytest.raises(DamagedArtifact, match="it was replaced during the run; run the same command again"):
            recommend_table(path, served, out, columns, **options)
        return
    recommend_table(path, served, out, columns, **options)
    assert json.loads(pyarrow.parquet.read_schema(out).metadata[b"setwise.batch"])["model"] == before
    recommend_table(path, shop, tmp_path / "former.parquet", columns, **options)
    found, former = (pyarrow.parquet.read_table(one)["items"] for one in (out, tmp_path / "former.parquet"))
    assert found == former


def grown(path: Path) -> None:
    with path.open("a") as file:
        file.write("u01,s1 s2\n")  # a user that is there already


def rewritten_unseen(path: Path) -> None:
    """Other bytes, but the same file, size and time."""
    times = path.stat()
    path.write_text(path.read_text().replace("u0", "w0"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("change", [grown, rewritten_unseen, Path.unlink], ids=["grown", "rewritten", "deleted"])
@pytest.mark.parametrize("number", [0, 2])
def test_a_table_that_changes_during_the_run_is_refused(
    change: Callable[[Path], None], number: int, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = table(tmp_path, ROWS), tmp_path / "slates.parquet"
    after_part(number, lambda: change(path), monkeypatch)
    with pytest.raises(InvalidInput, match=r"table must be one that stays as it is during the run, got users\.csv"):
        slates(path, shop, out)
    assert not out.exists()


def test_a_new_time_of_the_same_bytes_is_no_change(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = table(tmp_path, ROWS), tmp_path / "slates.parquet"
    after_part(0, lambda: os.utime(path, (1, 1)), monkeypatch)
    assert slates(path, shop, out).users == len(ROWS)


def test_a_part_of_other_rows_is_computed_again(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out, other = table(tmp_path, ROWS), tmp_path / "slates.parquet", tmp_path / "other.parquet"
    slates(path, shop, out)
    right = out.read_bytes()
    out.unlink()
    table(tmp_path, [row.replace("u", "w") for row in ROWS])
    with monkeypatch.context() as patch:
        patch.setattr(Parts, "remove", lambda self: None)
        slates(path, shop, other)
    table(tmp_path, ROWS)
    with monkeypatch.context() as patch:
        after_part(0, lambda: pytest.fail("ended"), patch)
        with pytest.raises(BaseException, match="ended"):
            slates(path, shop, out)
    for part in other.with_name("other.parquet.parts").glob("part-*"):
        part.rename(out.with_name("slates.parquet.parts") / part.name)
    report = slates(path, shop, out)
    assert (report.resumed, out.read_bytes()) == (0, right)
    assert pyarrow.parquet.read_table(out)["user"].to_pylist() == [row[:3] for row in ROWS]
