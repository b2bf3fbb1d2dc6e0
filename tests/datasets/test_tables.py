"""Tables: CSV files with all their special cases, JSON Lines and Parquet, as sessions and as slates."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.datasets.grouping import LATEST
from setwise.datasets.parquet import _batch_rows, parquet_rows
from setwise.datasets.tables import read_table, table_columns, with_attributes
from setwise.datasets.timestamps import TimestampParser
from setwise.errors import InvalidInput, MalformedFile, MissingDependency


def named(data, lists=None) -> list[list]:
    return [[data.ids[row] for row in one] for one in (data.items if lists is None else lists)]


def table(folder: Path, content: str | bytes, name: str = "some.csv") -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def parquet(path: Path, columns: dict) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet_ = pytest.importorskip("pyarrow.parquet")
    parquet_.write_table(arrow.table(columns), path)
    return path


# --- sessions ------------------------------------------------------------------------------------------------------


def test_rows_of_a_session_in_the_order_of_the_file(tmp_path):
    path = table(tmp_path, "item,session\nb,1\nx,2\na,1\nb,1\n")
    assert named(read_table(path, progress=False)) == [["b", "a", "b"], ["x"]]


def test_byte_order_mark_crlf_quotes_and_blank_lines(tmp_path):
    content = '\ufeff"session","item"\r\n"1","a, ""quoted"""\r\n\r\n"1","two\r\nlines"\r\n'
    for name in ("some.csv", "some.csv.gz"):
        assert named(read_table(table(tmp_path, content, name))) == [['a, "quoted"', "two\r\nlines"]]


def test_ids_stay_text(tmp_path):
    assert read_table(table(tmp_path, "session,item\n1,007\n1,7\n1,8.0\n")).ids == ["007", "7", "8.0"]


def test_tabs_and_other_delimiters(tmp_path):
    assert named(read_table(table(tmp_path, "session\titem\n1\ta,b\n", "some.tsv"))) == [["a,b"]]
    assert named(read_table(table(tmp_path, "session;item\n1;a\n"), delimiter=";")) == [["a"]]
    assert named(read_table(table(tmp_path, "session|item\n1|a\n", "some.dat"), delimiter="|")) == [["a"]]
    for wrong in ("", ";;", "\n", '"', 7):
        with pytest.raises(InvalidInput, match="delimiter must be one character"):
            read_table(tmp_path / "some.csv", delimiter=wrong)
    with pytest.raises(InvalidInput, match=r"path must be that of a table \(.csv, .jsonl, .ndjson, .parquet, .tsv;"):
        read_table(tmp_path / "some.dat")


def test_sessions_identified_by_several_columns(tmp_path):
    path = table(tmp_path, "customer,day,item\n1,mon,a\n1,tue,b\n1,mon,c\n")
    assert named(read_table(path, ("customer", "day"))) == [["a", "c"], ["b"]]


def test_rows_without_session_or_item_are_counted(tmp_path):
    skipped: Counter[str] = Counter()
    path = table(tmp_path, "session,item\n,a\n1,\n1,b\n,c\n")
    assert named(read_table(path, skipped=skipped)) == [["b"]]
    assert skipped == {"rows without a session": 2, "rows without an item": 1}


def test_the_most_frequent_value_of_an_attribute_counts(tmp_path):
    rows = "1,a,damaged,0\n1,b,B,2\n2,a,A,2.5\n3,a,A,2.5\n4,a,?,0\n5,a,,2.5\n5,c,,\n"
    skipped: Counter[str] = Counter()
    result = read_table(
        table(tmp_path, "session,item,title,price\n" + rows), attributes=["title", "price"], skipped=skipped
    )
    assert result.attributes == {"title": ["A", "B", None], "price": [2.5, 2.0, None]}
    differing = "that differ from the most frequent one of their item"
    assert skipped == {f"values of 'title' {differing}": 2, f"values of 'price' {differing}": 2}


