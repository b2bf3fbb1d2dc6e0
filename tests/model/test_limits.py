"""The list of limits: a toy limit works everywhere from its one entry, and each limit is offered everywhere."""

from __future__ import annotations

import inspect
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import setwise as sw
from setwise.cli import query_options
from setwise.cli.recommend import recommend as recommend_command
from setwise.errors import InvalidInput
from setwise.model.limits import LIMITS, Limit, catalog_limits, limits_to_json
from setwise.recommend import pipeline
from setwise.recommend.query import Query, arguments_from_json
from setwise.service.schemas import RecommendRequest
from setwise.verification.verify import verify
from worlds import random_catalog

TOY = Limit("at_most_of", by_value=True, upper=True)
GENRES = ("jazz", "rock", "folk")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """An upper limit on single values, {"genre": {"jazz": 1}}, added by its entry alone."""
    monkeypatch.setitem(LIMITS, TOY.name, TOY)
    return TOY


def world(seed: int, n: int = 12) -> tuple[sw.Recommender, sw.User, list[str]]:
    genres = [GENRES[int(code)] for code in np.random.default_rng(seed).integers(3, size=n)]
    catalog, user = random_catalog(seed, n=n, sharpness=2.0, attributes={"genre": genres})
    return sw.Recommender(sw.Index.build(catalog, cells=3)), user, genres


def best_value(catalog: sw.Catalog, user: sw.User, genres: list[str], k: int, stated: dict[str, int]) -> float:
    """By brute force, from the plain list of genres."""
    return max(
        sw.set_value(catalog, user, list(rows))
        for size in range(1, k + 1)
        for rows in itertools.combinations(range(len(genres)), size)
        if all(sum(genres[row] == value for row in rows) <= n for value, n in stated.items())
    )


def test_a_toy_limit_needs_its_entry_alone(toy: Limit, tmp_path: Path) -> None:
    """Ranking, the query, its JSON form, the pipeline, the slate file and its verification."""
    tight = 0
    for seed in range(6):
        recommender, user, genres = world(seed)
        catalog, stated = recommender.index.catalog, {"jazz": 1, "rock": 1}
        best = best_value(catalog, user, genres, 3, stated)
        tight += best < best_value(catalog, user, genres, 3, {}) - 1e-9

        instance = sw.Instance.from_catalog(catalog, user, np.arange(len(genres)))
        ranking = sw.rank(instance, 3, "exhaustive", at_most_of={"genre": stated})
        assert ranking.value == pytest.approx(best, rel=1e-12)

        query = Query.parse(recommender.index, user, k=3, at_most_of={"genre": stated})
        arguments = arguments_from_json(query.to_json())
        assert arguments["at_most_of"] == {"genre": stated}
        slate = pipeline.run(query, recommender._current(True))
        assert slate.value == pytest.approx(best, rel=1e-9)
        assert slate.upper_bound >= best - 1e-9
        assert all(sum(genres[row] == value for row in slate.indices) <= n for value, n in stated.items())

        slate.save(tmp_path / "slate.json")
        assert verify(tmp_path / "slate.json", catalog).ok
    assert tight  # the limit changed an answer


def test_verification_rejects_a_slate_that_breaks_a_toy_limit(toy: Limit, tmp_path: Path) -> None:
    """The slate of a wider limit, saved as the answer to a narrower one."""
    recommender, user, genres = world(0)
    free = pipeline.run(Query.parse(recommender.index, user, k=4), recommender._current(True))
    value, count = Counter(genres[row] for row in free.indices).most_common(1)[0]
    assert count > 1
    narrow = Query.parse(recommender.index, user, k=4, at_most_of={"genre": {value: count - 1}})
    assert free.query.keeps_limits(free.indices)
    assert not narrow.keeps_limits(free.indices)
    replace(free, query=narrow).save(tmp_path / "slate.json")
    checks = {check.name: check for check in verify(tmp_path / "slate.json", recommender.index.catalog).checks}
    assert not checks["feasible"].ok
    assert f"more than {count - 1} items have '{value}' as 'genre'" in checks["feasible"].sentence


def test_every_limit_is_an_argument_a_field_and_an_option() -> None:
    """A limit is an argument of a request too, from which the doors take it."""
    fields = {field.name for field in msgspec.structs.fields(RecommendRequest)}
    for name in LIMITS:
        assert name in inspect.signature(sw.Recommender.recommend).parameters
        assert name in fields
        assert name in inspect.signature(recommend_command).parameters


@pytest.mark.parametrize("limit", LIMITS.values(), ids=lambda limit: limit.name)
def test_options_of_the_command_line(limit: Limit) -> None:
    texts = ["genre=jazz:2", "genre=a:b:1"] if limit.by_value else ["genre=2"]
    stated: Any = {"genre": {"jazz": 2, "a:b": 1}} if limit.by_value else {"genre": 2}
    assert query_options.limits(**{limit.name: texts}) == {limit.name: stated}
    with pytest.raises(InvalidInput, match=f"--{limit.name.replace('_', '-')} must be like"):
        query_options.limits(**{limit.name: ["genre"]})


@pytest.mark.parametrize("limit", LIMITS.values(), ids=lambda limit: limit.name)
def test_bad_limits(limit: Limit) -> None:
    attributes = world(0)[0].index.catalog.attributes
    wrong = {"genre": 2} if limit.by_value else {"genre": {"jazz": 2}}
    for given in ([1], wrong, {"genre": -1}, {"genre": 1.5}, {"artist": 1}, {"artist": {"a": 1}}):
        with pytest.raises(InvalidInput, match=limit.name):
            catalog_limits({limit.name: given}, attributes)
    assert catalog_limits({limit.name: None}, attributes) == catalog_limits({limit.name: {}}, attributes) == {}
    assert limits_to_json({})[limit.name] == {}


def test_an_unknown_argument_is_refused_by_name() -> None:
    recommender, user, _ = world(0)
    with pytest.raises(InvalidInput, match="at_mots"):
        recommender.recommend_many([user], at_mots={"genre": 1})
