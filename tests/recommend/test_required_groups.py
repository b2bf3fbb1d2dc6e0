"""``at_least`` and ``exactly`` in a query: against brute force, over retrieval, in JSON and in slate files."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput
from setwise.recommend import lower_limits
from setwise.recommend.query import arguments_from_json
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog

LETTERS = ("jazz", "rock", "folk")


def world(seed: int, n: int = 12, **options: Any) -> tuple[sw.Recommender, sw.User, dict[str, list[Any]]]:
    """A recommender, a user, and the attributes as plain lists."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {
        "genre": [None if rng.random() < 0.1 else LETTERS[int(rng.integers(3))] for _ in range(n)],
        "year": rng.integers(2000, 2002, size=n).tolist(),
    }
    rewards = REWARDS if seed % 2 else REWARDS[:1]
    catalog, user = random_catalog(seed, n=n, sharpness=2.0, rewards=rewards, attributes=columns)
    return sw.Recommender(sw.Index.build(catalog, cells=3), **options), user, columns


def feasible(columns: dict[str, list[Any]], rows: tuple[int, ...], options: dict[str, Any], shown: set[int]) -> bool:
    """Whether the set keeps the limits, read from the plain lists."""
    if not set(rows) <= shown or not set(options.get("include", ())) <= set(rows):
        return False
    for name, least in options.get("at_least", {}).items():
        counts = Counter(columns[name][row] for row in rows)
        if any(counts[value] < n for value, n in least.items()):
            return False
    for name, n in options.get("exactly", {}).items():
        counts = Counter(columns[name][row] for row in rows)
        if any(counts[value] != n for value in {columns[name][row] for row in shown} - {None}):
            return False
    for name, n in options.get("at_most", {}).items():
        counts = Counter(columns[name][row] for row in rows if columns[name][row] is not None)
        if counts and max(counts.values()) > n:
            return False
    return True


def random_options(rng: np.random.Generator) -> dict[str, Any]:
    options: dict[str, Any] = {"k": int(rng.integers(2, 5))}
    kind = rng.integers(4)
    if kind in (0, 3):
        options["at_least"] = {"genre": {str(rng.choice(LETTERS)): int(rng.integers(1, 3))}}
    if kind in (1, 3):
        options["exactly"] = {"year": int(rng.integers(1, 3))}
    if kind == 2:
        options |= {"exactly": {"genre": 1}, "at_most": {"year": int(rng.integers(1, 4))}}
    if rng.random() < 0.4:
        options["exclude"] = rng.choice(12, size=2, replace=False).tolist()
    if rng.random() < 0.2:
        options["where"] = {"year": 2001}
    return options


@pytest.mark.parametrize("candidates", [400, 3], ids=["all items", "few candidates"])
def test_limits_and_bounds_against_brute_force(count, candidates: int, tmp_path: Path) -> None:
    rng, kinds = np.random.default_rng(candidates), Counter[str]()
    worlds = [world(seed, candidates=candidates) for seed in range(6)]
    for number in range(count(600, 40)):
        rec, user, columns = worlds[number % len(worlds)]
        options = random_options(rng)
        shown = {
            row
            for row in range(12)
            if row not in options.get("exclude", ()) and ("where" not in options or columns["year"][row] == 2001)
        }
        sizes = range(1, options["k"] + 1)
        every = (rows for size in sizes for rows in itertools.combinations(range(12), size))
        values = [
            sw.set_value(rec.index.catalog, user, rows) for rows in every if feasible(columns, rows, options, shown)
        ]
        if not values:
            with pytest.raises(Infeasible):
                rec.recommend(user, **options)
            kinds["infeasible"] += 1
            continue
        slate = rec.recommend(user, **options)
        assert feasible(columns, tuple(slate.indices.tolist()), options, shown)
        best = max(values)
        assert slate.value <= best + 1e-9
        assert slate.upper_bound >= best - 1e-9 * abs(best), "the bound holds for every feasible set"
        if candidates == 400:
            assert slate.value == pytest.approx(best, rel=1e-9)
        slate.save(tmp_path / "slate.json")
        assert verify(tmp_path / "slate.json", rec.index.catalog, user).ok
        kinds["proven" if slate.proven else "not proven"] += 1
    assert kinds["infeasible"]
    assert kinds["proven"] + kinds["not proven"] > kinds["infeasible"]


