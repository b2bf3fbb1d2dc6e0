"""Eligible rows agree with a set computed by hand, and what queries share is not copied."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.errors import Infeasible, InvalidInput
from setwise.model.eligibility import Eligibility, require_rows
from worlds import random_catalog

GENRES = ["jazz", "folk", "pop"] * 4


@given(
    removed=st.none() | st.lists(st.booleans(), min_size=12, max_size=12),
    genre=st.none() | st.sampled_from(["jazz", "folk", "polka"]),
    first=st.lists(st.integers(0, 11), max_size=15),
    second=st.lists(st.integers(0, 11), max_size=15),
)
def test_eligible_rows_are_those_that_no_rule_excludes(removed, genre, first, second) -> None:
    catalog, _ = random_catalog(0, n=12, attributes={"genre": GENRES})
    expected = [
        row
        for row in range(12)
        if row not in first + second and not (removed and removed[row]) and genre in (None, GENRES[row])
    ]
    mask = None if removed is None else np.array(removed)
    where = None if genre is None else {"genre": genre}
    if not expected:
        with pytest.raises(
            Infeasible,
            match=r"where and exclude must be conditions that leave an item|where\['genre'\] must be met by an item",
        ):
            Eligibility.of(catalog, mask, where, first).without(second)
        return
    eligible = Eligibility.of(catalog, mask, where, first).without(second)
    assert eligible.rows.tolist() == expected
    assert eligible.count == len(expected)
    assert np.flatnonzero(eligible.admits(np.arange(12))).tolist() == expected
    if eligible.mask is not None:
        assert np.flatnonzero(eligible.mask).tolist() == expected


def test_queries_with_one_filter_share_its_mask() -> None:
    catalog, _ = random_catalog(0, n=12, attributes={"genre": GENRES})
    everything = Eligibility.of(catalog)
    assert everything.mask is None
    assert everything.without([]) is everything
    assert everything.without(range(0)) is everything
    jazz = Eligibility.of(catalog, where={"genre": "jazz"})
    assert jazz.without([0]).allowed is jazz.without([3, 3]).allowed is jazz.mask


def test_rows_outside_the_catalogue_are_refused() -> None:
    catalog, _ = random_catalog(0, n=12)
    for rows, got in (([12], "12"), ([-1], "-1"), (["a"], "dtype")):
        with pytest.raises(InvalidInput, match=f"exclude must be .*{got}"):
            Eligibility.of(catalog, exclude=rows)


@pytest.mark.parametrize("where", [None, {"genre": "jazz"}])
def test_rows_within_others(where) -> None:
    catalog, _ = random_catalog(0, n=12, attributes={"genre": GENRES})
    eligible = Eligibility.of(catalog, None, where, [3])
    inside = eligible.within(np.array([0, 1, 3, 6]))
    assert inside.rows.tolist() == ([0, 1, 6] if where is None else [0, 6])
    assert inside.count == len(inside.rows)
    with pytest.raises(Infeasible, match="scores must be about an item that is neither excluded nor filtered out"):
        eligible.within(np.array([3]))
    only = eligible.within(np.array([3, 6]))
    assert (only.count, only.rows.tolist()) == (1, [6])


def test_a_single_eligible_row_may_be_left() -> None:
    catalog, _ = random_catalog(0, n=12, attributes={"genre": GENRES})
    assert Eligibility.of(catalog, exclude=range(1, 12)).rows.tolist() == [0]
    with pytest.raises(Infeasible, match="where and exclude must be conditions that leave an item"):
        Eligibility.of(catalog, exclude=range(12))


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        (
            {"genre": "polka"},
            r"where\['genre'\] must be met by an item, got 'polka'; name one of its texts: 'jazz'",
        ),
        ({"genre": "jaz"}, r"where\['genre'\] must be met by an item, got 'jaz'; did you mean 'jazz'\?"),
        ({"genre": "jazz", "year": 7}, r"where\['year'\] must be met by an item, got 7; loosen it"),
        ({"genre": "jazz", "year": 1}, "where and exclude must be conditions that leave an item"),
    ],
)
def test_the_condition_that_no_item_meets_is_named(where, sentence: str) -> None:
    """Unless each is met by some item, and no item meets all."""
    catalog, _ = random_catalog(0, n=12, attributes={"genre": GENRES, "year": [0, 1, 2] * 4})
    with pytest.raises(Infeasible, match=sentence):
        Eligibility.of(catalog, where=where)


def test_the_eligible_rows_of_another_catalogue_are_refused() -> None:
    eligible = Eligibility.of(random_catalog(0, n=12)[0])
    require_rows(eligible, 12)
    with pytest.raises(InvalidInput, match="eligible must be one for the 13 items of this catalogue, got one for 12"):
        require_rows(eligible, 13)
