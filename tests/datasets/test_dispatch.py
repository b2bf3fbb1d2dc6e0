"""Selection of the reader, and arbitrary bytes: every reader returns or raises an error of setwise."""

from __future__ import annotations

import gc
import gzip
import inspect
import io
import json
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import processes
from counts import examples
from setwise.datasets.dispatch import columns_read, read
from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.tables import with_attributes
from setwise.datasets.text_files import is_negative
from setwise.errors import InvalidInput, SetwiseError


def named(data) -> list[list]:
    return [[data.ids[row] for row in one] for one in data.items]


def parquet() -> bytes:
    arrow = pytest.importorskip("pyarrow")
    parquet_ = pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    parquet_.write_table(arrow.table({"session": ["a", "a", "b"], "item": [1, 2, 1], "time": [3.0, 2.0, 1.0]}), file)
    return file.getvalue()


SMALL = {
    "some.txt": b"1 2 3\n2 3 4 5\n",
    "pairs.txt": b"1 2\n1 3\n2 3\n",
    "some.inter": b"user_id:token\titem_id:token\ttimestamp:float\nu\ta\t2\nu\tb\t1\n",
    "some.csv": b'\xef\xbb\xbfsession,item,time\r\n1,"a, b",11/30/2000\r\n1,c,12/1/2000\r\n',
    "some.tsv": b"user_id\titem_id\n1\ta\n",
    "slates.csv": b"session,slate,item,outcome\nu,1,a,0\nu,1,b,1\nu,2,c,1\n",
    "some.jsonl": b'{"pid": 3, "tracks": [1, 2], "ordered": true}\n{"pid": 4, "tracks": [2], "ordered": false}\n',
    "rows.jsonl": b'{"session": "a", "item": "x", "time": "2020-01-01"}\n',
    "some.parquet": parquet(),
}


@pytest.mark.parametrize("name", SMALL)
def test_reader_of_each_format(tmp_path, name):
    wanted = Slates if name == "slates.csv" else Sessions
    (tmp_path / name).write_bytes(SMALL[name])
    assert type(read(tmp_path / name)) is wanted
    if name != "some.parquet":
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(SMALL[name]))
        assert type(read(tmp_path / f"{name}.gz", progress=False)) is wanted


@pytest.mark.parametrize(
    ("header", "row", "wanted"),
    [
        ("InvoiceNo,StockCode,CustomerID", "1,a,2", [["a"]]),
        ("CUSTOMER_ID,PRODUCT_ID", "1,a", [["a"]]),
        ("user_id,session_id,item_id", "1,2,a\n1,3,b", [["a"], ["b"]]),
        ("user_id,item,timestamp", "1,a,9\n1,b,3", [["b", "a"]]),
    ],
)
def test_usual_names(tmp_path, header, row, wanted):
    path = tmp_path / "some.csv"
    path.write_text(f"{header}\n{row}\n")
    assert named(read(path)) == wanted


