"""The caller's own scores: the best set with them by brute force, top-k without attention, one answer in every form."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.errors import Infeasible, InvalidInput, UnknownId
from setwise.model.added_scores import AddedScores
from setwise.model.encoder import Encoder
from setwise.recommend.query import Query, arguments_from_json
from setwise.verification.slate_file import read_slate, write_slate
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog

FLOOR = -0.7


def world(seed: int, n: int, **options: Any) -> tuple[sw.Recommender, sw.User]:
    """A recommender of n items with text ids and two attributes."""
    rng = np.random.default_rng(seed)
    attributes = {"artist": [f"a{number}" for number in rng.integers(4, size=n)], "year": rng.integers(1990, 1994, n)}
    catalog, user = random_catalog(seed, n=n, ids=[f"i{row}" for row in range(n)], attributes=attributes, **options)
    return sw.Recommender(sw.Index.build(catalog, cells=4, progress=False)), user


def drawn(rng: np.random.Generator, catalog: sw.Catalog) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Arguments of ``recommend`` in any form; the score of every item, and which have one."""
    n = len(catalog)
    added, kind = rng.normal(size=n), rng.integers(3)
    if kind == 0:
        return {"scores": added if rng.integers(2) else added.tolist()}, added, np.ones(n, bool)
    named = rng.random(n) < 0.7
    named[rng.integers(n)] = True
    mapping = {catalog.ids[row]: float(added[row]) for row in rng.permutation(np.flatnonzero(named)).tolist()}
    if kind == 1:
        return {"scores": mapping}, added, named
    return {"scores": mapping, "scores_floor": FLOOR}, np.where(named, added, FLOOR), np.ones(n, bool)


