"""Catalog: shapes, types, ids, attributes, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput, SetwiseError, UnknownId
from setwise.model.attributes import Attributes, Categorical, Strings
from worlds import random_catalog

FLAT = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_one_head_may_be_left_out() -> None:
    catalog = sw.Catalog(FLAT, FLAT, FLAT, sink=sw.Sink(np.ones(3), np.ones(3)))
    assert catalog.query.shape == (4, 1, 3)
    assert catalog.sink.key.shape == (1, 3)
    assert len(catalog) == catalog.n_items == 4
    assert catalog.heads == 1
    assert repr(catalog) == "Catalog(4 items, 1 head, d_kq=3, d_v=3, 1 reward function, sink)"


def test_what_the_caller_can_change_is_copied_and_nothing_else() -> None:
    mine = FLAT.copy()
    catalog = sw.Catalog(mine, FLAT, FLAT, attributes={"year": (year := np.arange(4))})
    mine[0], year[:] = np.nan, 7
    assert np.isfinite(catalog.query).all()
    assert catalog.attributes["year"].tolist() == [0, 1, 2, 3]
    mine = FLAT.copy()
    view = mine[:]
    view.flags.writeable = False
    assert not np.shares_memory(sw.Catalog(view, FLAT, FLAT).query, mine), "a closed view of an open array is open"
    mine.flags.writeable = False
    assert np.shares_memory(sw.Catalog(mine, FLAT, FLAT).query, mine)


def test_float64_is_converted_unless_asked_for() -> None:
    assert sw.Catalog(FLAT.astype(float), FLAT, FLAT).query.dtype == np.float32
    assert sw.Catalog(FLAT, FLAT, FLAT, dtype=np.float64).query.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        sw.Catalog(FLAT, FLAT, FLAT).query[0] = 1


def test_equal_rewards_are_one_class() -> None:
    functions = [sw.Linear(), sw.Logistic(), sw.Linear()]
    catalog = sw.Catalog(FLAT, FLAT, FLAT, reward=(functions, [0, 1, 2, 1]))
    assert catalog.rewards == (sw.Linear(), sw.Logistic())
    assert catalog.reward_class.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "ids", [["b", "a", "ü", "z"], [7, -3, 10**12, 0], np.array(["b", "a", "ü", "z"], object), None]
)
def test_ids(ids) -> None:
    catalog = sw.Catalog(FLAT, FLAT, FLAT, ids=ids)
    known = list(catalog.ids[np.arange(4)])
    assert catalog.rows_of(known[::-1]).tolist() == [3, 2, 1, 0]
    for stranger in ("no", 55, 1.0, None, True):
        if stranger not in known:
            with pytest.raises(UnknownId, match="id must be one of the known ids, got "):
                catalog.rows_of([stranger])


def test_attributes_from_columns_and_frames() -> None:
    columns = {"artist": ["x", None, "y", "x"], "price": [1.5, None, math.nan, 2], "year": np.array([1, 2, 1, 2])}

    class Frame:
        columns = ("artist", "price", "year")

        def __getitem__(self, name: str):
            return iter(columns_of[name])

    columns_of = columns
    for table in (columns, Frame()):
        attributes = sw.Catalog(FLAT, FLAT, FLAT, attributes=table).attributes
        assert list(attributes) == ["artist", "price", "year"]
        assert len(attributes) == 3
        everyone = np.arange(4)
        assert attributes.labels("artist", everyone).tolist() == [0, -1, 1, 0]
        assert attributes.labels("price", everyone).tolist() == [0, -1, -1, 1]
        assert attributes.labels("year", everyone).tolist() == [0, 1, 0, 1]
        assert attributes["artist"][1:3] == [None, "y"]
        assert attributes["artist"][0] == "x"
        assert attributes["artist"][1] is None
        assert len(attributes["artist"]) == 4


def test_the_digest_is_that_of_the_content(tmp_path) -> None:
    parts = {
        "heads": 2,
        "base": True,
        "sink": True,
        "positions": 3,
        "rewards": [sw.Logistic(), sw.PiecewiseLinear((0, 1), (0, 1))],
        "ids": [f"ü{row}" for row in range(12)],
        "attributes": {"artist": ["x", None, "y"] * 4, "price": [1.5, None, 2.0] * 4, "year": [1, 2, 3] * 4},
    }
    catalog, _ = random_catalog(0, **parts)
    assert len(catalog.digest) == 64
    catalog.save(tmp_path / "catalog")
    assert sw.Catalog.load(tmp_path / "catalog").digest == random_catalog(0, **parts)[0].digest == catalog.digest
    plain, _ = random_catalog(1)
    plain.save(tmp_path / "plain")
    assert sw.Catalog.load(tmp_path / "plain").digest == plain.digest == plain.taken(np.arange(12)).digest


def test_every_part_counts_in_the_digest() -> None:
    parts = {
        "heads": 2, "base": True, "sink": True, "positions": 3, "ids": list("abcdefghijkl"),
        "attributes": {"artist": ["x", None, "y"] * 4, "price": [1.5, None, 2.0] * 4},
    }  # fmt: skip
    changes = [
        {}, {"heads": 1}, {"base": False}, {"sink": False}, {"positions": 0}, {"positions": 2}, {"sharpness": 1.0001}, {"dtype": np.float64},
        {"rewards": (sw.Logistic(1.5, -0.4),)}, {"rewards": (sw.Tanh(1.5, -0.5),)}, {"ids": None}, {"ids": list("abcdefghijkm")}, {"ids": list("bacdefghijkl")},
        {"attributes": None}, {"attributes": {"artist": ["x", None, "y"] * 4}}, {"attributes": {"artist": ["x", None, "x"] * 4, "price": [1.5, None, 2.0] * 4}},
        {"attributes": {"artist": ["x", None, "y"] * 4, "price": [1.5, 0.0, 2.0] * 4}}, {"attributes": {"artist": ["x", None, "y"] * 4, "cost": [1.5, None, 2.0] * 4}},
    ]  # fmt: skip
    digests = {random_catalog(0, **(parts | change))[0].digest for change in changes}
    assert len(digests) == len(changes)


def test_missing_values_of_every_library() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame(
        {
            "artist": ["x", np.nan, "y", None],
            "year": pandas.array([1, None, 3, 4], dtype="Int64"),
            "new": pandas.array([True, None, False, True], dtype="boolean"),
        }
    )
    attributes = sw.Catalog(FLAT, FLAT, FLAT, attributes=frame[["artist", "year"]]).attributes
    assert attributes["artist"][:] == ["x", None, "y", None]
    assert attributes.labels("year", np.arange(4)).tolist() == [0, -1, 1, 2]
    other = sw.Catalog(
        FLAT, FLAT, FLAT, attributes=polars.DataFrame({"artist": ["x", None, "y", "x"], "year": [1, 2, None, 4]})
    ).attributes
    assert other.labels("artist", np.arange(4)).tolist() == [0, -1, 1, 0]
    assert other.labels("year", np.arange(4)).tolist() == [0, 1, -1, 2]
    masked = sw.Catalog(FLAT, FLAT, FLAT, attributes={"year": np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 0])}).attributes
    assert masked.labels("year", np.arange(4)).tolist() == [0, -1, 1, 2]


def test_strings() -> None:
    packed = Strings.pack(["", "añ", "漢字"])
    assert len(packed) == 3
    assert packed[1] == "añ"
    assert packed[-1] == "漢字"
    assert packed[1:].tolist() == ["añ", "漢字"]
    assert isinstance(Attributes.of({"a": ["x"]}, 1)["a"], Categorical)


def test_users() -> None:
    catalog, user = random_catalog(0, heads=2, base=True)
    assert catalog.user(user) is user
    one_head, _ = random_catalog(0)
    assert one_head.user([1.0, 2.0, 3.0]).heads.shape == (1, 3)


NAN = FLAT.copy()
NAN[2, 1] = np.nan
BAD = [
    ({"query": NAN}, "query must be finite everywhere, got nan at (2, 0, 1); remove or replace such entries."),
    ({"value": np.full((4, 3), -np.inf)}, "value must be finite everywhere, got -inf at (0, 0, 0); remove or replace such entries."),
    ({"value": FLAT.astype(float) + 1e300}, "value must be at most 1e+100 in size, got 1e+300 at (0, 0, 0); remove or replace such entries."),
    ({"value": FLAT.astype(float) + 1e60}, "value must be finite everywhere, got inf at (0, 0, 0); remove or replace such entries."),
    ({"value": np.ma.array(FLAT, mask=FLAT > 3)}, "value must be without masked entries, got some; fill or drop them."),
    ({"sink": (1, 2)}, "sink must be a setwise.Sink, got tuple; pass setwise.Sink(...) or leave it out."),
    ({"positions": ()}, "positions must be a setwise.Positions, got tuple; pass setwise.Positions(...) or leave it out."),
    ({"ids": "abcd"}, "ids must be a list of int or str, got str; pass one id per item."),
    ({"ids": {1, 2, 3, 4}}, "ids must be a list of int or str, got set; pass one id per item."),
    ({"ids": ["a", "b", "c", "d\0"]}, "text must be valid Unicode without NUL characters, got 'd\\x00'; clean the text."),
    ({"ids": ["a", "b", "c", "\ud800"]}, "text must be valid Unicode without NUL characters, got '\\ud800'; clean the text."),
    ({"attributes": {"a": 5}}, "attribute 'a' must be 4 values, one per item, got 5; pass a list."),
    ({"attributes": {"a": [2**60, None, 1, 2]}}, "attribute 'a' must be whole numbers below 2^53 beside missing values, got 1152921504606846976; pass them as text, or without missing values."),
    ({"attributes": {"a": [2**70, 0, 1, 2]}}, "attribute 'a' must be whole numbers of 64 bits, got larger ones; pass them as text."),
    ({"key": FLAT[:3]}, "key must be an array of shape (4, 1, 3), got shape (3, 1, 3); reshape it or check its source."),
    ({"query": FLAT[0]}, "query must be an array of shape (n, heads, d_kq), got shape (3,); reshape it or check its source."),
    ({"query": FLAT[:0]}, "query must be an array with an item, a head and a dimension, got shape (0, 1, 3); pass at least one item."),
    ({"query": [["a"]]}, "query must be an array of real numbers, got dtype <U1; convert it to float32."),
    ({"query": FLAT + 1j}, "query must be an array of real numbers, got dtype complex64; convert it to float32."),
    ({"query": [[1], [1, 2]]}, "query must be a rectangular array of numbers, got rows of different lengths; pad or split it."),
    ({"base": np.ones(4)}, "base must be an array of shape (4, d_0), got shape (4,); reshape it or check its source."),
    ({"sink": sw.Sink(np.ones(2), np.ones(3))}, "sink key must be an array of shape (1, 3), got shape (1, 2); reshape it or check its source."),
    ({"ids": [1, 2, 1, 3]}, "ids must be distinct, got 1 more than once; give every item its own id."),
    ({"ids": ["a", "b", "c", "a"]}, "ids must be distinct, got 'a' more than once; give every item its own id."),
    ({"ids": [1, 2]}, "ids must be 4 ids, one per item, got 2; align ids with the items."),
    ({"ids": [1, 2, 3, "a"]}, "ids must be all str or all int of 64 bits, got 'a'; convert ids to one of the two."),
    ({"ids": [1.5, 2, 3, 4]}, "ids must be all str or all int of 64 bits, got 1.5; convert ids to one of the two."),
    ({"reward": "logistic"}, "reward must be a reward function or a pair (functions, classes), got str; pass a Reward, or ([functions], class of each item)."),
    ({"reward": ([], [0] * 4)}, "reward must be a pair whose first part lists reward functions, got []; pass a Reward, or ([functions], class of each item)."),
    ({"reward": ([sw.ReLU()], [0, 1, 0, 0])}, "reward classes must be between 0 and 0, got 0 to 1; pass a Reward, or ([functions], class of each item)."),
    ({"reward": ([sw.ReLU()], [0.5] * 4)}, "reward classes must be 4 whole numbers, one an item, got float64 of shape (4,); pass a Reward, or ([functions], class of each item)."),
    ({"attributes": {"a": [1]}}, "attribute 'a' must be 4 values, one per item, got 1; align it with the items."),
    ({"attributes": {"a": ["x", 1, 2, 3]}}, "attribute 'a' must be all numbers or all strings, got a mixture; convert the column to one type."),
    ({"attributes": {"a": np.arange(4).astype("M8[D]")}}, "attribute 'a' must be all numbers or all strings, got the type datetime64; convert the column to one of the two."),
    ({"attributes": {"a": np.ones((4, 2))}}, "attribute 'a' must be one value per item, got several; pass one column per name."),
    ({"attributes": {3: [1] * 4}}, "attributes must be columns with names that are strings, got 3; rename the column."),
    ({"attributes": 5}, "attributes must be a mapping or a data frame, got int; pass {name: column}."),
    ({"dtype": int}, "dtype must be numpy.float32 or numpy.float64, got <class 'int'>; leave it out for float32."),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), BAD)
def test_invalid_arguments(change, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        sw.Catalog(**{"query": FLAT, "key": FLAT, "value": FLAT} | change)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, SetwiseError)


USERS = [
    (np.ones(2), "user must be an array of shape (heads, d_v) = (2, 3), got shape (1, 2); check that user and catalogue come from one model."),
    (np.ones((2, 3)), "user base must be a vector of length 2, got none; pass setwise.User(heads=..., base=...) that fits the catalogue."),
    (sw.User(np.ones((2, 3)), np.ones(4)), "user base must be a vector of length 2, got length 4; pass setwise.User(heads=..., base=...) that fits the catalogue."),
]  # fmt: skip


@pytest.mark.parametrize(("user", "sentence"), USERS)
def test_users_that_do_not_fit(user, sentence: str) -> None:
    catalog, _ = random_catalog(0, heads=2, base=True)
    with pytest.raises(InvalidInput) as caught:
        catalog.user(user)
    assert str(caught.value) == sentence


def test_a_base_for_a_catalogue_without_one() -> None:
    catalog, _ = random_catalog(0)
    with pytest.raises(InvalidInput, match="user base must be absent, as the catalogue has no base, got length 1"):
        catalog.user(sw.User(np.ones((1, 3)), np.ones(1)))


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([0, 0], "items must be a set of distinct row numbers, got 0 more than once; remove the repetition."),
        ([12], "items must be row numbers of the catalogue, 0 to 11, got 12; pass row numbers, not ids."),
        ([-1], "items must be row numbers of the catalogue, 0 to 11, got -1; pass row numbers, not ids."),
        (["a"], "items must be a list of integers, got dtype <U1; pass row numbers."),
        ([0.5], "items must be a list of integers, got dtype float64; pass row numbers."),
        ([[1], [1, 2]], "items must be a list of integers, got something else; pass row numbers."),
        ([[1, 2]], "items must be an array of shape (count,), got shape (1, 2); reshape it or check its source."),
    ],
)
def test_items_that_are_not_rows(items, sentence: str) -> None:
    catalog, user = random_catalog(0)
    with pytest.raises(InvalidInput) as caught:
        sw.set_value(catalog, user, items)
    assert str(caught.value) == sentence


def test_unknown_attribute() -> None:
    catalog, _ = random_catalog(0, attributes={"artist": ["x"] * 12})
    with pytest.raises(InvalidInput) as caught:
        catalog.attributes["genre"]
    assert str(caught.value) == "attribute must be one the catalogue has (artist), got 'genre'; use one of those names."
    assert "artist" in catalog.attributes


# --- one catalogue from another ---

EVERYTHING = {
    "heads": 2, "base": True, "sink": True, "positions": 3, "rewards": (sw.Logistic(), sw.Linear()), "ids": list("lkjihgfedcba"),
    "attributes": {"artist": ["x", None, "y"] * 4, "price": [1.5, None, 2.0] * 4}, "dtype": np.float64,
}  # fmt: skip


@pytest.mark.parametrize("parts", [{}, EVERYTHING], ids=["plain", "everything"])
def test_two_halves_are_the_whole(parts) -> None:
    catalog, user = random_catalog(3, **parts)
    joined = catalog.taken(range(5)).joined(catalog.taken(range(5, 12)))
    for name in ("query", "key", "value", "base"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(catalog, name))
    assert joined.query.dtype == catalog.query.dtype
    assert joined.ids[np.arange(12)].tolist() == catalog.ids[np.arange(12)].tolist()
    assert [joined.rewards[c] for c in joined.reward_class] == [catalog.rewards[c] for c in catalog.reward_class]
    assert joined.attributes.keys() == catalog.attributes.keys()
    slate = [1, 7, 4]
    assert sw.set_value(joined, user, slate) == pytest.approx(sw.set_value(catalog, user, slate), rel=1e-12)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heads": 1}, r"query of the new items must be of shape \(2, 3\) each, got \(1, 3\)"),
        ({"base": False}, r"base of the new items must be of shape \(2,\) each, got None"),
        ({"sink": False}, "sink of the new items must be that of the catalogue, got another"),
        ({"positions": 0}, "positions of the new items must be that of the catalogue, got another"),
        ({"positions": 2}, "positions of the new items must be that of the catalogue, got another"),
    ],
)
def test_items_of_another_model_are_not_joined(change, sentence: str) -> None:
    parts = {"heads": 2, "base": True, "sink": True, "positions": 3}
    one, other = random_catalog(3, **parts)[0], random_catalog(3, **(parts | change))[0]
    with pytest.raises(InvalidInput, match=sentence):
        one.joined(other)
    with pytest.raises(InvalidInput, match=sentence.split(" of the new")[0]):
        other.joined(one)


@pytest.mark.parametrize("part", ["key", "value"])
def test_items_of_another_sink_are_not_joined(part: str) -> None:
    sink = {"key": np.ones(3), "value": np.ones(3)}
    one = sw.Catalog(FLAT, FLAT, FLAT, sink=sw.Sink(**sink))
    assert len(one.joined(sw.Catalog(FLAT, FLAT, FLAT, sink=sw.Sink(**sink)))) == 8
    with pytest.raises(InvalidInput, match="sink of the new items must be that of the catalogue"):
        one.joined(sw.Catalog(FLAT, FLAT, FLAT, sink=sw.Sink(**(sink | {part: np.zeros(3)}))))


def test_values_of_another_size_are_not_joined() -> None:
    with pytest.raises(InvalidInput, match=r"value of the new items must be of shape \(1, 3\) each, got \(1, 2\)"):
        sw.Catalog(FLAT, FLAT, FLAT).joined(sw.Catalog(FLAT, FLAT, FLAT[:, :2]))


@pytest.mark.parametrize("parts", [{}, {"dtype": np.float64}, EVERYTHING], ids=["plain", "float64", "everything"])
def test_arrays_and_back(parts) -> None:
    catalog, _ = random_catalog(3, **parts)
    arrays, meta = catalog.packed()
    again = sw.Catalog.unpacked(arrays, meta)
    assert again.digest == catalog.digest
    assert again.query.dtype == catalog.query.dtype
    assert again.ids.are_row_numbers == catalog.ids.are_row_numbers
    for wrong in (-1, 2):
        with pytest.raises(InvalidInput, match="array 'reward_class' must be numbers from 0 to"):
            sw.Catalog.unpacked(arrays | {"reward_class": np.full(12, wrong, np.int32)}, meta)


# --- properties ---


@pytest.mark.parametrize("shape", [(0, 1, 3), (2, 0, 3), (2, 1, 0)])
def test_nothing_is_no_catalogue(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="query must be an array with an item, a head and a dimension"):
        sw.Catalog(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    assert len(sw.Catalog([[1.0]], [[1.0]], [[1.0]])) == 1


@pytest.mark.parametrize(
    ("value", "sink", "attends"),
    [
        ([0, 0], None, False),
        ([0, 1], None, True),
        ([0, 0], [0, 0], False),
        ([0, 0], [0, 1], True),
        ([0, 1], [0, 0], True),
    ],
)
def test_attention_contributes_if_a_value_is_not_zero(value, sink, attends: bool) -> None:
    given = None if sink is None else sw.Sink(np.ones(3), np.array(sink, float))
    values = np.zeros((4, 2))
    values[2] = value
    assert sw.Catalog(FLAT, FLAT, values, sink=given).attends is attends


def test_base_vectors_or_values_say_what_is_similar() -> None:
    base = np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    with_base = sw.Catalog(FLAT, FLAT, FLAT, base=base)
    assert with_base.longest_base == pytest.approx(5)
    assert with_base.embeddings(np.array([1, 0])).tolist() == base[[1, 0]].tolist()
    catalog, _ = random_catalog(0, heads=2)
    assert catalog.longest_base == 0
    np.testing.assert_array_equal(catalog.embeddings(np.array([3])), catalog.value[3].reshape(1, -1))


def test_added_scores_of_another_catalogue_are_refused() -> None:
    catalog, user = random_catalog(0)
    assert catalog.user(sw.User(user.heads, scores=np.zeros(12))).scores is not None
    with pytest.raises(InvalidInput, match="scores must be one for each of 12 items, got 5"):
        catalog.user(sw.User(user.heads, scores=np.zeros(5)))
