"""Item search finds exactly what a loop over all items finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.model.attributes import Strings
from setwise.recommend.item_search import ItemSearch, TextBlock
from worlds import random_catalog

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
FEW_LETTERS = st.text("abAß İ\n", max_size=5)


@examples(200)
@given(st.lists(TEXT | FEW_LETTERS, min_size=1, max_size=8), TEXT | FEW_LETTERS)
def test_a_text_block_finds_what_a_loop_finds(texts: list[str], word: str) -> None:
    word = "".join(word.split()) or "a"
    lines = TextBlock(Strings.pack(texts))
    plain = [text.replace("\n", " ").casefold() for text in texts]
    assert lines.contains(word).tolist() == [word.casefold() in text for text in plain]
    assert lines.contains(word, at_start=True).tolist() == [text.startswith(word.casefold()) for text in plain]


def search(**columns: list) -> ItemSearch:
    n = len(next(iter(columns.values())))
    ids = columns.pop("ids", None)
    return ItemSearch(random_catalog(0, n=n, ids=ids, attributes=columns)[0])


def test_words_in_any_order_and_matching_titles_first() -> None:
    found = search(
        title=["The Blue River", "River of blue", "Red river", "Blue", None],
        artist=["Ada", "Bruno", "Blue Band", "Carla", "River"],
        year=[1.0, 2.0, float("nan"), 3.0, 4.0],
        ids=["a", "b", "c", "d", "river-blue"],
    )
    rows, total = found.find("river BLUE", 10)
    assert set(rows.tolist()) == {0, 1, 2, 4}
    assert total == 4
    assert found.find("blue", 1)[0].tolist() == [3], "the title that begins with the word"
    assert found.find("blue", 1)[1] == 5
    assert found.find("ada", 5)[0].tolist() == [0]
    assert found.find("   ", 2)[0].tolist() == [0, 1]
    assert found.find("green", 5)[1] == 0
    assert found.title == "title"
    assert found.group == "artist"


def test_without_titles_every_text_attribute_is_searched() -> None:
    found = search(genre=["jazz", "folk", "jazz", "folk"], note=["w", "x", "y", "z"], ids=[10, 20, 30, 40])
    assert found.title is None
    assert found.group == "genre", "the text with the fewest values; every note is different"
    assert found.find("jazz", 5)[0].tolist() == [0, 2]
    assert found.find("20", 5)[0].tolist() == [1]
    assert found.find("jazz y", 5)[0].tolist() == [2]
    assert [column.values for column in found.columns()] == [["folk", "jazz"], ["w", "x", "y", "z"]]


def test_every_text_attribute_is_searched_beside_titles() -> None:
    found = search(title=["Soup", "Tart", "Broth"], course=["starter", "dessert", "starter"], price=[5.0, 6.0, 7.0])
    assert found.find("starter", 5)[0].tolist() == [0, 2]
    assert found.find("starter broth", 5)[0].tolist() == [2]


def test_kinds_of_columns() -> None:
    found = search(
        Title=["Soup", "Tart", None],
        Artist=["Ada", "Ada", "Bo"],
        cover=["https://images.example/a.png", "HTTP://images.example/b.png", "none"],
        live=[True, False, True],
        price=[5.0, float("inf"), float("nan")],
        missing=[float("nan")] * 3,
        note=[None, "http", "see https://images.example"],
    )
    described = {one.name: (one.kind, one.values, one.low, one.high) for one in found.columns()}
    assert described == {
        "Title": ("text", ["Soup", "Tart"], None, None),
        "Artist": ("text", ["Ada", "Bo"], None, None),
        "cover": ("url", None, None, None),
        "live": ("boolean", None, None, None),
        "price": ("number", None, 5.0, 5.0),
        "missing": ("number", None, None, None),
        "note": ("text", ["http", "see https://images.example"], None, None),
    }
    assert (found.title, found.group) == ("Title", "Artist")
    assert found.find("images.example", 5)[0].tolist() == [2], "addresses are not searched"


def test_many_values_are_not_listed() -> None:
    found = search(name=[f"n{i}" for i in range(60)])
    assert found.columns()[0].values is None
    assert found.title == "name"
    assert found.group is None


def test_many_items() -> None:
    n = 200_000
    zeros = np.zeros((n, 1), np.float32)
    titles = [f"song {i % 1000} of {i}" for i in range(n)]
    found = ItemSearch(sw.Catalog(zeros, zeros, zeros, attributes={"title": titles}))
    rows, total = found.find("999 song 199", 10)
    assert total == sum("999" in title and "199" in title for title in titles)
    assert all("999" in titles[row] and "199" in titles[row] for row in rows)
