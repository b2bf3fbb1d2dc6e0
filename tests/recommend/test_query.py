"""Query: what is parsed, what is refused, and the JSON form."""

from __future__ import annotations

import json

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput, UnknownId
from setwise.recommend.query import Query, arguments_from_json
from worlds import random_catalog

N = 40


def index(seed: int = 0) -> tuple[sw.Index, sw.User]:
    attributes = {"artist": [f"artist {i % 7}" for i in range(N)], "year": [1990 + i % 10 for i in range(N)]}
    ids = [f"song {i}" for i in range(N)]
    catalog, user = random_catalog(seed, n=N, heads=2, base=True, ids=ids, attributes=attributes)
    return sw.Index.build(catalog, cells=4, progress=False), user


def test_a_query_knows_which_items_may_be_shown() -> None:
    built, user = index()
    built.remove(["song 5"])
    query = Query.parse(built, user, k=3, exclude=["song 1"], where={"year": (1990, 1994)})
    right = [i for i in range(N) if i % 10 < 5 and i not in (1, 5)]
    assert query.eligible.rows.tolist() == right
    assert query.exclude.tolist() == [1, 5], "removed items are excluded from every query"


def test_seen_items_are_excluded_unless_pinned_or_wanted_again() -> None:
    built, user = index()
    seen = np.array([3, 2, 3])
    assert Query.parse(built, user, seen).exclude.tolist() == [2, 3]
    assert Query.parse(built, user, seen, include=["song 3"]).exclude.tolist() == [2]
    assert Query.parse(built, user, seen, exclude=["song 7"]).exclude.tolist() == [2, 3, 7], "they add up"
    assert Query.parse(built, user, seen, filter_seen=False).exclude.tolist() == []
    assert Query.parse(built, user, seen, filter_seen=False, exclude=["song 7"]).exclude.tolist() == [7]


def test_unknown_ids_that_are_not_required_are_reported() -> None:
    """A ranker is always ahead of the index."""
    built, user = index()
    query = Query.parse(built, user, exclude=["gone", "song 1"], scores={"lost": 2.0, "song 2": 1.0}, ignored=("old",))
    assert query.ignored == ("old", "gone", "lost")
    assert query.exclude.tolist() == [1]
    assert query.eligible.rows.tolist() == [2]
    assert query.user.scores.values.tolist() == [1.0]
    for options in ({"exclude": ["gone"]}, {"scores": {"lost": 1.0}}):
        with pytest.raises(UnknownId, match=r"gone|lost"):
            Query.parse(built, user, unknown="error", **options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"k": 0}, InvalidInput),
        ({"k": True}, InvalidInput),
        ({"where": {"year": (10**400, None)}}, Infeasible),
        ({"where": {"year": (None, -(10**400))}}, Infeasible),
        ({"exclude": ["\ud800"], "unknown": "error"}, UnknownId),
        ({"include": ["nothing"]}, UnknownId),
        ({"include": ["song 1"], "exclude": ["song 1"]}, Infeasible),
        ({"include": ["song 1"], "where": {"year": 1990}}, Infeasible),
        ({"where": {"year": 1800}}, Infeasible),
        ({"where": ["year"]}, InvalidInput),
        ({"at_most": 2}, InvalidInput),
        ({"budget_ms": 0}, InvalidInput),
        ({"unknown": "drop"}, InvalidInput),
        ({"ranker": "none such"}, InvalidInput),
    ],
)
def test_invalid_arguments(options, error) -> None:
    built, user = index()
    with pytest.raises(error):
        Query.parse(built, user, **options)


def test_the_json_form_there_and_back() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        built, user = index(seed)
        conditions = [
            {"year": (None, 1995)},
            {"year": [1991, 1993.0]},
            {"artist": "artist 1"},
            {"artist": {"artist 2"}},
            {},
        ]
        where = conditions[rng.integers(len(conditions))]
        pinned = np.flatnonzero(built.catalog.attributes.matching(where))[:1]
        query = Query.parse(
            built,
            user,
            k=int(rng.integers(1, 9)),
            exclude=[f"song {i}" for i in rng.permutation(N)[:3] if i not in pinned],
            include=built.catalog.ids[pinned].tolist() if rng.random() < 0.5 else [],
            where=where,
            at_most={"artist": 2} if rng.random() < 0.5 else None,
            budget_ms=25.5,
            ranker="greedy",
            certify=bool(rng.integers(2)),
        )
        text = json.dumps(query.to_json(), allow_nan=False)
        again = Query.parse(built, **arguments_from_json(json.loads(text)))
        assert json.dumps(again.to_json(), allow_nan=False) == text
        assert again.eligible.rows.tolist() == query.eligible.rows.tolist()
        assert (again.user.heads == query.user.heads).all()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"vector": [1.0], "history": []}, "exactly one of history, user, features, vector"),
        ({"vector": [1.0], "wish": 1}, "keys among"),
        ({"user": [1.0]}, 'user must be an object {"heads"'),
        ({"vector": [1.0], "where": {"year": {"low": 1}}}, 'a range in where must be an object {"from"'),
    ],
)
def test_json_that_is_no_query(content, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        arguments_from_json(content)


def test_null_counts_as_left_out() -> None:
    assert arguments_from_json({"history": ["a"], "user": None, "k": 3, "where": None}) == {"history": ["a"], "k": 3}