def test_the_first_of_equally_frequent_values_of_an_attribute_counts(tmp_path):
    path = table(tmp_path, "session,item,Description,price\n1,a,,\n1,b,B,2\n2,a,A,3\n2,a,other,\n")
    result = read_table(path, attributes={"title": "Description", "price": "price"})
    assert result.attributes == {"title": ["A", "B"], "price": [3, 2]}
    assert set(read_table(path, attributes=["price"]).attributes) == {"price"}


def test_unordered_sessions(tmp_path):
    path = table(tmp_path, "session,item,ordered\n1,a,True\n2,b,false\n1,c,1\n3,d,true\n3,e,0\n")
    assert read_table(path, ordered="ordered").ordered.tolist() == [True, False, False]


def test_an_empty_table_has_no_sessions(tmp_path):
    assert len(read_table(table(tmp_path, "session,item\n"))) == 0
    assert len(read_table(table(tmp_path, "", "some.jsonl"))) == 0


def test_missing_and_repeated_columns(tmp_path):
    path = table(tmp_path, "user,item\n1,a\n")
    with pytest.raises(
        InvalidInput, match=r"session must be a column that some.csv has once, got no 'session' among 'user', 'item'"
    ):
        read_table(path)
    with pytest.raises(InvalidInput, match="got 'item' twice among 'user', 'item', 'item'"):
        read_table(table(tmp_path, "user,item,item\n1,a,b\n"), "user")
    with pytest.raises(InvalidInput, match="got no 'session' among 'item'"):
        read_table(table(tmp_path, lines({"item": 1}), "some.jsonl"))


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"", 1, "must begin with a header, and is empty"),
        (b"session,item\n1,a\n1\n", 3, "there must be 2 cells, as in the header, got 1"),
        (b"session,item\n1,a,b\n", 2, "there must be 2 cells, as in the header, got 3"),
        (b"session,item\n1,a\0b\n", 2, "must not hold NUL bytes"),
        (
            b"session,item\n1,\xc3\xa9\n1,caf\xe9\n",
            3,
            "the text must be UTF-8, got byte 0xe9; convert the file to UTF-8",
        ),
        (
            b"session,item\n1,18\n1,19\n2,18.0\n",
            4,
            "items must be written in one way, got '18' and '18.0'; remove '.0'",
        ),
        (b'session,item\n1,"two\nlines"\n1,"a"b\n', 4, "the row must be cells separated by ','"),
        (b'session,item\n1,a\n1,"open\n1,b\n', 3, "unexpected end of data"),
        (b"session,item\r1,a\r", 1, "lines must end in LF or CRLF"),
        (b"session,item\n1," + b"x" * 200_000 + b"\n", 2, "field larger than field limit"),
    ],
)
def test_malformed_csv(tmp_path, content, line, reason):
    with pytest.raises(MalformedFile) as caught:
        read_table(table(tmp_path, content), progress=False)
    assert str(caught.value).startswith(f"some.csv, line {line}: ")
    assert reason in str(caught.value)


def test_a_truncated_gzip(tmp_path):
    path = table(tmp_path, "session,item\n" + "".join(f"{i * i},{i}\n" for i in range(9999)), "some.csv.gz")
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(MalformedFile, match="is damaged from here on"):
        read_table(path)


# --- times ---------------------------------------------------------------------------------------------------------


def by_time(folder: Path, times: list[str], **options) -> str:
    """The positions of these times after sorting, read from a table of them."""
    rows = "".join(f'1,{place},"{time}"\n' for place, time in enumerate(times))
    return "".join(named(read_table(table(folder, "session,item,time\n" + rows), time="time", **options))[0])


@pytest.mark.parametrize(
    ("times", "order"),
    [
        (["10", "9", "1e2", "-1", "9"], "31402"),
        (["2010-12-01 08:26:00", "2010-12-01", "2009-12-31T23:00:00Z"], "210"),
        (["2010-12-01T10:00:00+02:00", "2010-12-01T09:00:00", "2010-12-01T07:30:00Z"], "201"),
        (["11/2/2000", "11/13/2000", "2/28/2001", "11/2/2000"], "0312"),  # 13 and 28 are days
        (["2/11/2000", "13/11/2000", "28/2/2001", "1/12/2000"], "0132"),  # 13 and 28 are days again
        (["12/25/2000 9:30", "12/25/2000 08:30:59", "12/25/2000"], "210"),
        (["3/3/2000", "2/2/2000"], "10"),  # the same in both orders
    ],
)
def test_kinds_of_time(tmp_path, times, order):
    assert by_time(tmp_path, times) == order


