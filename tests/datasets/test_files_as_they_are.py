"""Files as people have them: other delimiters and encodings, gaps, malformed rows, one basket a line."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from setwise.datasets import Sessions, read, text_files
from setwise.datasets.baskets import read_baskets
from setwise.datasets.tables import read_table
from setwise.errors import InvalidInput, MalformedFile


def written(folder: Path, content: str | bytes, name: str = "some.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def named(sessions: Sessions) -> list[list]:
    return [[sessions.ids[row] for row in one] for one in sessions.items]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_header_says_the_delimiter(tmp_path: Path, mark: str) -> None:
    content = "session,item,title\n1,a,x\n1,b,y\n".replace(",", mark)
    assert named(read(written(tmp_path, content))) == [["a", "b"]]
    assert named(read(written(tmp_path, content, "some.tsv"))) == [["a", "b"]]


@pytest.mark.parametrize("mark", [";", ":", ","])
def test_a_first_line_may_state_the_delimiter(tmp_path: Path, mark: str) -> None:
    """As some spreadsheets write it; lines are counted with it."""
    content = "\ufeffsep=,\r\nsession,item\r\n1,a\r\n1,b\r\n".replace(",", mark)
    assert named(read(written(tmp_path, content))) == [["a", "b"]]
    assert named(read_table(written(tmp_path, content), delimiter=mark)) == [["a", "b"]]
    with pytest.raises(MalformedFile, match="line 5"):
        read(written(tmp_path, content + "2\r\n"))


def test_commas_in_quotes_and_in_cells_do_not_decide(tmp_path: Path) -> None:
    content = 'session;item;"price, EUR, with tax"\n1;a;1,50\n1;b;2,50\n'
    assert named(read(written(tmp_path, content))) == [["a", "b"]]
    assert named(read_table(written(tmp_path, "session,item\n1,a;b\n"))) == [["a;b"]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_encodings_of_spreadsheets(tmp_path: Path, encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    content = "session,item\r\n1,tea\r\n1,café\r\n2,crème – brûlée\r\n"
    assert named(read(written(tmp_path, content.encode(encoding)))) == [["tea", "café"], ["crème – brûlée"]]
    said = capsys.readouterr().err
    assert ("some.csv: not UTF-8, read as Windows-1252 from line 3" in said) == (encoding == "cp1252")


def test_utf_16_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters and lines that continue in the next block; U+2028 ends no line, as in UTF-8."""
    content = "session,item\n" + "".join(f"1,tea {number} \U0001f375\u2028x\n" for number in range(50)) + "1,last"
    expected = [[f"tea {number} \U0001f375\u2028x" for number in range(50)] + ["last"]]
    for block in (1, 3, 1000):
        monkeypatch.setattr(text_files, "_BLOCK", block)
        for encoding in ("utf-8", "utf-16"):
            assert named(read(written(tmp_path, content.encode(encoding)))) == expected


def test_json_lines_are_utf_8(tmp_path: Path) -> None:
    with pytest.raises(MalformedFile, match="line 1: the text must be UTF-8"):
        read(written(tmp_path, '{"session": 1, "item": "é"}\n'.encode("cp1252"), "some.jsonl"))


def test_an_empty_time_is_counted_not_fatal(tmp_path: Path) -> None:
    path, skipped = written(tmp_path, "session,item,time\n1,a,2\n1,b,\n1,c,1\n1,d,nan\n"), Counter()
    assert named(read(path, skipped=skipped)) == [["c", "a"]]
    assert skipped == {"rows without a time in 'time' (--no-time would keep them)": 2}
    assert named(read(path, time=None)) == [["a", "b", "c", "d"]]


@pytest.mark.parametrize("word", ["", "nan", "NaN", "null", "NULL", "<NA>", "NaT", "#N/A", "n/a"])
def test_words_for_nothing_are_no_items(tmp_path: Path, word: str) -> None:
    path, skipped = written(tmp_path, f"session,item\n1,a\n1,{word}\n{word},b\n1,NA\n"), Counter()
    assert named(read(path, skipped=skipped)) == [["a", "NA"]]
    assert skipped == {"rows without an item": 1, "rows without a session": 1}


def test_whole_floats_are_whole_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, '{"session": 1, "item": 18.0}\n{"session": 1, "item": 18}\n', "some.jsonl")
    assert read(path).ids == [18]
    with pytest.raises(MalformedFile, match=r"got 18.5"):
        read(written(tmp_path, '{"session": 1, "item": 18.5}\n', "some.jsonl"))


MALFORMED = "session,item,time\n1,a,3\n1,b\n1,c,yesterday\n2,d,4,5\n2,e,2\n2,f,tomorrow\n"


def test_malformed_rows_are_skipped_on_request(tmp_path: Path) -> None:
    path, skipped = written(tmp_path, MALFORMED), Counter()
    assert named(read(path, skipped=skipped, on_error="skip")) == [["a"], ["e"]]
    ((reason, count),) = skipped.items()
    assert count == 4
    assert reason.startswith("malformed rows (line 3: there must be 3 cells, as in the header, got 2; line 4: a time")
    assert reason.endswith("line 5: there must be 3 cells, as in the header, got 4; …)")
    for stop in ({}, {"on_error": "stop"}):
        with pytest.raises(MalformedFile, match="line 3: there must be 3 cells"):
            read(path, **stop)
    with pytest.raises(InvalidInput, match="on_error must be 'stop' or 'skip', got 'ignore'"):
        read(path, on_error="ignore")