def test_every_group_has_candidates() -> None:
    """Retrieval alone would return none of the items of low score."""
    n = 3000
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, n, 4))
    value = rng.normal(size=(n, 3))
    value[:30] = -10.0  # a group that no user likes
    group = ["rare"] * 30 + ["common"] * (n - 30)
    catalog = sw.Catalog(query, key, value, attributes={"group": group})
    rec = sw.Recommender(sw.Index.build(catalog, cells=8), candidates=40)
    user = np.ones(3)
    assert not (rec.recommend(user, k=4).indices < 30).any()
    for limits in ({"exactly": {"group": 2}}, {"at_least": {"group": {"rare": 2}}}):
        slate = rec.recommend(user, k=4, **limits)
        assert (slate.indices < 30).sum() == 2
        assert slate.upper_bound >= slate.value
    many = rec.recommend_many([user, -user], k=4, exactly={"group": 2})
    assert [(slate.indices < 30).sum() for slate in many] == [2, 2]
    assert {one.ranker for one in rec.explain(many[0]).rivals} >= {"knn", "greedy"}


def test_the_json_form_names_numbers_by_texts(tmp_path: Path) -> None:
    rec, user, columns = world(1)
    slate = rec.recommend(user, k=4, at_least={"year": {2001: 2}}, exactly={"genre": 1})
    form = json.loads(json.dumps(slate.query.to_json()))
    assert form["at_least"] == {"year": {"2001": 2}}
    again = rec.recommend(**arguments_from_json(form))
    assert again.items.tolist() == slate.items.tolist()
    assert sum(columns["year"][row] == 2001 for row in again.indices) >= 2


@pytest.mark.parametrize(
    ("limits", "error", "sentence"),
    [
        (
            {"exactly": {"genre": 3}},
            Infeasible,
            r"exactly\['genre'\] must be of at most k = 4 items in all, got 9 of 3 values",
        ),
        ({"exactly": {"mood": 1}}, InvalidInput, "exactly must be about attributes the items have"),
        ({"exactly": {"genre": 0}}, InvalidInput, r"exactly\['genre'\] must be a whole number of at least 1"),
        ({"exactly": 1}, InvalidInput, "exactly must be a mapping"),
        ({"at_least": {"genre": {"polka": 1}}}, Infeasible, "eligible items with 'polka', 0, got 1"),
        ({"at_least": {"genre": {"jazz": 9}}}, Infeasible, "of at most k = 4 items in all, got 9"),
        ({"at_least": {"genre": 2}}, InvalidInput, "at_least must be a mapping {attribute: {value: n}}"),
        ({"at_least": {"year": {"late": 1}}}, InvalidInput, "about numbers, which the attribute holds, got 'late'"),
        ({"exactly": {"genre": 1}, "ranker": "paper"}, InvalidInput, "ranker must be one that honours exactly"),
    ],
)
def test_limits_that_are_refused(limits: dict[str, Any], error: type[Exception], sentence: str) -> None:
    rec, user, _ = world(0)
    with pytest.raises(error, match=sentence):
        rec.recommend(user, k=4, **limits)


def test_a_slate_that_breaks_a_lower_limit_is_not_verified(tmp_path: Path) -> None:
    rec, user, _ = world(2)
    free = rec.recommend(user, k=2, include=[0])
    for limits in ({"exactly": {"year": 2}}, {"at_least": {"year": {"2000": 2, "2001": 2}}}):
        free.save(tmp_path / "slate.json")
        from setwise.verification.slate_file import read_slate, write_slate

        content = read_slate(tmp_path / "slate.json")
        del content["digest"]
        write_slate(tmp_path / "slate.json", content | {"query": content["query"] | limits})
        checks = {one.name: one.ok for one in verify(tmp_path / "slate.json", rec.index.catalog, user).checks}
        assert not checks["feasible"]


def test_lower_limits_of_very_many_values_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over all items for each value took 20 s with 10^5 titles: a request of 40 bytes ended a worker."""
    n = 40_000
    rng = np.random.default_rng(0)
    titles = [f"title {row}" for row in range(n)]
    catalog = sw.Catalog(*rng.normal(size=(3, n, 2)), attributes={"title": titles, "price": rng.random(n)})
    recommender = sw.Recommender(sw.Index.build(catalog, cells=4), certify=False)
    recommender.recommend(np.ones(2), k=5, exactly={"price": 1}, where={"title": titles[:3]})
    limits: list[dict[str, Any]] = [
        {"exactly": {"title": 1}},
        {"exactly": {"price": 1}},
        {"at_least": {"title": dict.fromkeys(titles, 1)}},
    ]
    for name in ("_named", "_of_every_value"):  # these make the passes
        monkeypatch.setattr(lower_limits, name, lambda *_: pytest.fail("the items of each value were looked for"))
    for limit in limits:
        with pytest.raises(Infeasible, match=r"at most k = 5 items in all, got 40000 of 40000 values"):
            recommender.recommend(np.ones(2), k=5, **limit)