def test_ambiguous_month_and_day(tmp_path):
    with pytest.raises(InvalidInput, match="time_format must be given where month and day look alike, got '3/4/2000'"):
        by_time(tmp_path, ["3/4/2000", "5/1/2000"])
    assert by_time(tmp_path, ["3/4/2000", "5/1/2000"], time_format="%m/%d/%Y") == "01"
    assert by_time(tmp_path, ["3/4/2000", "5/1/2000"], time_format="%d/%m/%Y") == "10"


@pytest.mark.parametrize(
    ("times", "line", "reason"),
    [
        (["yesterday"], 2, "a time must be a number, an ISO date or a date like 11/30/2000, got 'yesterday'; pass time_format"),
        (["1e999"], 2, "a time must be a number"),
        (["1/2/03"], 2, "a time must be a number"),
        (["2000-02-30"], 2, "a time must be a number"),
        (["1/13/2000 25:00"], 2, "a time must be a number"),
        (["2000-01-01", "1/13/2000"], 3, "all times must be of one kind, got '1/13/2000' after others (ISO)"),
        (["1/13/2000", "7"], 3, "all times must be of one kind"),
        (["1/13/2000", "13/1/2000"], 3, "with month and day in the order of the others"),
        (["2/30/2000"], 2, "'2/30/2000' must be a date"),
        (["0/0/0000"], 2, "'0/0/0000' must be a date"),
    ],
)  # fmt: skip
def test_malformed_times(tmp_path, times, line, reason):
    with pytest.raises(MalformedFile) as caught:
        by_time(tmp_path, times)
    assert str(caught.value).startswith(f"some.csv, line {line}: ")
    assert reason in str(caught.value)


def test_times_in_another_format(tmp_path):
    with pytest.raises(MalformedFile, match=r"a time must be like '%d.%m.%Y', got '1/2/2000'"):
        by_time(tmp_path, ["1/2/2000"], time_format="%d.%m.%Y")


@given(st.lists(st.datetimes(), min_size=1, max_size=6), st.sampled_from(["%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S"]))
def test_slashes_sort_like_the_dates_they_mean(moments, format_):
    moments = [moment.replace(microsecond=0, year=max(moment.year, 1000)) for moment in moments]
    parser = TimestampParser(Path("some.csv"))
    numbers = [parser(1, moment.strftime(format_)) for moment in moments]
    days = {moment.day for moment in moments}
    if max(days) > 12:
        assert np.argsort(parser.resolve(numbers), kind="stable").tolist() == np.argsort(np.array(moments), kind="stable").tolist()  # fmt: skip


# --- slates --------------------------------------------------------------------------------------------------------


def test_slates_and_their_histories(tmp_path):
    rows = "u,1,a,0\nu,1,b,1\nv,1,b,0.5\nu,2,c,true\nu,2,a,False\nv,2,d,0\nu,3,a,0\n"
    result = read_table(table(tmp_path, "session,slate,item,clicked\n" + rows), slate="slate", outcome="clicked")
    assert named(result, result.shown) == [["a", "b"], ["b"], ["c", "a"], ["d"], ["a"]]
    assert named(result, result.history) == [[], [], ["b"], ["b"], ["b", "c"]]
    assert result.outcome.tolist() == [0, 1, 0.5, 1, 0, 0, 0]


def test_earlier_slates_by_time(tmp_path):
    rows = "u,1,a,1,30\nu,2,b,1,10\nu,2,c,1,50\nu,3,d,0,20\n"
    result = read_table(table(tmp_path, "session,slate,item,y,t\n" + rows), slate="slate", outcome="y", time="t")
    assert named(result, result.shown) == [["a"], ["b", "c"], ["d"]]
    assert named(result, result.history) == [["b", "c"], [], ["b", "c"]]


