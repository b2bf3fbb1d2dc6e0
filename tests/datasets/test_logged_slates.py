"""The log of a service as slates: histories by key, outcomes, ids."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest

from setwise.datasets.logged_slates import read_histories, read_log
from setwise.errors import InvalidInput, MalformedFile
from setwise.storage.slate_log import ItemOutcome, ShownSlate, SlateLog, new_id

NOW = time.time()


def shown(seconds_ago: float, key: str | None, *items: object) -> ShownSlate:
    return ShownSlate(new_id(NOW - seconds_ago), key, "v", json.dumps(items), [0.5] * len(items))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two slates of one user, one of another, one of nobody; the second is shown hours after the outcomes."""
    slates = [shown(50, "u", "a", "b"), shown(-20_000, "u", "c", 7), shown(40, "v", "a", 7), shown(30, None, "b", "c")]
    one = SlateLog(tmp_path)
    one.write([slates, [ItemOutcome(slates[0].id, "b"), ItemOutcome(slates[0].id, "a", 0.0)]])
    one.write([[ItemOutcome(slates[1].id, 7, 0.5), ItemOutcome(slates[3].id, "c")]])
    one.close()
    return tmp_path


def test_histories_are_earlier_hits_of_the_key(log: Path) -> None:
    data = read_log(log)
    names = [[data.ids[row] for row in rows] for rows in data.shown]
    assert names == [["a", "b"], ["a", 7], ["b", "c"], ["c", 7]], "oldest first"
    assert [[data.ids[row] for row in rows] for rows in data.history] == [[], [], [], ["b"]]
    assert data.outcome.tolist() == [0, 1, 0, 0, 0, 1, 0, 0.5]


def test_histories_of_the_caller_and_ids_of_a_catalogue(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "histories.jsonl"
    file.write_text('{"key": "u", "history": ["x", "c"]}\n\n{"key": "v", "history": []}\n')
    data = read_log(log, histories=read_histories(file), ids=["c", 7, "a"], attributes={"title": ["C", "7", "A"]})
    assert [data.shown[at].tolist() for at in range(len(data))] == [[2, 1], [0, 1]], "slates with b are left out"
    assert [data.history[at].tolist() for at in range(len(data))] == [[], [0]]
    assert data.attributes["title"] == ["C", "7", "A"]


def test_nobody_has_no_history(tmp_path: Path) -> None:
    """Not that of the key that is empty."""
    slates = [shown(50, "", "a", "b"), shown(40, None, "a", "b"), shown(30, "", "a", "b")]
    one = SlateLog(tmp_path)
    one.write([slates, [ItemOutcome(slates[0].id, "b")]])
    one.close()
    of_hits, given = read_log(tmp_path), read_log(tmp_path, histories={"": ["a"]})
    assert [of_hits.history[at].tolist() for at in range(3)][1] == []
    assert [given.history[at].tolist() for at in range(3)] == [[0], [], [0]]


def test_slates_that_are_too_young_or_unknown(log: Path) -> None:
    assert len(read_log(log, before=NOW)) == 3
    with pytest.raises(InvalidInput, match="lower --wait"):
        read_log(log, before=NOW - 100)
    with pytest.raises(InvalidInput, match="4 slates, none of them with known items"):
        read_log(log, ids=["z"])


@pytest.mark.parametrize(
    "line",
    [
        *("{", '{"key": 5, "history": []}', '{"key": "u"}', "[]", '{"key": "u", "history": "a"}'),
        *('{"key": "u", "history": [["a"]]}', '{"key": "u", "history": [null]}', '{"key": "u", "history": [true]}'),
    ],
)
def test_malformed_histories(tmp_path: Path, line: str) -> None:
    file = tmp_path / "histories.jsonl"
    file.write_text('{"key": "u", "history": []}\n' + line)
    with pytest.raises(MalformedFile, match="line 2: it must be"):
        read_histories(file)


def test_histories_as_editors_write_them(tmp_path: Path) -> None:
    file = tmp_path / "histories.jsonl"
    file.write_text('{"key": "u", "history": ["a\u2028b", 7]}\r\n', encoding="utf-8-sig")
    assert read_histories(file) == {"u": ["a\u2028b", 7]}
    zipped = tmp_path / "histories.jsonl.gz"
    zipped.write_bytes(gzip.compress(file.read_bytes()))
    assert read_histories(zipped) == {"u": ["a\u2028b", 7]}


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_histories_that_are_no_utf_8(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "histories.jsonl"
    file.write_text('{"key": "u", "history": ["th\u00e9"]}\n', encoding=encoding)
    with pytest.raises(MalformedFile, match=r"line 1: .*(UTF-8|NUL)"):
        read_histories(file)
