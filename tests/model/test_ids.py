"""From an id to its row: collisions, borders, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise._validation import did_you_mean
from setwise.errors import InvalidInput, UnknownId
from setwise.model import ids as module
from setwise.model.ids import Ids


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), unique=True, min_size=1),
    st.randoms(),
)
def test_every_string_finds_its_row(strings: list[str], chance) -> None:
    known = Ids.of(strings, len(strings))
    asked = strings[:]
    chance.shuffle(asked)
    assert known.rows_of(asked).tolist() == [strings.index(one) for one in asked]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1), st.integers())
def test_every_number_finds_its_row(numbers: list[int], stranger: int) -> None:
    known = Ids.of(numbers, len(numbers))
    assert known.rows_of(np.array(numbers, object)).tolist() == list(range(len(numbers)))
    if stranger not in numbers:
        with pytest.raises(UnknownId):
            known.rows_of([stranger])


def test_hashes_that_collide_cost_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_keys", lambda strings: np.zeros(len(list(strings)), np.int64))
    known = Ids.of(["a", "b", "c"], 3)
    assert known.rows_of(["c", "a", "b"]).tolist() == [2, 0, 1]
    with pytest.raises(UnknownId, match="got 'd'"):
        known.rows_of(["d"])


def test_what_cannot_be_ids() -> None:
    with pytest.raises(InvalidInput, match="ids must be a list of int or str, got int; pass one id per item"):
        Ids.of(5, 1)
    with pytest.raises(InvalidInput, match="ids must be all str or all int of 64 bits, got 9223372036854775808"):
        Ids.of([2**63], 1)
    with pytest.raises(InvalidInput, match="ids must be all str or all int of 64 bits, got True"):
        Ids.of([True], 1)
    for wrong in ("a1", 3, None):
        with pytest.raises(InvalidInput, match="ids must be a list of ids, got "):
            Ids.of([1], 1).rows_of(wrong)
    with pytest.raises(InvalidInput, match="ids must be 2 ids, one per item, got 1"):
        Ids.of(Ids.of([1], 1), 2)
    with pytest.raises(
        UnknownId, match="id must be one of the known ids, got 18446744073709551616; check its spelling"
    ):
        Ids.of([1], 1).rows_of([2**64])


@pytest.mark.parametrize(
    ("ids", "given", "similar"),
    [
        (["Tea", "cup"], "tea", "'Tea'"),
        (["tea", "cup"], " tea ", "'tea'"),
        (["18", "19"], "18.0", "'18'"),
        (["18.0", "19.0"], "18", "'18.0'"),
        (["18", "19"], 18, "'18'"),
        ([18, 19], "18", "18"),
        (["green tea", "cup"], "grean tea", "'green tea'"),
    ],
)
def test_similar_ids_are_suggested(ids: list, given: object, similar: str) -> None:
    with pytest.raises(UnknownId) as caught:
        Ids.of(ids, 2).rows_of([given])
    assert str(caught.value).endswith(f"got {given!r}; did you mean {similar}?")


@pytest.mark.parametrize("given", [True, None, 2.5, b"a", "x" * 1000, 10**30, "\ud800", "9" * 5000])
def test_strange_ids_are_unknown(given: object) -> None:
    for ids in (["a", "b"], [1, 2]):
        with pytest.raises(UnknownId, match="check its spelling"):
            Ids.of(ids, 2).rows_of([given])


def test_the_first_unknown_id_is_named() -> None:
    with pytest.raises(UnknownId, match="got 99"):
        Ids.of([30, 10], 2).rows_of([10, 99, 98, 30])


def test_ids_at_the_ends_of_64_bits() -> None:
    ends = [2**63 - 1, 0, -(2**63)]
    known = Ids.of(ends, 3)
    assert known.rows_of(ends[::-1]).tolist() == [2, 1, 0]
    for beyond in (2**63, -(2**63) - 1):
        with pytest.raises(UnknownId, match=f"got {beyond}; check its spelling"):
            known.rows_of([beyond])
        with pytest.raises(InvalidInput, match=f"all str or all int of 64 bits, got {beyond}"):
            Ids.of([beyond], 1)


def test_known_rows_leave_out_what_is_not_here() -> None:
    rows, unknown = Ids.of([30, 10, 20], 3).known_rows([20, np.int64(5), 30, 7])
    assert rows.tolist() == [2, 0]
    assert unknown == [5, 7]
    assert type(unknown[0]) is int
    for ids, other in ((["a"], 1), ([1], "a"), ([1], True), ([1], 1.0)):
        with pytest.raises(UnknownId, match="id must be one of the known ids"):
            Ids.of(ids, 1).known_rows([ids[0], other])


def test_suggestions_by_spelling_among_few_ids_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW", 2)
    with pytest.raises(UnknownId, match="did you mean 'green tea'"):
        Ids.of(["green tea", "cup"], 2).rows_of(["grean tea"])
    with pytest.raises(UnknownId, match="check its spelling"):
        Ids.of(["green tea", "cup", "pot"], 3).rows_of(["grean tea"])


@pytest.mark.parametrize("given", [True, 2.5, 2**63, -(2**63)], ids=repr)
def test_what_no_id_can_be_is_not_read_as_text(given: object) -> None:
    with pytest.raises(UnknownId, match="check its spelling"):
        Ids.of([str(given), "b"], 2).rows_of([given])


def test_numbers_of_64_bits_are_read_as_text() -> None:
    with pytest.raises(UnknownId, match=f"did you mean '{2**63 - 1}'"):
        Ids.of([str(2**63 - 1), "b"], 2).rows_of([2**63 - 1])


# --- arrays of ids, and what is refused ---


@pytest.mark.parametrize(
    "given",
    [np.array([7, 5]), np.array([7, 5], np.uint8), np.array([7, 5], np.uint64), np.array([7, 5], object), (7, 5)],
    ids=lambda given: str(getattr(given, "dtype", "tuple")),
)
def test_numbers_of_any_kind(given) -> None:
    known = Ids.of(given, 2)
    assert known.rows_of([5, 7]).tolist() == [1, 0]
    assert known[np.arange(2)].dtype == np.int64
    assert not known.are_row_numbers


def test_arrays_of_texts() -> None:
    assert Ids.of(np.array(["b", "a"]), 2).rows_of(np.array(["a", "b"])).tolist() == [1, 0]


def test_ids_that_are_checked_stay_as_they_are() -> None:
    known = Ids.of([5, 3], 2)
    assert Ids.of(known, 2) is known


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (np.arange(3), "ids must be 2 ids, one per item, got 3"),
        (np.array([True, False]), "ids must be all str or all int of 64 bits, got True"),
        (np.zeros((2, 2), int), "ids must be a list of int or str, got ndarray"),
        ("ab", "ids must be a list of int or str, got str"),
        (b"ab", "ids must be a list of int or str, got bytes"),
        ({1, 2}, "ids must be a list of int or str, got set"),
        (["a", 1], "ids must be all str or all int of 64 bits, got 'a'"),
        ([1, 1.5], "ids must be all str or all int of 64 bits, got 1.5"),
        ([1, 1], "ids must be distinct, got 1 more than once"),
    ],
)
def test_lists_that_are_refused(given, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Ids.of(given, 2)


@pytest.mark.parametrize("given", [[5, 5, 9], [1, 5, 5], [5, 9, 5]])
@pytest.mark.parametrize("kind", [int, str])
def test_repetitions_wherever_they_are(given: list[int], kind: type) -> None:
    with pytest.raises(InvalidInput, match=f"ids must be distinct, got {kind(5)!r} more than once"):
        Ids.of([kind(one) for one in given], 3)


# --- ids of two catalogues ---


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, [0, 1, 2, 3]),
        ([9, 4], None, [9, 4, 10, 11]),
        (None, [7, 5], [0, 1, 7, 5]),
        ([9, 4], [7, -5], [9, 4, 7, -5]),
        (["b", "a"], ["d", "c"], ["b", "a", "d", "c"]),
    ],
)
def test_joined_ids_go_on_after_the_first(first, second, expected: list) -> None:
    joined = Ids.of(first, 2).joined(Ids.of(second, 2))
    assert joined[np.arange(4)].tolist() == expected
    assert joined.rows_of(expected[::-1]).tolist() == [3, 2, 1, 0]
    assert joined.are_row_numbers == (first is second is None)


@pytest.mark.parametrize(("first", "second"), [(["a"], [1]), ([1], ["a"]), (["a"], None), (None, ["a"])])
def test_numbers_and_texts_are_not_joined(first, second) -> None:
    with pytest.raises(InvalidInput, match="ids must be all str or all int of 64 bits, got some of each"):
        Ids.of(first, 1).joined(Ids.of(second, 1))


@pytest.mark.parametrize(("first", "second"), [([3, 8], [8]), (None, [1]), (["a", "b"], ["a"])])
def test_joined_ids_are_distinct(first, second) -> None:
    with pytest.raises(InvalidInput, match=r"ids must be distinct, got .* more than once"):
        Ids.of(first, 2).joined(Ids.of(second, 1))


# --- ids from files ---


@pytest.mark.parametrize("given", [[30, 10, 20], ["b", "a", "c"]])
def test_saved_ids_are_opened(given: list) -> None:
    made = Ids.of(given, 3)
    opened = Ids.opened(made.values, made.keys, made.order, 3)
    assert opened.rows_of(given[::-1]).tolist() == [2, 1, 0]


def test_saved_keys_of_texts_may_collide() -> None:
    made = Ids.of(["b", "a", "c"], 3)
    assert len(Ids.opened(made.values, np.zeros(3, np.int64), made.order, 3)) == 3


@pytest.mark.parametrize(
    ("keys", "order"), [([30, 20, 10], [0, 2, 1]), ([10, 30, 20], [1, 0, 2]), ([20, 10, 30], [2, 1, 0])]
)
def test_saved_keys_are_sorted(keys: list[int], order: list[int]) -> None:
    with pytest.raises(InvalidInput, match="ids must be 3 ids and their sorted keys"):
        Ids.opened(np.array([30, 10, 20]), np.array(keys), np.array(order), 3)


@pytest.mark.parametrize("piece", [1, 2, 10])
def test_saved_numbers_are_their_own_keys(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """Whichever of the keys is wrong, and however many are compared at a time."""
    monkeypatch.setattr(module, "_CHUNK", piece)
    values, order = np.array([30, 10, 20, 50, 40]), np.array([1, 2, 0, 4, 3])
    assert Ids.opened(values, values[order], order, 5).rows_of([40]).tolist() == [4]
    for wrong in range(5):
        with pytest.raises(InvalidInput, match="ids must be 5 ids and their sorted keys"):
            Ids.opened(values, values[order] + (np.arange(5) == wrong), order, 5)


def test_saved_ids_of_another_catalogue() -> None:
    two, three = Ids.of(["a", "b"], 2), Ids.of(["a", "b", "c"], 3)
    with pytest.raises(InvalidInput, match="ids must be 3 ids and their sorted keys"):
        Ids.opened(two.values, three.keys, three.order, 3)
    with pytest.raises(InvalidInput):
        Ids.opened(np.arange(2), np.arange(3), np.arange(3), 3)
    with pytest.raises(InvalidInput, match="ids must be distinct, got 7 more than once"):
        Ids.opened(np.array([7, 7, 9]), np.array([7, 7, 9]), np.arange(3), 3)


def test_long_names_and_many_names_are_not_compared() -> None:
    """Comparing a name of a megabyte, or a million names, would take long."""
    assert did_you_mean("produkt", ["order", "product"]) == "did you mean 'product'?"
    assert did_you_mean("a" * 201, ["a" * 200]) == ""
    read = iter(range(10**6))
    assert did_you_mean("product", (f"column {number}" for number in read)) == ""
    assert next(read) <= 1000
