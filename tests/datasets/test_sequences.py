"""Sequences of users: SASRec's two forms and RecBole's files."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from experiments.cut_samples import cut_lines
from setwise.datasets.sequences import read_recbole, read_sequences
from setwise.errors import InvalidInput, MalformedFile


def named(sessions) -> list[list]:
    return [[sessions.ids[row] for row in one] for one in sessions.items]


def text(folder, content: str, name: str = "some.txt"):
    path = folder / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


# --- sequences -----------------------------------------------------------------------------------------------------


def test_pairs(tmp_path):
    path = text(tmp_path, "1 10\n1 11\n2 10\n1 10\n", "some.txt.gz")
    for form in (None, "pairs"):
        assert named(read_sequences(path, form)) == [[10, 11, 10], [10]]


def test_lists(tmp_path):
    path = text(tmp_path, "\ufeff1 10 11 10\r\n\r\n2\t10\r\n")
    for form in (None, "lists"):
        assert named(read_sequences(path, form)) == [[10, 11, 10], [10]]


def test_lists_of_one_equal_pairs(tmp_path):
    path = text(tmp_path, "5 10\n6 11")
    assert named(read_sequences(path)) == named(read_sequences(path, "lists")) == named(read_sequences(path, "pairs"))


@pytest.mark.parametrize(
    ("content", "form", "line", "reason"),
    [
        ("", None, 1, "the file is empty"),
        ("1 2\n3\n", None, 2, "must hold a user and an item"),
        ("1 2\n3 x\n", None, 2, "whole numbers separated by blanks, got '3 x'"),
        ("1,2\n", None, 1, "whole numbers separated by blanks"),
        ("1 -2\n", None, 1, "whole numbers separated by blanks"),
        ("1 2_0\n", None, 1, "whole numbers separated by blanks"),
        ("1 ٣\n", None, 1, "whole numbers separated by blanks"),
        ("1 007\n", None, 1, "whole numbers separated by blanks"),
        ("1 99999999999999999999\n", None, 1, "whole numbers separated by blanks"),
        ("1 2\n3 4 5\n", "pairs", 2, "the line must be 'user item', got more numbers"),
        ("1 2\n1 3\n", "lists", 2, "a user must have one line where lines are lists"),
        ("196 242 3 881250949\n186 302 3 891717742\n196 377 1 878887116\n", None, 3, "a user must have one line"),
        ("1 2\n1 3 4\n", None, 2, "a user must have one line"),
        ("1 2\n1 \0\n", None, 2, "must not hold NUL bytes"),
    ],
)
def test_malformed_sequences(tmp_path, content, form, line, reason):
    with pytest.raises(MalformedFile) as caught:
        read_sequences(text(tmp_path, content), form, progress=False)
    assert str(caught.value).startswith(f"some.txt, line {line}: ")
    assert reason in str(caught.value)


def test_an_unknown_form(tmp_path):
    with pytest.raises(InvalidInput, match="form must be 'pairs', 'lists' or None, got 'triples'"):
        read_sequences(text(tmp_path, "1 2"), "triples")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="path must be a file, got the folder"):
        read_sequences(tmp_path)


PAIRS = ("sasrec", "bert4rec")  # long files with a user and an item a line
LINES = 50_000  # of these are read without --large


def counted(path: Path) -> tuple[int, int, int, int]:
    """Users, items, interactions, and users of twenty or more, counted line by line."""
    with gzip.open(path, "rt") as file:
        pairs = [line.split() for line in file]
    lengths = Counter(user for user, _ in pairs)
    long = sum(length >= 20 for length in lengths.values())
    return len(lengths), len({item for _, item in pairs}), len(pairs), long


@pytest.mark.parametrize(
    ("name", "users", "items", "interactions", "long"),
    [
        ("s3rec_LastFM", 1090, 3646, 52_551, 525),
        ("s3rec_Yelp", 30_431, 20_033, 316_354, 2867),
        ("s3rec_Beauty", 22_363, 12_101, 198_502, 1248),
        ("sasrec_Video", 31_013, 23_715, 287_107, 1913),
        ("bert4rec_beauty", 40_226, 54_542, 353_962, 2042),
    ],
)
def test_public_sequences(shared_data, tmp_path, large, name, users, items, interactions, long):
    path = shared_data / "sequences" / f"{name}.txt.gz"
    if name.startswith(PAIRS) and not large:
        cut = tmp_path / path.name
        cut_lines(path, cut, LINES)
        path = cut
        users, items, interactions, long = counted(path)
    result = read_sequences(path, progress=False)
    counts = (len(result), result.n_items, len(result.items.values), (result.items.lengths >= 20).sum())
    assert counts == (users, items, interactions, long)
    if name == "s3rec_Yelp":
        assert (result.distinct().items.lengths < result.items.lengths).sum() == 7102


# --- RecBole -------------------------------------------------------------------------------------------------------

INTER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"


def test_interactions_are_sorted_by_time(tmp_path):
    path = text(tmp_path, INTER + "u\tb\t3\t20\nv\tx\t1\t5\nu\ta\t3\t10\nu\tc\t3\t20.5\nu\td\t1\t20\n", "some.inter")
    result = read_recbole(path, progress=False)
    assert named(result) == [["a", "b", "d", "c"], ["x"]]
    assert result.ordered is None
    assert result.attributes == {}


def test_attributes_of_the_item_file(tmp_path):
    path = text(tmp_path, INTER + 'u\tb\t3\t2\nu\ta"\t3\t1\n', "some.inter.gz")
    text(tmp_path, 'item_id:token\ttitle:token_seq\tprice:float\nb\tThe B\t1.5\nq\tQ\t2\na"\t\t\n', "some.item")
    result = read_recbole(path, progress=False)
    assert result.ids == ["b", 'a"']
    assert result.attributes == {"title": ["The B", None], "price": [1.5, None]}


def test_without_times_sessions_are_unordered(tmp_path):
    path = text(tmp_path, "session_id:token\titem_id:token\ns\tb\ns\ta\n", "some.inter")
    result = read_recbole(path, user="session_id", progress=False)
    assert named(result) == [["b", "a"]]
    assert result.ordered.tolist() == [False]


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("", 1, "must begin with a header"),
        ("user_id\titem_id\n", 1, "the header must be distinct 'name:type'"),
        ("user_id:token\titem_id:word\n", 1, "the header must be distinct 'name:type'"),
        ("user_id:token\tuser_id:token\n", 1, "the header must be distinct 'name:type'"),
        (INTER + "u\ta\t3\n", 2, "there must be 4 cells"),
        (INTER + "u\ta\t3\tnow\n", 2, "a time must be a number"),
        (INTER + "u\ta\t3\tnan\n", 2, "a time must be a number"),
        (INTER + "u\t\t3\t1\n", 2, "an item must be valid Unicode, not empty"),
        (INTER + "\ta\t3\t1\n", 2, "there must be a 'user_id'"),
    ],
)
def test_malformed_interactions(tmp_path, content, line, reason):
    with pytest.raises(MalformedFile) as caught:
        read_recbole(text(tmp_path, content, "some.inter"), progress=False)
    assert str(caught.value).startswith(f"some.inter, line {line}: ")
    assert reason in str(caught.value)


def test_a_malformed_item_file(tmp_path):
    path = text(tmp_path, INTER + "u\ta\t3\t1\n", "some.inter")
    text(tmp_path, "item_id:token\tprice:float\na\tcheap\n", "some.item")
    with pytest.raises(MalformedFile, match=r"some.item, line 2: 'price' must be a number, got 'cheap'"):
        read_recbole(path, progress=False)


def test_a_missing_column(tmp_path):
    with pytest.raises(InvalidInput, match="got no 'user_id' among 'session_id', 'item_id'"):
        read_recbole(text(tmp_path, "session_id:token\titem_id:token\n", "some.inter"), progress=False)


def test_movielens(shared_data):
    result = read_recbole(shared_data / "sequences" / "ml-100k.inter.gz", progress=False)
    assert (len(result), result.n_items, len(result.items.values)) == (943, 1682, 100_000)
    assert (result.items.lengths >= 20).all()
    assert result.attributes["movie_title"][result.ids.index("1")] == "Toy Story"
    assert all(result.attributes["class"])