def test_a_skipped_row_leaves_no_trace(tmp_path: Path) -> None:
    rows = ("1,1,a,1", "1,1,b,2", "1,1,c,0", "9,9,d,no", "2,1,a,1")
    path, skipped = written(tmp_path, "\n".join(["session,slate,item,outcome", *rows])), Counter()
    slates = read(path, skipped=skipped, on_error="skip")
    assert [[slates.ids[row] for row in one] for one in slates.shown] == [["a", "c"], ["a"]]
    assert slates.outcome.tolist() == [1, 0, 1]
    dates = "session,item,time\n1,a,1/13/2000\n1,b,13/1/2000\n1,c,1/12/2000\n"
    assert named(read(written(tmp_path, dates), on_error="skip")) == [["c", "a"]]


def test_malformed_quotes_and_json_are_skipped_on_request(tmp_path: Path) -> None:
    path = written(tmp_path, 'session,item\n1,a\n1,"b"x\n1,c\n')
    assert named(read(path, on_error="skip")) == [["a", "c"]]
    path = written(
        tmp_path, '{"session": 1, "item": 1}\n{"session": 1, "item"\n[]\n{"session": 1, "item": 2}\n', "s.jsonl"
    )
    assert named(read(path, on_error="skip")) == [[1, 2]]


# --- one basket a line ---


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("milk,bread\nbread, butter ,milk\n\neggs\n", [["milk", "bread"], ["bread", "butter", "milk"], ["eggs"]]),
        ("milk;bread\nbread;cheese, hard\n", [["milk", "bread"], ["bread", "cheese, hard"]]),
        ("milk bread\nbutter\n", [["milk", "bread"], ["butter"]]),
        ('"tea, green",cup\nnan,cup\n', [["tea, green", "cup"], ["cup"]]),
    ],
)
def test_one_basket_a_line(tmp_path: Path, content: str, wanted: list[list[str]]) -> None:
    for name in ("some.csv", "some.txt", "groceries"):
        assert named(read(written(tmp_path, content, name), baskets=True)) == wanted
    assert named(read_baskets(written(tmp_path, "a:b\nc\n"), delimiter=":")) == [["a", "b"], ["c"]]


def test_baskets_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(MalformedFile, match="there must be a basket a line"):
        read(written(tmp_path, "\n\n"), baskets=True)
    with pytest.raises(MalformedFile, match="baskets=True"):
        read(written(tmp_path, "milk bread\n", "some.txt"))
    with pytest.raises(InvalidInput, match="--baskets"):
        read(written(tmp_path, "milk,bread\neggs\n"))


# --- did you mean ---


def test_similar_columns_and_options_are_suggested(tmp_path: Path) -> None:
    path = written(tmp_path, "Invoice No,Stock Code\n1,a\n")
    with pytest.raises(InvalidInput, match=r"got no 'stock_code' among .*; did you mean 'Stock Code'\?"):
        read_table(path, session="Invoice No", item="stock_code")
    with pytest.raises(InvalidInput, match=r"did you mean 'delimiter'\?"):
        read(path, session="Invoice No", item="Stock Code", delimeter=",")


def parquet(path: Path, columns: dict) -> Path:
    arrow, parquet_ = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet_.write_table(arrow.table(columns), path, compression="none")
    return path


def test_decimals_of_databases_are_numbers(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    whole = arrow.decimal128(38, 0)
    columns = {
        "session": arrow.array([1, 1, 2], whole),
        "item": arrow.array([7, 10**17 + 1, 7], whole),
        "price": arrow.array([Decimal("1.50"), None, Decimal("1.50")], arrow.decimal128(10, 2)),
        "units": arrow.array([Decimal("1.00"), Decimal("2.00"), Decimal("-1.00")], arrow.decimal128(10, 2)),
    }
    path = parquet(tmp_path / "some.parquet", columns)
    sessions = read_table(path, attributes={"price": "price"}, quantity="units")
    assert named(sessions) == [[7, 10**17 + 1]]
    assert sessions.attributes == {"price": [1.5, None]}
    lists = arrow.array([[7, 8], None, [8]], arrow.list_(whole))
    assert named(read_table(parquet(tmp_path / "lists.parquet", {"item": lists}), None)) == [[7, 8], [8]]


def test_a_place_that_a_damaged_dictionary_lacks_is_a_malformed_file(tmp_path: Path) -> None:
    path = parquet(tmp_path / "some.parquet", {"session": ["a"] * 8, "item": ["x", "y", "z", "x", "y", "z", "y", "x"]})
    chunk = pytest.importorskip("pyarrow.parquet").ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[chunk.dictionary_page_offset + chunk.total_compressed_size - 1] = 255  # the places of the last rows: all 3
    path.write_bytes(data)
    with pytest.raises(MalformedFile, match="it must be a Parquet file that pyarrow reads"):
        read_table(path)
