"""Mistakes in calls from Python: every error names the argument, what came and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import setwise as sw
from mistakes import check_sentence
from saved_songs import model
from setwise.errors import SetwiseError
from setwise.training import SimpleTransformer

N = 20
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = RNG.normal(size=(3, N, 4))
EMBEDDINGS, SCORES = RNG.normal(size=(N, 3)), np.arange(float(N))
NAN, USER = float("nan"), np.ones(4)


class Objects(NamedTuple):
    """What a user has made before the mistake."""

    catalog: sw.Catalog
    plain: sw.Recommender
    songs: sw.Recommender
    instance: sw.Instance


def catalog(**changes: Any) -> sw.Catalog:
    return sw.Catalog(**{"query": QUERY, "key": KEY, "value": VALUE} | changes)


@pytest.fixture(scope="module")
def made() -> Objects:
    items = catalog()
    plain, songs = sw.Recommender(sw.Index.build(items, cells=2)), sw.Recommender.from_model(model(), cells=4)
    return Objects(items, plain, songs, sw.Instance.from_catalog(items, USER, np.arange(N)))


def where(**conditions: object) -> Callable[[Objects], object]:
    return lambda made: made.songs.recommend(history=[], where=conditions)


def rerank(**changes: Any) -> Callable[[Objects], object]:
    return lambda made: sw.rerank(**{"scores": SCORES, "k": 5, "embeddings": EMBEDDINGS} | changes)


MISTAKES: dict[str, tuple[Callable[[Objects], object], tuple[str, ...]]] = {
    "one row": (lambda made: catalog(query=QUERY[0]), ("query", "(4,)", "reshape it")),
    "fewer keys": (lambda made: catalog(key=KEY[:5]), ("key", "(20, 1, 4)", "(5, 1, 4)", "reshape it")),
    "fewer values": (lambda made: catalog(value=VALUE[:5]), ("value", "(5, 1, 4)", "reshape it")),
    "NaN": (lambda made: catalog(value=VALUE + NAN), ("value", "nan at (0, 0, 0)", "remove or replace")),
    "infinity": (lambda made: catalog(key=KEY + np.inf), ("key", "inf at (0, 0, 0)", "remove or replace")),
    "text": (lambda made: catalog(query=[["a"] * 4] * N), ("query", "dtype <U1", "convert it")),
    "ragged": (lambda made: catalog(query=[[1, 2], [3]]), ("query", "different lengths", "pad or split it")),
    "ids twice": (lambda made: catalog(ids=["a"] * N), ("ids", "'a' more than once", "its own id")),
    "two ids": (lambda made: catalog(ids=["a", "b"]), ("ids", "got 2", "align ids")),
    "mixed ids": (lambda made: catalog(ids=["a", 1] * 10), ("ids", "all str or all int", "convert ids")),
    "short column": (lambda made: catalog(attributes={"artist": ["x"]}), ("'artist'", "got 1", "align it")),
    "attributes": (lambda made: catalog(attributes=["artist"]), ("attributes", "list", "{name: column}")),
    "reward": (lambda made: catalog(reward="logistic"), ("reward", "str", "pass a Reward")),
    "sink": (lambda made: catalog(sink=np.zeros(4)), ("sink", "ndarray", "setwise.Sink(...)")),
    "scale": (lambda made: sw.Logistic(scale=-1), ("scale", "-1.0", "put the sign")),
    "arrays to index": (lambda made: sw.Index.build(QUERY), ("catalog", "ndarray", "Catalog(query, key, value)")),
    "no cells": (lambda made: sw.Index.build(made.catalog, cells=0), ("cells", "got 0", "pass 1 or more")),
    "backend": (lambda made: sw.Index.build(made.catalog, backend="trea"), ("backend", "'trea'", "did you mean 'tree'?")),
    "no index": (lambda made: sw.Recommender(made.catalog), ("index", "Catalog", "Index.build")),
    "ranker": (lambda made: sw.Recommender(made.plain.index, "gredy"), ("ranker", "'gredy'", "did you mean 'greedy'?")),
    "long user": (lambda made: made.plain.recommend(np.ones(7)), ("user", "(1, 4)", "(1, 7)", "from one model")),
    "user of NaN": (lambda made: made.plain.recommend(USER + NAN), ("user", "nan at (0, 0)", "remove or replace")),
    "user's name": (lambda made: made.plain.recommend("alice"), ("user", "<U5", "convert it")),
    "nobody": (lambda made: made.plain.recommend(), ("history, user, features", "none of them", "pass one of them")),
    "two users": (lambda made: made.songs.recommend(USER, history=[]), ("history, user, features", "history and user", "pass one")),
    "k = 0": (lambda made: made.plain.recommend(USER, k=0), ("k must", "got 0", "pass 1 or more")),
    "k = 2.5": (lambda made: made.plain.recommend(USER, k=2.5), ("k must", "2.5", "pass an int")),
    "no time": (lambda made: made.plain.recommend(USER, budget_ms=0), ("budget_ms", "0.0", "pass milliseconds")),
    "one id": (lambda made: made.songs.recommend(history="s1"), ("history", "'s1'", "into a list")),
    "history": (
        lambda made: made.songs.recommend(history=["S1"], unknown="error"),
        ("an id of history", "'S1'", "did you mean 's1'?"),
    ),
    "numbers": (lambda made: made.songs.recommend(history=[1]), ("an id of history", "got 1", "check")),
    "unknown": (lambda made: made.songs.recommend(history=[], unknown="drop"), ("unknown", "'drop'", "'ignore' or")),
    "no encoder": (lambda made: made.plain.recommend(history=[1]), ("history", "no encoder", "pass a user")),
    "exclude": (lambda made: made.plain.recommend(USER, exclude=[99], unknown="error"), ("an id of exclude", "99", "check")),
    "include": (lambda made: made.plain.recommend(USER, k=2, include=[1, 2, 3]), ("include", "k = 2", "got 3", "raise k")),
    "attribute": (where(artst="x"), ("attribute", "'artst'", "did you mean 'artist'?")),
    "no such value": (where(artist="nobody"), ("where['artist']", "'nobody'", "name one of its texts: ")),
    "no mapping": (lambda made: made.songs.recommend(history=[], where="a=x"), ("where", "'a=x'", "write where=")),
    "limit 0": (
        lambda made: made.songs.recommend(history=[], at_most={"artist": 0}),
        ("at_most['artist']", "got 0", "pass 1 or more"),
    ),
    "limit list": (
        lambda made: made.songs.recommend(history=[], at_most=["artist"]),
        ("at_most", "['artist']", "write at_most={'artist': 2}"),
    ),
    "few scores": (lambda made: made.plain.recommend(USER, scores=[1, 2]), ("scores", "20 items", "got 2", "one score")),
    "no score": (lambda made: made.plain.recommend(USER, scores=SCORES + NAN), ("scores", "nan at (0,)", "remove")),
    "scores of others": (
        lambda made: made.songs.recommend(history=[], scores={"S1": 1.0}),
        ("an id of scores", "'S1'", "did you mean 's1'?"),
    ),
    "rows": (lambda made: sw.set_value(made.catalog, USER, [1, 99]), ("items", "0 to 19", "got 99", "row numbers")),
    "a row twice": (lambda made: sw.set_value(made.catalog, USER, [1, 1]), ("items", "1 more than once", "remove")),
    "rank by": (lambda made: sw.rank(made.instance, 3, "beem"), ("ranker", "'beem'", "did you mean 'beam'?")),
    "option": (lambda made: sw.rank(made.instance, 3, "beam", widht=3), ("'beam'", "'widht'", "did you mean 'width'?")),
    "no instance": (lambda made: sw.rank(made.catalog, 3), ("instance", "Catalog", "Instance.from_catalog")),
    "rerank NaN": (rerank(scores=SCORES + NAN), ("scores", "finite for at least one", "check where")),
    "rerank rows": (rerank(embeddings=EMBEDDINGS[:3]), ("embeddings", "(20, d)", "(3, 3)", "reshape it")),
    "rerank ids": (rerank(ids=["a"]), ("ids", "20, one for each score", "(1,)", "align ids")),
    "rerank lists as ids": (rerank(ids=[["a"]] * N), ("ids", "texts or numbers", "one text or number")),
    "diversity": (rerank(diversity=3), ("diversity", "from 0", "3.0", "pass such a number")),
    "strategy": (rerank(strategy="mrm"), ("strategy", "'mrm'", "setwise, mmr, dpp")),
    "nothing alike": (rerank(embeddings=None, diversity=0.5), ("diversity", "which candidates", "pass embeddings")),
    "missing folder": (lambda made: sw.Recommender.load("nowhere"), ("nowhere", "no folder", "check the path")),
    "lists to fit": (lambda made: SimpleTransformer.fit([["a", "b"]]), ("data", "list", "Sessions.of(lists of ids)")),
    "another slate": (lambda made: made.plain.explain([1, 2]), ("slate", "recommend again")),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(made: Objects, name: str) -> None:
    call, words = MISTAKES[name]
    with pytest.raises(SetwiseError) as caught:
        call(made)
    check_sentence(str(caught.value), *words)