def test_repeated_items_of_a_slate_keep_the_largest_outcome(tmp_path):
    skipped: Counter[str] = Counter()
    path = table(tmp_path, "session,slate,item,y\nu,1,a,0\nu,1,b,0\nu,1,a,1\n")
    result = read_table(path, slate="slate", outcome="y", skipped=skipped)
    assert (named(result, result.shown), result.outcome.tolist()) == ([["a", "b"]], [1, 0])
    assert skipped == {"rows that repeat an item of their slate": 1}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 5), st.booleans(), st.integers(0, 4)), max_size=25), st.booleans())  # fmt: skip
def test_slates_against_plain_python(tmp_path_factory, rows, timed):
    body = "".join(f"{s},{p},{i},{int(y)},{t}\n" for s, p, i, y, t in rows)
    path = table(tmp_path_factory.mktemp("t"), "session,slate,item,y,t\n" + body)
    result = read_table(path, slate="slate", outcome="y", time="t" if timed else None, progress=False)
    slates: dict = {}
    for s, p, i, y, t in rows:
        one = slates.setdefault((s, p), {"items": {}, "time": t})
        one["items"][str(i)] = max(one["items"].get(str(i), 0), int(y))
        one["time"] = min(one["time"], t)
    order = sorted(slates, key=lambda key: slates[key]["time"]) if timed else list(slates)
    wanted = []
    for key in slates:
        earlier = [other for other in order[: order.index(key)] if other[0] == key[0]]
        wanted.append([i for other in earlier for i, y in slates[other]["items"].items() if y])
    assert named(result, result.shown) == [list(one["items"]) for one in slates.values()]
    assert named(result, result.history) == wanted
    assert result.outcome.tolist() == [y for one in slates.values() for y in one["items"].values()]


def test_long_histories_keep_the_latest(tmp_path):
    rows = "".join(f"u,{number},{number},1\n" for number in range(LATEST + 5))
    result = read_table(table(tmp_path, "session,slate,item,y\n" + rows), slate="slate", outcome="y")
    assert result.history.lengths.max() == LATEST
    assert named(result, result.history)[-1] == [str(number) for number in range(4, LATEST + 4)]


@pytest.mark.parametrize("cell", ["2", "-1", "yes", "", "nan", "0_1", "1e999"])
def test_outcomes_must_be_from_0_to_1(tmp_path, cell):
    path = table(tmp_path, f"session,slate,item,y\nu,1,a,{cell}\n")
    with pytest.raises(MalformedFile, match="line 2: 'y' must be 0 to 1, or true or false"):
        read_table(path, slate="slate", outcome="y")


def test_slates_need_their_columns(tmp_path):
    path = table(tmp_path, "session,slate,item,y\nu,,a,1\n")
    for options in ({"slate": "slate"}, {"outcome": "y"}):
        with pytest.raises(InvalidInput, match="slate and outcome must be given together"):
            read_table(path, **options)
    with pytest.raises(MalformedFile, match="a slate must have a name or number"):
        read_table(path, slate="slate", outcome="y")


# --- JSON Lines ----------------------------------------------------------------------------------------------------


def test_one_session_per_row(tmp_path):
    path = table(tmp_path, lines({"pid": 5, "ordered": False, "tracks": [3, 1, 3]}, {"pid": 6, "ordered": True, "tracks": []}), "some.jsonl.gz")  # fmt: skip
    result = read_table(path, None, "tracks", ordered="ordered")
    assert named(result) == [[3, 1, 3], []]
    assert result.ordered.tolist() == [False, True]
    assert named(read_table(path, "pid", "tracks")) == [[3, 1, 3], []]


def test_lists_of_one_session_are_concatenated(tmp_path):
    rows = lines({"u": 1, "t": 2, "items": ["b"]}, {"u": 1, "t": 1, "items": ["a", "c"]})
    assert named(read_table(table(tmp_path, rows, "some.jsonl"), "u", "items", time="t")) == [["a", "c", "b"]]


