"""From an id to its row: collisions, borders, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
