"""Many lists in one table: every list as it would be by itself."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.recommend.rerank import rerank_table


def table(lists: int = 6, m: int = 30) -> dict:
    rng = np.random.default_rng(0)
    size = lists * m
    return {
        "user_id": rng.permutation(np.repeat([f"u{at}" for at in range(lists)], m)),
        "item_id": rng.integers(0, 60, size=size),
        "score": rng.normal(size=size),
        "brand": rng.choice([*"abcd"], size=size),
        "price": rng.random(size),
    }


def alone(columns: dict, name: str, k: int, vectors=None, **options) -> sw.recommend.rerank.Order:
    rows = np.flatnonzero(columns["user_id"] == name)
    part = {key: column[rows] for key, column in columns.items() if key != "user_id"}
    if vectors is not None:
        part["vector"] = vectors[part["item_id"]]
    return sw.rerank(part, k, warn_above=9, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"at_most": {"brand": 1}},
        {"at_least": {"brand": {"a": 2}}, "where": {"price": (0.2, 1.0)}},
        {"strategy": "mmr", "diversity": 0.6},
        {"by": "brand", "strength": 2.0},
    ],
)
@pytest.mark.parametrize("with_vectors", [False, True])
def test_every_list_as_by_itself(options, with_vectors: bool) -> None:
    columns, vectors = table(), np.random.default_rng(1).normal(size=(60, 5))
    if not with_vectors and "strategy" in options:
        options = options | {"by": "brand"}
    given = (np.arange(60), vectors) if with_vectors else None
    result = rerank_table(columns, 4, vectors=given, **options)
    names = np.array(result.columns["user_id"])
    assert list(dict.fromkeys(names.tolist())) == list(dict.fromkeys(columns["user_id"].tolist()))
    for name in set(names.tolist()):
        order = alone(columns, name, 4, vectors if with_vectors else None, **options)
        mine = names == name
        assert np.array(result.columns["id"])[mine].tolist() == order.tolist()
        assert np.array(result.columns["rank"])[mine].tolist() == list(range(1, len(order) + 1))
        np.testing.assert_allclose(np.array(result.columns["reward"])[mine], order.rewards)
        rows = np.array(result.columns["row"])[mine]
        np.testing.assert_array_equal(columns["item_id"][rows], order)
        np.testing.assert_array_equal(columns["user_id"][rows], name)


def test_lists_that_cannot_keep_the_rules_are_named() -> None:
    columns = {"list": ["x", "x", "y", "y"], "id": [1, 2, 3, 4], "score": [1.0, np.nan, 2.0, 1.0], "kind": [*"abbb"]}
    result = rerank_table(columns, 2, at_least={"kind": {"a": 1}})
    assert result.columns["id"] == [1]
    assert list(result.failed) == ["y"]
    assert "about values that candidates have" in result.failed["y"]
    assert result.notes == {"x": {"unscored": [2]}}


def test_vectors_of_items() -> None:
    columns = {"user": [1, 1, 1], "item": ["a", "b", "c"], "score": [1.0, 0.9, 0.1]}
    vectors = {"a": [1.0, 0.0], "b": [1.0, 0.01]}
    result = rerank_table(columns, 2, vectors=vectors, diversity=1.0)
    assert result.columns["id"] == ["a", "c"]
    assert result.notes == {1: {"without_vector": ["c"]}}
    assert rerank_table(columns, 2, vectors=(["a", "b"], [[1, 0], [0, 1]]), diversity=1.0).columns["id"] == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ({"score": [1.0]}, {}, "group must be one of the columns (score), got None; name the column of the lists."),
        ({"user": [1], "points": [1.0]}, {}, "table must be one with a column 'score', got points; name the scores so."),
        ({"user": [1], "score": [1.0]}, {"vectors": {1: [1.0]}}, "vectors must be for a table with ids, got one without"),
        ({"user": [[1]], "score": [1.0]}, {}, "group must be a column of names, got lists or mappings"),
        ({"user": [1], "score": [1.0], "vector": [[1.0]], "id": [1]}, {"vectors": {1: [1.0]}}, "vectors must be left out where the table has some"),
        ({"user": [1], "score": [1.0]}, {"at_most": {"brand": 1}}, "at_most must be about attributes the items have (none)"),
    ],
)  # fmt: skip
def test_mistakes(columns, options, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rerank_table(columns, 1, **options)
    assert sentence in str(caught.value)