def test_one_item_per_json_line(tmp_path):
    rows = lines({"session": 1, "item": "a", "year": 1999}, {"session": 1, "item": "b"}, {"session": None, "item": "c"})
    skipped: Counter[str] = Counter()
    result = read_table(table(tmp_path, rows + "\n", "some.ndjson"), attributes=["year"], skipped=skipped)
    assert (named(result), result.attributes) == ([["a", "b"]], {"year": [1999, None]})
    assert skipped == {"rows without a session": 1}


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ('{"session": 1, "item": 2}\n{"session": 1,\n', 2, "it must be JSON, but:"),
        ("[1, 2]\n", 1, "the line must be a JSON object, got '[1, 2]'"),
        ("\n7\n", 2, "the line must be a JSON object, got '7'"),
        (lines({"session": 1, "item": 1.5}), 1, "an item must be text or a whole number, got 1.5"),
        (lines({"session": 1, "item": True}), 1, "an item must be text or a whole number, got True"),
        (lines({"session": 1, "item": [1, [2]]}), 1, "an item must be a whole number, like those before it, got [2]"),
        (lines({"session": 1, "item": [None]}), 1, "an item must be text or a whole number, got None"),
        (lines({"session": 1, "item": [1, None]}), 1, "an item must be a whole number, like those before it, got None"),
        (lines({"session": 1, "item": 1}, {"session": 1, "item": "1"}), 2, "an item must be a whole number, like those before it, got '1'"),
        (lines({"session": 1, "item": [1]}, {"session": 1, "item": [True]}), 2, "like those before it, got True"),
        (lines({"session": 1, "item": 2**63}), 1, "an item must be a whole number of 64 bits"),
        (lines({"session": 1, "item": "\ud800"}), 1, "an item must be valid Unicode"),
        (lines({"session": 1, "item": [""]}), 1, "not empty"),
        (lines({"session": [1], "item": 1}), 1, "a session must be text or a number"),
        ("[" * 100_000, 1, "it is nested too deeply"),
        ('{"session": 1, "item": ' + "9" * 5000 + "}", 1, "it must be JSON, but: Exceeds the limit"),
    ],
)  # fmt: skip
def test_malformed_json_lines(tmp_path, content, line, reason):
    with pytest.raises(MalformedFile) as caught:
        read_table(table(tmp_path, content, "some.jsonl"))
    assert str(caught.value).startswith(f"some.jsonl, line {line}: ")
    assert reason in str(caught.value)


def test_lists_have_no_attributes_and_no_slates(tmp_path):
    path = table(tmp_path, lines({"session": 1, "item": [1], "a": 2}), "some.jsonl")
    for options in ({"attributes": ["a"]}, {"slate": "a", "outcome": "a"}):
        with pytest.raises(MalformedFile, match="items must be one per row where there are slates or attributes"):
            read_table(path, **options)
    with pytest.raises(InvalidInput, match="session must be the name of a column, got None, with one item a row"):
        read_table(table(tmp_path, "item\na\n"), None)
    nested = table(tmp_path, lines({"session": 1, "item": 1, "a": [2]}), "some.jsonl")
    with pytest.raises(MalformedFile, match=r"attribute 'a' must be text or a number, got \[2\]"):
        read_table(nested, attributes=["a"])


# --- Parquet -------------------------------------------------------------------------------------------------------


def test_parquet_long_and_nested(tmp_path):
    long = parquet(
        tmp_path / "a.parquet", {"user": ["u", "v", None, "u"], "item": [5, 6, 7, 4], "y": [0.0, 1.0, 1.0, 1.0]}
    )
    skipped: Counter[str] = Counter()
    assert named(read_table(long, "user", skipped=skipped)) == [[5, 4], [6]]
    assert skipped == {"rows without a session": 1}
    slates = read_table(long, "user", slate="item", outcome="y")
    assert named(slates, slates.shown) == [[5], [6], [4]]
    nested = parquet(tmp_path / "b.parquet", {"tracks": [["a", "b"], [], ["b"]]})
    assert named(read_table(nested, None, "tracks")) == [["a", "b"], [], ["b"]]
    assert table_columns(long) == ["user", "item", "y"]


