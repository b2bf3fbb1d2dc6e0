"""``setwise train FILE`` without a kind: which one it takes, what it says of it, and what it asks."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from saved_songs import run, said
from setwise.storage.slate_log import ShownSlate, SlateLog, new_id

STOP = ("--device", "tpu")  # refused once the data are read


def table(folder: Path, header: str, *rows: str, name: str = "data.csv") -> Path:
    (folder / name).write_text("\n".join([header, *rows]) + "\n")
    return folder / name


def sessions(folder: Path, header: str) -> Path:
    return table(folder, header, *(f"{n},{item},x" for n in range(60) for item in "abc"))


def slates(folder: Path, header: str) -> Path:
    return table(folder, header, *(f"{n},{item},{int(item == 'a')}" for n in range(60) for item in "abc"))


def notes(*arguments: object) -> list[str]:
    """What is said on standard error before the training."""
    result = run("train", *arguments, *STOP)
    assert "device must be cpu, cuda" in str(result.exception), result.exception
    assert result.stdout == ""
    return result.stderr.splitlines()


def test_sessions_by_their_columns(tmp_path: Path) -> None:
    file = sessions(tmp_path, "order,SKU,name")
    assert notes(file, "--k=3", "--out", tmp_path / "m") == [
        f"{file}: sessions, as it has no slates with outcomes (setwise train sessions).",
        "Columns of data.csv: found by their names: session 'order', item 'SKU'.",
    ]
    assert notes("--k=3", "--item", "SKU", "--out", tmp_path / "m", file, "--json")[1:] == [
        "Columns of data.csv: item 'SKU'; found by their names: session 'order'."
    ]


def test_slates_by_their_columns_need_no_session(tmp_path: Path) -> None:
    """The slate is the session then; a column of users is used where there is one."""
    file = slates(tmp_path, "request,asin,purchased")
    assert notes(file, "--k=3", "--out", tmp_path / "m") == [
        f"{file}: slates, as it has slates 'request' with outcomes 'purchased' (setwise train slates).",
        "Columns of data.csv: found by their names: session 'request', item 'asin', slate 'request', "
        "outcome 'purchased'.",
    ]
    rows = [f"u{n % 5},{n},{item},{int(item == 'a')}" for n in range(60) for item in "abc"]
    file = table(tmp_path, "visitor,list_id,article,reward", *rows)
    assert "session 'visitor', item 'article', slate 'list_id'" in notes("slates", file, "--out", tmp_path / "m")[0]


def test_the_slate_alone_names_slates(tmp_path: Path) -> None:
    file = slates(tmp_path, "page,item,clicked")
    first, second = notes(file, "--k=3", "--slate", "page", "--out", tmp_path / "m")
    assert first == f"{file}: slates, as --slate is given (setwise train slates)."
    assert second == (
        "Columns of data.csv: slate 'page'; found by their names: session 'page', item 'item', outcome 'clicked'."
    )


def test_a_kind_that_is_named_overrides_the_columns(tmp_path: Path) -> None:
    rows = [f"u{n},{n},{item},1" for n in range(60) for item in "abc"]
    file = table(tmp_path, "user,slate,item,outcome", *rows)
    columns, unread = notes("sessions", file, "--k=3", "--out", tmp_path / "m")
    assert columns == "Columns of data.csv: found by their names: session 'user', item 'item'."
    assert unread.startswith("Column 'outcome' is not read: every row counts as an item that was chosen.")


@pytest.mark.parametrize(
    ("header", "outcome", "asked"),
    [
        ("user,item,clicked", "01", "FILE must be of a kind that its columns or options say"),
        ("user,item,clicked", "1", None),  # a log of clicks alone
        ("user,item,label", "xy", None),  # a name of the item
        ("bundle,item,outcome", "01", "--set bundle if a 'bundle' has one outcome"),
    ],
)
def test_outcomes_without_slates_are_ambiguous(tmp_path: Path, header: str, outcome: str, asked: str | None) -> None:
    rows = [f"{n},{item},{outcome[n % len(outcome)]}" for n in range(60) for item in "abc"]
    file = table(tmp_path, header, *rows)
    if asked is None:
        assert "sessions, as it has no slates" in notes(file, "--out", tmp_path / "m")[0]
        return
    result = run("train", file, "--session", header.split(",")[0], "--out", tmp_path / "m")
    assert asked in str(result.exception)
    assert "name the column of what was shown together with --slate" in str(result.exception)
    assert "or use setwise train sessions, for which every row is a choice" in str(result.exception)


def test_the_folder_of_a_log(tmp_path: Path) -> None:
    log = SlateLog(tmp_path / "log")
    made = time.time() - 90_000
    log.write([[ShownSlate(new_id(made), "u", "v", json.dumps(["a"]), [0.5], 1.0, False)], []])
    log.close()
    for named in ((tmp_path / "log",), ("--from-log", tmp_path / "log"), (f"--from-log={tmp_path / 'log'}",)):
        result = run("train", *named, "--wait", 9999, "--out", tmp_path / "m")
        assert "lower --wait" in str(result.exception)
        assert "log: log, as " in said(result)


def test_options_of_another_kind(tmp_path: Path) -> None:
    file = slates(tmp_path, "slate,item,outcome")
    result = run("train", file, "--minutes", 1, "--out", tmp_path / "m")
    assert str(result.exception) == (
        "--minutes must be left out for slates (it has slates 'slate' with outcomes 'outcome'), got 1; "
        "leave it out, or use setwise train sessions."
    )