def limits(rng: np.random.Generator, catalog: sw.Catalog, shown: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """Constraints of every kind, and the items that they leave."""
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["exclude"] = [f"i{row}" for row in rng.integers(len(catalog), size=2)]
        shown = shown & ~np.isin(catalog.ids[np.arange(len(catalog))], options["exclude"])
    if rng.random() < 0.3:
        options["where"] = {"year": (1991, None)}
        shown = shown & (np.asarray(catalog.attributes["year"]) >= 1991)
    if rng.random() < 0.4:
        options["at_most"] = {"artist": 1}
    if rng.random() < 0.3 and shown.any():
        options["include"] = [f"i{rng.choice(np.flatnonzero(shown))}"]
    return options, shown


def brute_force(catalog: sw.Catalog, user: sw.User, k: int, shown: np.ndarray, options: dict[str, Any]) -> float:
    """The largest F over all feasible sets, by the reference objective."""
    pinned = {int(one[1:]) for one in options.get("include", ())}
    artist = [catalog.attributes.record(row)["artist"] for row in range(len(catalog))]
    best = -np.inf
    for size in range(1, k + 1):
        for rows in itertools.combinations(np.flatnonzero(shown).tolist(), size):
            artists = [artist[row] for row in rows]
            if pinned <= set(rows) and ("at_most" not in options or len(set(artists)) == len(artists)):
                best = max(best, sw.set_value(catalog, user, list(rows)))
    return best


def test_the_best_set_with_scores_and_every_constraint(count) -> None:
    proven = 0
    for seed in range(count(400)):
        rng = np.random.default_rng(seed)
        options = {"heads": 1 + seed % 2, "base": bool(rng.integers(2)), "sink": bool(rng.integers(2))}
        recommender, user = world(seed, int(rng.integers(4, 10)), rewards=REWARDS[: 1 + seed % 3], **options)
        catalog = recommender.index.catalog
        arguments, added, scored = drawn(rng, catalog)
        constraints, shown = limits(rng, catalog, scored)
        alone = rng.random() < 0.2
        if not shown.any():
            with pytest.raises(Infeasible):
                recommender.recommend(user, 3, **arguments, **constraints)
            continue
        slate = recommender.recommend(None if alone else user, 3, **arguments, **constraints, budget_ms=200)
        plain = sw.User(0 * user.heads, None if user.base is None else 0 * user.base) if alone else user
        reference = plain.with_scores(AddedScores.dense(added))
        best = brute_force(catalog, reference, 3, shown, constraints)
        assert slate.value == pytest.approx(sw.set_value(catalog, reference, slate.indices), rel=1e-12, abs=1e-12)
        assert slate.value == pytest.approx(best, rel=1e-9, abs=1e-9), seed
        assert slate.upper_bound >= best - 1e-12 * abs(best)
        proven += slate.proven
    assert proven


def test_scores_alone_give_top_k_and_prove_it() -> None:
    recommender, _ = world(0, 3000, heads=2, base=True, sink=True)
    catalog, rng = recommender.index.catalog, np.random.default_rng(0)
    added = rng.normal(size=3000)
    top = np.argsort(-added)
    slate = recommender.recommend(scores=added, k=10)
    assert set(slate.indices) == set(top[:10])
    assert slate.proven
    reward = catalog.rewards[0]
    assert slate.value == pytest.approx(sum(reward.value(one) for one in added[top[:10]]))
    for named in (rng.permutation(3000)[:300], rng.permutation(3000)[:1000]):  # below and above the most candidates
        mapping = {f"i{row}": added[row] for row in named}
        slate = recommender.recommend(scores=mapping, k=10)
        assert set(slate.indices) == set(named[np.argsort(-added[named])[:10]])
        assert slate.proven
        floored = recommender.recommend(scores=mapping, scores_floor=float(np.sort(added[named])[-4]), k=4)
        assert floored.value == pytest.approx(float(reward.value(np.sort(added[named])[-4:]).sum()))
        assert floored.proven


def test_a_certificate_holds_for_every_set_found_otherwise() -> None:
    """On larger catalogues a heavy search over all items must not exceed the bound."""
    for seed in range(4):
        recommender, user = world(seed, 700, heads=1 + seed % 2, base=True, sharpness=3.0)
        rng, catalog = np.random.default_rng(seed), recommender.index.catalog
        for _ in range(3):
            arguments, added, shown = drawn(rng, catalog)
            slate = recommender.recommend(user, 5, **arguments, budget_ms=60)
            instance = sw.Instance.from_catalog(
                catalog, user.with_scores(AddedScores.dense(added)), np.flatnonzero(shown)
            )
            assert sw.rank(instance, 5, "swap", evaluations=40_000).value <= slate.upper_bound * (1 + 1e-12)
            assert slate.user.scores is not None
            np.testing.assert_allclose(slate.user.scores.of(slate.indices), added[slate.indices])


def test_many_requests_are_answered_as_one_by_one() -> None:
    recommender, user = world(1, 900, heads=2, base=True)
    rng, catalog = np.random.default_rng(1), recommender.index.catalog
    users = [sw.User(rng.normal(size=user.heads.shape), rng.normal(size=2)) for _ in range(6)]
    users[4] = users[4].with_scores(AddedScores.sparse(900, rng.permutation(900)[:50], rng.normal(size=50)))
    sparse = {catalog.ids[row]: 1.0 + row / 1000 for row in range(40)}
    scores = [rng.normal(size=900), {catalog.ids[row]: rng.normal() for row in range(600)}, sparse] * 2
    for floor in (None, 0.0):
        given = [sparse] * 6 if floor is not None else scores
        options: dict[str, Any] = {"k": 4, "at_most": {"artist": 2}, "certify": False, "scores_floor": floor}
        many = recommender.recommend_many(users, scores=given, threads=1, **options) if floor is not None else None
        if many is None:
            del options["scores_floor"]
            many = recommender.recommend_many(users, scores=given, threads=1, **options)
        for one, own, slate in zip(users, given, many, strict=True):
            alone = recommender.recommend(one, scores=own, **options)
            assert slate.indices.tolist() == alone.indices.tolist()
            assert slate.value == alone.value
    assert [slate.indices.tolist() for slate in recommender.recommend_many(scores=[sparse, sparse], k=3)] == [
        recommender.recommend(scores=sparse, k=3).indices.tolist()
    ] * 2


def test_scores_of_the_user_and_of_the_caller_add_up() -> None:
    """An encoder may add sparse scores of its own: absent ones are 0 and stay eligible unless the caller says so."""
    recommender, user = world(2, 60)
    catalog, rng = recommender.index.catalog, np.random.default_rng(2)
    own = AddedScores.sparse(60, [3, 7, 20], [2.0, -1.0, 0.5])
    dense = rng.normal(size=60)
    slate = recommender.recommend(user.with_scores(own), 3, scores=dense)
    assert slate.value == recommender.recommend(user, 3, scores=dense + own.whole()).value
    mapping = {"i3": 1.0, "i4": 0.5, "i5": 0.25}
    slate = recommender.recommend(user.with_scores(own), 2, scores=mapping)
    assert set(slate.items) <= mapping.keys()
    assert slate.user.scores.of(np.array([3, 4, 5])).tolist() == [3.0, 0.5, 0.25]
    slate = recommender.recommend(user.with_scores(own), 2, scores=mapping, scores_floor=-1.0)
    assert slate.user.scores.of(np.array([3, 4, 7, 8])).tolist() == [3.0, 0.5, -2.0, -1.0]
    assert catalog is slate.catalog


def test_with_a_history() -> None:
    rng = np.random.default_rng(0)
    catalog, _ = random_catalog(0, n=50, ids=list(range(100, 150)))
    encoder = Encoder(
        items=rng.normal(size=(50, 4)), heads_weight=rng.normal(size=(1, 3, 4)), heads_bias=np.zeros((1, 3))
    )
    recommender = sw.Recommender(sw.Index.build(catalog, cells=4, progress=False), encoder=encoder)
    scores = rng.normal(size=50)
    slate = recommender.recommend(history=[101, 102], scores=scores, k=3)
    plain = recommender.recommend(history=[101, 102], k=3)
    assert not {101, 102} & set(slate.items)
    direct = recommender.recommend(plain.user, scores=scores, exclude=[101, 102], k=3)
    assert slate.indices.tolist() == direct.indices.tolist()
    many = recommender.recommend_many(histories=[[101, 102], []], scores=[scores, {"120": 1.0, 121: 2.0}], k=3)
    assert many[0].value == slate.value
    assert set(many[1].items) == {120, 121}


def test_an_explanation_counts_them() -> None:
    recommender, user = world(3, 40)
    added = np.random.default_rng(3).normal(size=40)
    slate = recommender.recommend(user, 4, scores=added)
    explanation = recommender.explain(slate)
    reference = user.with_scores(AddedScores.dense(added))
    expected = [sw.set_value(slate.catalog, reference, [row]) for row in slate.indices]
    np.testing.assert_allclose(explanation.alone, expected)
    np.testing.assert_allclose(explanation.rewards, slate.rewards)
    top_k = next(rival for rival in explanation.rivals if rival.ranker == "knn")
    assert top_k.value == pytest.approx(sw.set_value(slate.catalog, reference, top_k.indices))


def test_json_and_slate_files_keep_them(tmp_path: Path) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        recommender, user = world(seed, 30, base=True)
        catalog = recommender.index.catalog
        arguments, added, _ = drawn(rng, catalog)
        slate = recommender.recommend(user, 3, **arguments, exclude=["i2"], budget_ms=1000)
        text = json.dumps(slate.query.to_json(), allow_nan=False)
        again = Query.parse(recommender.index, **arguments_from_json(json.loads(text)))
        assert json.dumps(again.to_json(), allow_nan=False) == text
        np.testing.assert_array_equal(again.eligible.rows, slate.query.eligible.rows)
        np.testing.assert_array_equal(again.user.scores.whole(), slate.user.scores.whole())
        slate.save(tmp_path / "slate.json")
        result = verify(tmp_path / "slate.json", catalog, user)
        assert result.ok, result.checks
        assert verify(tmp_path / "slate.json", catalog, slate.user).ok
        assert not verify(tmp_path / "slate.json", catalog, user.with_scores(AddedScores.dense(added + 1))).ok
        forged = {key: part for key, part in read_slate(tmp_path / "slate.json").items() if key != "digest"}
        scores = forged["query"]["scores"]
        raised = [one + 0.5 for one in scores] if isinstance(scores, list) else dict.fromkeys(scores, 9.0)
        write_slate(tmp_path / "forged.json", forged | {"query": forged["query"] | {"scores": raised}})
        assert not verify(tmp_path / "forged.json", catalog).ok


def test_a_slate_file_with_an_item_without_a_score_is_refused(tmp_path: Path) -> None:
    recommender, user = world(4, 12)
    slate = recommender.recommend(user, 2, scores={f"i{row}": 1.0 for row in range(6)})
    slate.save(tmp_path / "slate.json")
    content = {key: part for key, part in read_slate(tmp_path / "slate.json").items() if key != "digest"}
    first = slate.items.tolist()[0]
    kept = {one: score for one, score in content["query"]["scores"].items() if one != first}
    write_slate(tmp_path / "slate.json", content | {"query": content["query"] | {"scores": kept}})
    failed = {check.name for check in verify(tmp_path / "slate.json", slate.catalog).checks if not check.ok}
    assert "feasible" in failed


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"scores": [1.0, 2.0]}, InvalidInput, "scores must be one for each of 12 items, got 2"),
        ({"scores": np.zeros((12, 1))}, InvalidInput, "scores must be an array of shape"),
        ({"scores": [np.nan] * 12}, InvalidInput, "scores must be finite everywhere"),
        ({"scores": [np.inf] * 12}, InvalidInput, "scores must be finite everywhere"),
        ({"scores": ["a"] * 12}, InvalidInput, "scores must be an array of real numbers"),
        ({"scores": {"i1": np.nan}}, InvalidInput, r"scores\['i1'\] must be a finite number"),
        ({"scores": {"i1": -np.inf}}, InvalidInput, r"scores\['i1'\] must be a finite number"),
        ({"scores": {"i1": "high"}}, InvalidInput, r"scores\['i1'\] must be a finite number"),
        ({"scores": {"i1": 1e200}}, InvalidInput, "scores must be at most 1e.100 in size"),
        ({"scores": {"i99": 1.0}, "unknown": "error"}, UnknownId, "i99"),
        ({"scores": {1: 1.0}}, UnknownId, "1"),
        ({"scores": {}}, InvalidInput, "scores must be a mapping with at least one item"),
        ({"scores": np.zeros(12), "scores_floor": 0.0}, InvalidInput, "scores_floor must be left out where scores has"),
        ({"scores_floor": 0.0}, InvalidInput, "scores_floor must be left out without scores"),
        ({"scores": {"i1": 1.0}, "scores_floor": np.nan}, InvalidInput, "scores_floor must be a finite number"),
        ({"scores": {"i1": 1.0}, "scores_floor": -1e101}, InvalidInput, "scores_floor must be at most 1e.100 in size"),
        ({"scores": {"i1": 1.0}, "exclude": ["i1"]}, Infeasible, "where and exclude must be"),
        ({"scores": {"i1": 1.0}, "where": {"year": 1800}}, Infeasible, "must be"),
        ({"scores": {"i1": 1.0}, "include": ["i2"]}, Infeasible, "include must be items that may be shown"),
    ],
)
def test_errors(arguments: dict[str, Any], error: type[Exception], sentence: str) -> None:
    recommender, user = world(0, 12)
    with pytest.raises(error, match=sentence):
        recommender.recommend(user, 3, **arguments)


def test_errors_of_many() -> None:
    recommender, user = world(0, 12)
    with pytest.raises(InvalidInput, match="scores must be one entry for each of the 2 users, got 1"):
        recommender.recommend_many([user, user], scores=[np.zeros(12)])
    with pytest.raises(InvalidInput, match="scores must be a list of scores"):
        recommender.recommend_many(scores={"i1": 1.0})
    with pytest.raises(InvalidInput, match="exactly one of users, histories, features, or by scores alone, got none"):
        recommender.recommend_many()