def test_parquet_times(tmp_path):
    times = np.array(["2020-01-02", "2020-01-01"], "datetime64[us]")
    for column in (times, times.astype("datetime64[D]"), times.astype(str), [2.5, 1.0]):
        path = parquet(tmp_path / "a.parquet", {"session": [1, 1], "item": ["b", "a"], "t": column})
        assert named(read_table(path, time="t")) == [["a", "b"]]


def test_parquet_in_many_batches(tmp_path):
    n = 70_000
    path = parquet(tmp_path / "a.parquet", {"session": np.arange(n) % 7, "item": np.arange(n)})
    assert np.sort(read_table(path).items.values).tolist() == list(range(n))
    wrong = parquet(
        tmp_path / "b.parquet", {"session": np.zeros(n, int), "item": ["x"] * (n - 1) + [""], "t": [1.0] * n}
    )
    skipped: Counter[str] = Counter()
    read_table(wrong, skipped=skipped)
    assert skipped == {"rows without an item": 1}
    late = parquet(
        tmp_path / "c.parquet", {"session": np.zeros(n, int), "item": ["x"] * n, "t": ["1"] * (n - 1) + ["?"]}
    )
    with pytest.raises(MalformedFile, match=f"c.parquet, line {n}: a time must be"):
        read_table(late, time="t")


def test_malformed_parquet(tmp_path):
    good = parquet(tmp_path / "a.parquet", {"session": [1, 1], "item": ["b", "a"]})
    with pytest.raises(InvalidInput, match="got no 'user' among 'session', 'item'"):
        read_table(good, "user")
    good.write_bytes(good.read_bytes()[:-20])
    with pytest.raises(MalformedFile, match=r"a.parquet, line 1: it must be a Parquet file that pyarrow reads, but:"):
        read_table(good)


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match=r"reading Parquet needs pyarrow, .* pip install 'setwise\[data\]'"):
        read_table(table(tmp_path, "", "some.parquet"))


# --- attributes from another table ---------------------------------------------------------------------------------


def test_attributes_of_another_table(tmp_path):
    sessions = read_table(table(tmp_path, lines({"tracks": [7, 8]}), "some.jsonl"), None, "tracks")
    path = table(tmp_path, "track_id,track_name\n8,Eight\n9,Nine\n8,Again\n")
    result = with_attributes(sessions, path, "track_id", {"title": "track_name"})
    assert result.attributes == {"title": [None, "Eight"]}
    assert result.items is sessions.items


# --- public files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n_playlists", "entries", "tracks", "long", "items", "known"),
    [
        ("mpd_followed_playlists", 5613, 551_536, 170_671, 5126, "mpd_followed_tracks", 170_671),
        ("mpd_slice_1000-1999_ids", 1000, 66_622, 36_175, 851, "mpd_slice_tracks", None),
        ("polimi2018_playlists", 40_406, 970_005, None, 20_491, "polimi2018_tracks", None),
    ],
)  # fmt: skip
def test_public_playlists_of_one_line_each(shared_data, name, n_playlists, entries, tracks, long, items, known):
    folder = shared_data / "playlists"
    polimi = name.startswith("polimi")
    path = folder / f"{name}.jsonl.gz"
    result = read_table(path, None, "tracks", ordered="ordered" if polimi else None, progress=False)
    assert (len(result), len(result.items.values)) == (n_playlists, entries)
    assert tracks in (None, result.n_items)
    assert (result.items.lengths >= 20).sum() == long
    column, key = ("artist_id" if polimi else "track_uri"), {"mpd_slice_tracks": "tid"}.get(items, "track_id")
    described = with_attributes(result, folder / f"{items}.csv.gz", key, [column], progress=False)
    assert known in (None, sum(one is not None for one in described.attributes[column]))
    if polimi:
        assert result.ordered.sum() == 3998
        assert all(described.attributes[column])
        assert not (np.diff(result.items[0]) < 0).any()  # sorted by id, not in the order of play