def test_given_names_override_usual_ones(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("session,user,item,song\n1,u,a,x\n2,u,b,y\n")
    assert named(read(path, session="user", item="song")) == [["x", "y"]]


def test_which_columns_are_read(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("InvoiceNo,StockCode,Quantity,InvoiceDate,CustomerID\n")
    assert columns_read(path) == {
        "session": "InvoiceNo",
        "item": "StockCode",
        "time": "InvoiceDate",
        "quantity": "Quantity",
    }
    chosen = columns_read(path, session=("CustomerID", "InvoiceDate"), time=None, quantity=None)
    assert chosen == {"session": "CustomerID and InvoiceDate", "item": "StockCode"}
    assert columns_read(path, baskets=True) == {}
    (tmp_path / "some.txt").write_text("1 2\n")
    assert columns_read(tmp_path / "some.txt") == {}


def test_returns_and_cancellations_are_left_out(tmp_path):
    path = tmp_path / "invoices.csv"
    path.write_text(
        "InvoiceNo,StockCode,Quantity,units\n1,a,2,1\n1,b,1,1\nC1,b,-1,1\n2,a,0,1\n2,c,,1\n2,d,many,-2\n2,e,-0.5,1\n"
    )
    skipped: Counter[str] = Counter()
    sessions = read(path, skipped=skipped, progress=False)
    assert named(sessions) == [["a", "b"], ["a", "c", "d"]]
    assert skipped == {"rows of returns or cancellations, where 'Quantity' is negative": 2}
    assert named(read(path, quantity="units", progress=False)) == [["a", "b"], ["b"], ["a", "c", "e"]]
    assert len(read(path, quantity=None, progress=False)) == 3
    with pytest.raises(InvalidInput, match="quantity"):
        read(path, quantity="pieces", progress=False)


@pytest.mark.parametrize(
    "cell", ["-1", "-1,00", "-1.000,5", "\u22121", "- 2", "1-", "3,00-", "(4)", "-1e2", "-.5", -1, -0.5]
)
def test_negative_quantities_of_any_country(cell):
    assert is_negative(cell)


@pytest.mark.parametrize(
    "cell", ["1", "1,00", "0", "-0", "-0,00", "-0e5", "", "-", "()", "many", "-many", "2-3", None, 0, 2.5]
)
def test_other_quantities(cell):
    assert not is_negative(cell)


def test_unusual_names_must_be_given(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("who,what\n1,a\n")
    with pytest.raises(
        InvalidInput,
        match=r"item must be given where no column has a usual name .*, got some.csv with who, what; name the column: item=",
    ):
        read(path)
    with pytest.raises(InvalidInput, match="session must be given where no column has a usual name"):
        read(path, item="what")
    assert named(read(path, item="what", session="who")) == [["a"]]


def test_options_of_another_reader(tmp_path):
    (tmp_path / "some.txt").write_text("1 2\n")
    with pytest.raises(InvalidInput, match="option 'session' must be one of read_sequences: form, progress"):
        read(tmp_path / "some.txt", session="user")


@pytest.mark.parametrize("name", ["some.item", "some.xls", "some"])
def test_unknown_formats_are_refused(tmp_path, name):
    (tmp_path / name).write_text("")
    with pytest.raises(InvalidInput, match=r"path must be a file of .csv, .inter, .jsonl,"):
        read(tmp_path / name)


def test_no_such_path(tmp_path):
    with pytest.raises(InvalidInput, match="where there is none; check the path"):
        read(tmp_path / "none.csv")


def test_skipped_rows_are_printed_on_a_terminal(tmp_path, monkeypatch, capsys):
    path = tmp_path / "some.csv"
    path.write_text("session,item\n,a\n1,b\n")
    read(path)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    read(path)
    shown = capsys.readouterr().err
    assert "some.csv: skipped 1 rows without a session" in shown
    assert "reading some.csv" in shown
    read(path, progress=False)
    assert capsys.readouterr().err == ""


def test_reading_imports_nothing_heavy():

    code = "import sys, setwise.datasets.dispatch; print([n for n in ('numba', 'pyarrow', 'pandas', 'rich', 'torch') if n in sys.modules])"
    out = processes.run([sys.executable, "-c", code], check=True)
    assert out.stdout.strip() == "[]"


# --- arbitrary bytes ---------------------------------------------------------------------------------------------


def survives(folder: Path, name: str, data: bytes, **options) -> None:
    """Any bytes are read, or refused with an error of setwise."""
    path = folder / name
    path.write_bytes(data)
    with suppress(SetwiseError):
        assert len(read(path, progress=False, **options)) >= 0


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files in /proc")
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_file_that_is_refused_is_closed(tmp_path: Path, name: str) -> None:
    """At once, without the garbage collector."""
    whole = SMALL[name]
    gc.disable()
    try:
        for length in range(1, len(whole), max(1, len(whole) // 25)):
            survives(tmp_path, name, whole[:length])
            survives(tmp_path, name, whole[:length] + b'"\n"x,y\n1,2')
        assert opened_in(tmp_path) == []
    finally:
        gc.enable()


def opened_in(folder: Path) -> list[str]:
    """The files of a folder that this process has open."""
    opened = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            opened.append(os.readlink(one))
    return [path for path in opened if path.startswith(str(folder))]


NAMES = [*SMALL, *(f"{name}.gz" for name in SMALL if name != "some.parquet")]


def content(name: str) -> bytes:
    return gzip.compress(SMALL[name.removesuffix(".gz")]) if name.endswith(".gz") else SMALL[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("bytes")


@pytest.mark.parametrize("name", NAMES)
@examples(30)
@given(data=st.binary(max_size=200))
def test_random_bytes(folder, name, data):
    survives(folder, name, data)


@pytest.mark.parametrize("name", NAMES)
def test_every_truncation(folder, name):
    whole = content(name)
    for length in range(0, len(whole), max(1, len(whole) // 200)):
        survives(folder, name, whole[:length])


@pytest.mark.parametrize("name", NAMES)
@examples(60)
@given(data=st.data())
def test_mutations(folder, name, data):
    """Some bytes of a valid file replaced, removed or repeated."""
    whole = bytearray(content(name))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole)))
        size = data.draw(st.integers(0, 3))
        signs = st.sampled_from([b"", b"\0", b"\n", b",", b'"', b"|", b"[", b"{", b"1e9", b"\xff", b"\t", b"\xed\xa0\x80", b"9" * 30])  # fmt: skip
        whole[at : at + size] = data.draw(st.one_of(signs, st.binary(max_size=3)))
    survives(folder, name, bytes(whole))


CELLS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@examples(200)
@given(
    rows=st.lists(st.dictionaries(st.sampled_from(["session", "item", "time", "slate", "outcome", "ordered"]), CELLS)),
    options=st.sampled_from([{}, {"session": None, "item": "item"}, {"slate": None, "outcome": None, "attributes": ["time"], "time": None}]),
)  # fmt: skip
def test_arbitrary_json_cells(folder, rows, options):
    survives(folder, "cells.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode(), **options)


# --- every file of the shared data -----------------------------------------------------------------------------------------------

OF_ITEMS = {  # tables that describe items: the column of the id, and one other
    "mpd_followed_tracks.csv.gz": ("track_id", "track_name"),
    "mpd_slice_tracks.csv.gz": ("tid", "track_name"),
    "polimi2018_tracks.csv.gz": ("track_id", "artist_id"),
}
BESIDE = {"ml-100k.item.gz", "ml-100k.user.gz", "s3rec_LastFM_item2attributes.json.gz"}  # without sessions


@pytest.mark.nightly
def test_every_file_of_the_shared_data(shared_data, sample):
    files = sorted(file for part in ("playlists", "sequences") for file in (shared_data / part).iterdir())
    assert files
    one = Sessions.of([[0, 1]])
    for file in map(sample, files):
        if file.name in OF_ITEMS:
            item, column = OF_ITEMS[file.name]
            assert any(with_attributes(one, file, item, [column], progress=False).attributes[column])
        elif file.name not in BESIDE:
            skipped: Counter[str] = Counter()
            counted = file.name.startswith(("online", "ta_feng"))
            assert len(read(file, progress=False, **({"skipped": skipped} if counted else {}))) > 0, file.name


def test_the_options_of_all_readers_are_named() -> None:
    named = inspect.signature(read).parameters
    assert named.keys() >= {"baskets", "session", "item", "slate", "outcome", "time", "delimiter", "on_error", "form"}
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in named.values())
