"""Tables of pandas and polars: candidates in, slates out, RecTools' column names understood."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise import interop
from setwise.errors import InvalidInput
from worlds import random_catalog

LIBRARIES = ["pandas", "polars"]
N = 30


def table(library: str, columns: dict[str, list[Any]]):
    return pytest.importorskip(library, reason=f"{library} is not installed").DataFrame(columns)


@pytest.fixture(scope="module")
def recommender() -> sw.Recommender:
    catalog, _ = random_catalog(0, n=N, ids=[f"i{row}" for row in range(N)])
    return sw.Recommender(sw.Index.build(catalog, cells=4, progress=False))


def candidates(names: tuple[str, str]) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    users = [user for user in ("ben", "anna") for _ in range(8)]
    items = [f"i{row}" for _ in range(2) for row in rng.permutation(N)[:8]]
    return {names[0]: users, names[1]: items, "score": rng.normal(size=16).tolist(), "rank": [*range(1, 9)] * 2}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("names", [("user_id", "item_id"), ("user", "item")])
def test_a_table_of_candidates_gives_a_table_of_slates(library: str, names, recommender: sw.Recommender) -> None:
    columns = candidates(names)
    given = table(library, columns)
    scores = interop.scores_by_user(given)
    assert list(scores) == ["ben", "anna"]
    assert scores == interop.scores_by_user(columns)
    found = interop.recommend_frame(recommender, given, k=3)
    assert type(found).__module__.startswith(library)
    assert list(found.columns) == ["user", "item", "rank", "reward", "value", "upper_bound"]
    slates = [recommender.recommend(scores=own, k=3) for own in scores.values()]
    assert found["user"].to_list() == ["ben"] * 3 + ["anna"] * 3
    assert found["item"].to_list() == [one for slate in slates for one in slate]
    assert found["rank"].to_list() == [1, 2, 3] * 2
    np.testing.assert_allclose(found["reward"].to_list(), np.concatenate([slate.rewards for slate in slates]))
    np.testing.assert_allclose(found["value"].to_list(), np.repeat([slate.value for slate in slates], 3))
    assert (np.array(found["upper_bound"].to_list()) >= np.array(found["value"].to_list())).all()
    again = interop.recommend_frame(recommender, given, k=3, names="rectools", certify=False)
    assert list(again.columns) == ["user_id", "item_id", "score", "rank"]
    assert interop.scores_by_user(again).keys() == scores.keys()


@pytest.mark.parametrize("library", LIBRARIES)
def test_slates_of_users_to_a_table(library: str, recommender: sw.Recommender) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    rng = np.random.default_rng(0)
    slates = recommender.recommend_many(rng.normal(size=(3, 3)), k=2, certify=False)
    found = interop.slates_to_frame(slates, library=library)
    assert found["user"].to_list() == [0, 0, 1, 1, 2, 2]
    assert np.isnan(np.array(found["upper_bound"].to_list(), float)).all()
    assert len(interop.slates_to_frame([], [], library=library)) == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_histories_are_sorted_by_time(library: str) -> None:
    day = [datetime.datetime(2026, 1, number) for number in (3, 1, 2, 1)]
    columns = {"user_id": [7, 7, 7, 8], "item_id": ["c", "a", "b", "d"], "datetime": day}
    assert interop.histories_by_user(table(library, columns)) == {7: ["a", "b", "c"], 8: ["d"]}
    del columns["datetime"]
    assert interop.histories_by_user(table(library, columns)) == {7: ["c", "a", "b"], 8: ["d"]}


def test_errors(recommender: sw.Recommender) -> None:
    twice = {"user": [1, 1], "item": ["a", "a"], "score": [1.0, 2.0]}
    for call, sentence in (
        (lambda: interop.scores_by_user({"user": [1], "item": [2]}), "table must be one with a column score"),
        (lambda: interop.scores_by_user(5), "table must be one with a column user_id or user, got int"),
        (lambda: interop.scores_by_user(twice), "one row for each user and item, got 'a' twice for user 1"),
        (
            lambda: interop.scores_by_user(twice | {"item": ["a", "b"], "score": [1.0, None]}),
            "score must be a finite number",
        ),
        (lambda: interop.slates_to_frame([], [1]), "users must be one for each of 0 slates, got 1"),
        (lambda: interop.slates_to_frame([], library="arrow"), "library must be one of pandas, polars"),
        (lambda: interop.slates_to_frame([], names="french"), "names must be one of setwise, rectools"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            call()
