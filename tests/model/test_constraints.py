"""Feasible sets against their definition, on all sets of six candidates."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible
from setwise.model.constraints import Constraints

COLUMNS: dict[str, list] = {
    "genre": ["a", "a", "b", None, None, "c"],
    "year": [2001.5, 1999.5, 1999.5, 2001.5, 2001.5, None],
    "shelf": [7, -1, 7, 3, 3, -1],
}
M = 6
CASES: list[tuple[int, dict[str, Any]]] = [
    (3, {}),
    (1, {"exclude": [0, 5]}),
    (3, {"include": [3, 4], "exclude": [0]}),
    (3, {"at_most": {"genre": 1}}),
    (4, {"at_most": {"genre": 2, "year": 1}}),
    (4, {"at_most": {"shelf": 1}, "include": [1, 5]}),
    (4, {"at_most": {"genre": 10**12}}),
    (3, {"at_least": {"genre": {"a": 2}}}),
    (3, {"at_least": {"genre": {"c": 1, "b": 1}}, "include": [3]}),
    (4, {"at_least": {"year": {2001.5: 2}, "genre": {"c": 1}}, "at_most": {"genre": 1}}),
    (4, {"exactly": {"genre": 1}}),
    (3, {"exactly": {"genre": 1}}),
    (5, {"exactly": {"year": 2}, "exclude": [3]}),
    (4, {"exactly": {"shelf": 2}}),
]


def world() -> sw.Instance:
    return sw.Instance(np.zeros((M, M)), np.zeros(M), groups=COLUMNS)


def values(attribute: str) -> list:
    """The value of each candidate, None for a missing one."""
    return [None if one == -1 else one for one in COLUMNS[attribute]]


def count(rows: tuple[int, ...], attribute: str, value: object) -> int:
    return sum(values(attribute)[row] == value for row in rows)


def minimums(limits: dict[str, Any]) -> list[tuple[str, dict]]:
    """Attribute and {value: least number}, one for every lower limit."""
    every = [
        (name, {value: n for value in values(name) if value is not None})
        for name, n in limits.get("exactly", {}).items()
    ]
    return [*limits.get("at_least", {}).items(), *every]


def keeps_upper(rows: tuple[int, ...], limits: dict[str, Any]) -> bool:
    stated = [*limits.get("at_most", {}).items(), *limits.get("exactly", {}).items()]
    return all(count(rows, name, value) <= n for name, n in stated for value in values(name) if value is not None)


def deficit(rows: tuple[int, ...], attribute: str, least: dict) -> int:
    return sum(max(0, n - count(rows, attribute, value)) for value, n in least.items())


def sets() -> list[tuple[int, ...]]:
    return [rows for size in range(M + 1) for rows in itertools.combinations(range(M), size)]


@pytest.mark.parametrize(("k", "limits"), CASES)
def test_what_is_feasible(k: int, limits: dict[str, Any]) -> None:
    constraints, feasible = Constraints.of(world(), k, **limits), 0
    for rows in sets():
        expected = (
            1 <= len(rows) <= k
            and not set(rows) & set(limits.get("exclude", ()))
            and set(limits.get("include", ())) <= set(rows)
            and keeps_upper(rows, limits)
            and not any(deficit(rows, *minimum) for minimum in minimums(limits))
        )
        assert constraints.admits(rows) == expected, rows
        assert constraints.meets_minimums(rows) == (not any(deficit(rows, *minimum) for minimum in minimums(limits)))
        feasible += expected
    assert feasible
    assert not constraints.admits([2, 2])


@pytest.mark.parametrize(("k", "limits"), CASES)
def test_what_may_be_added(k: int, limits: dict[str, Any]) -> None:
    """No item that breaks an upper limit, and none that leaves too little room for the lower ones."""
    constraints = Constraints.of(world(), k, **limits)
    for rows in sets():
        if not keeps_upper(rows, limits):
            continue
        for row, joinable in enumerate(constraints.joinable(rows)):
            after, room = (*rows, row), k - len(rows)
            expected = row not in rows and row not in limits.get("exclude", ()) and keeps_upper(after, limits)
            for minimum in minimums(limits):
                before = deficit(rows, *minimum)
                expected &= before < room or room <= 0 or deficit(after, *minimum) < before
            assert joinable == expected, (rows, row)
        for last in rows:
            former = [row for row in rows if row != last]
            after = constraints.still_joinable(constraints.joinable(former), [*former, last])
            np.testing.assert_array_equal(after, constraints.joinable(rows))


def test_items_and_places_are_exclusive() -> None:
    instance = sw.Instance(np.zeros((4, 4)), np.zeros(4), exclusive=[[8, 8, 5, 5], [0, 1, 0, -1]])
    constraints = Constraints.of(instance, 2)
    admitted = [pair for pair in itertools.combinations(range(4), 2) if constraints.admits(pair)]
    assert admitted == [(0, 3), (1, 2), (1, 3)]
    assert constraints.joinable([0]).tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("k", "limits", "sentence"),
    [
        (3, {"include": [0, 1, 2], "exclude": [1, 2]}, "include must be free of excluded candidates, got 1 in both"),
        (2, {"include": [0, 1, 2]}, "include must be at most k = 2 candidates, got 3"),
        (2, {"exclude": range(6)}, "candidates must be at least one that is not excluded, got none"),
        (3, {"include": [0, 1], "at_most": {"genre": 1}}, "include must be at most 1 of one group, got more"),
        (3, {"at_least": {"genre": {"a": 3}}}, "about values that enough candidates have, got 2"),
        (3, {"at_least": {"genre": {"a": 10**12}}}, "about values that enough candidates have, got 2"),
        (3, {"at_least": {"genre": {"a": 2}}, "exclude": [0]}, "got 1 that are not excluded"),
        (4, {"exactly": {"genre": 1}, "exclude": [5]}, "got 0 that are not excluded"),
        (2, {"exactly": {"genre": 1}}, "at most the 2 items beside the pinned ones, got 3"),
        (
            3,
            {"at_least": {"genre": {"a": 2, "b": 1}}, "include": [5]},
            "at most the 2 items beside the pinned ones, got 3",
        ),
        (
            3,
            {"at_least": {"genre": {"d": 1}}},
            r"at_least\['genre'\] must be about values that candidates have, got 'd'",
        ),
    ],
)
def test_what_no_set_can_keep(k: int, limits: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Infeasible, match=sentence):
        Constraints.of(world(), k, **limits)


def test_as_much_as_fits_may_be_pinned() -> None:
    assert Constraints.of(world(), 2, include=[0, 3]).admits([0, 3])
    at_most = Constraints.of(world(), 4, include=[3, 4, 0, 2], at_most={"genre": 1})
    assert at_most.admits([0, 2, 3, 4])
    assert Constraints.of(world(), 3, include=[0], at_least={"genre": {"a": 2, "b": 1}}).admits([0, 1, 2])


@pytest.mark.parametrize("limit", [{"exactly": {"colour": 4}}, {"at_least": {"colour": {"red": 4}}}])
def test_no_set_has_more_than_all_candidates(limit: dict[str, Any]) -> None:
    instance = sw.Instance(np.zeros((3, 3)), np.zeros(3), groups={"colour": ["red"] * 3})
    with pytest.raises(Infeasible, match="about values that enough candidates have, got 3"):
        Constraints.of(instance, 5, **limit)
    assert Constraints.of(instance, 5, exactly={"colour": 3}).admits([0, 1, 2])