def expected(path: Path, session: list[str], item: str) -> tuple[Counter[tuple[str, ...]], set[str]]:
    """Rows of every session that has a value in all its columns, and the items of those rows, by the csv module."""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
        rows = [([row[column] for column in session], row[item]) for row in csv.DictReader(file)]
    whole = [(tuple(key), one) for key, one in rows if all(key)]
    return Counter(key for key, _ in whole), {one for _, one in whole}


def test_online_retail(shared_data, sample, large):
    path = sample(shared_data / "sequences" / "online_retail.csv.gz")
    skipped: Counter[str] = Counter()
    result = read_table(path, "CustomerID", "StockCode", time="InvoiceDate", progress=False, skipped=skipped)
    customers, products = expected(path, ["CustomerID"], "StockCode")
    invoices, _ = expected(path, ["InvoiceNo"], "StockCode")
    assert (len(result), result.n_items, len(result.items.values)) == (len(customers), len(products), customers.total())
    assert skipped == {"rows without a session": invoices.total() - customers.total()}
    if large:
        assert (len(result), skipped.total(), invoices.total()) == (4372, 135_080, 541_909)


def test_online_retail_invoices(shared_data, sample, large):
    path = sample(shared_data / "sequences" / "online_retail.csv.gz")
    result = read_table(path, "InvoiceNo", "StockCode", attributes={"title": "Description"}, progress=False)
    invoices, products = expected(path, ["InvoiceNo"], "StockCode")
    assert (len(result), result.n_items, len(result.items.values)) == (len(invoices), len(products), invoices.total())
    assert not large or invoices.total() == 541_909
    assert sum(title is None for title in result.attributes["title"]) < 200  # few items never have a description


def test_ta_feng(shared_data, sample, large):
    path = sample(shared_data / "sequences" / "ta_feng.csv.gz")
    result = read_table(path, "CUSTOMER_ID", "PRODUCT_ID", time="TRANSACTION_DT", progress=False)
    customers, products = expected(path, ["CUSTOMER_ID"], "PRODUCT_ID")
    found = (len(result), result.n_items, len(result.items.values), (result.items.lengths >= 20).sum())
    assert found == (len(customers), len(products), customers.total(), sum(n >= 20 for n in customers.values()))
    assert not large or found == (32_266, 23_812, 817_741, 12_889)


def test_ta_feng_by_day(shared_data, sample, large):
    path = sample(shared_data / "sequences" / "ta_feng.csv.gz")
    result = read_table(path, ("CUSTOMER_ID", "TRANSACTION_DT"), "PRODUCT_ID", progress=False)
    baskets, _ = expected(path, ["CUSTOMER_ID", "TRANSACTION_DT"], "PRODUCT_ID")
    found = (len(result), (result.items.lengths >= 20).sum())
    assert found == (len(baskets), sum(n >= 20 for n in baskets.values()))
    assert not large or found == (119_578, 6477)


def test_parquet_shares_texts_and_limits_batches(tmp_path):
    """A text of a megabyte that 250 rows refer to is one object, and long rows make small batches."""
    arrow, long = pytest.importorskip("pyarrow"), "a" * (1 << 20)
    texts = arrow.DictionaryArray.from_arrays(arrow.array([0, None] * 250, arrow.int32()), arrow.array([long]))
    lists = [["b", None], None, [], ["c"]] * 125
    path = parquet(tmp_path / "a.parquet", {"text": texts, "list": lists, "number": list(range(500))})
    assert path.stat().st_size < 1 << 20
    rows = [cells for _, cells in parquet_rows(path, ["text", "list", "number"], progress=False)]
    assert rows == list(zip([long, None] * 250, lists, range(500), strict=True))
    assert len({id(text) for text, *_ in rows if text}) == 1
    metadata = pytest.importorskip("pyarrow.parquet").read_metadata
    assert _batch_rows(metadata(path), ["number"]) == 1 << 15
    wide = parquet(tmp_path / "b.parquet", {"list": [[0] * 1_000_000] * 4})
    assert _batch_rows(metadata(wide), ["list"]) == 8
