"""The front door: retrieve, rank, certify; what is promised holds against every feasible set of the catalogue."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.bounds.catalog.cells import CellBounds
from setwise.errors import DamagedArtifact, Infeasible, InvalidInput, UnknownId
from setwise.model.encoder import Encoder
from setwise.recommend import pipeline, recommender
from setwise.recommend.recommender import Recommender
from setwise.retrieval.partition import Partition
from setwise.training import SimpleTransformer
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog


def world(seed: int, n: int = 300, **parts) -> tuple[sw.Recommender, sw.User]:
    attributes = {"artist": [f"artist {i % 40}" for i in range(n)], "year": [1990 + i % 30 for i in range(n)]}
    ids = [f"song {i}" for i in range(n)]
    catalog, user = random_catalog(
        seed, n=n, ids=ids, attributes=attributes, **{"rewards": [sw.Logistic(1.0, -2.0)]} | parts
    )
    return Recommender(sw.Index.build(catalog, cells=16), candidates=60), user


def test_a_slate_says_what_it_is(tmp_path) -> None:
    rec, user = world(1)
    catalog = rec.index.catalog
    slate = rec.recommend(user, k=5)
    assert len(slate) == len(slate.items) == len(slate.indices) == len(slate.rewards) <= 5
    assert slate.items.tolist() == [f"song {row}" for row in slate.indices]
    assert slate.value == pytest.approx(sw.set_value(catalog, user, slate.indices), rel=1e-12)
    np.testing.assert_allclose(slate.rewards, sw.item_rewards(catalog, user, slate.indices), rtol=1e-12)
    assert (np.diff(slate.rewards) <= 0).all(), "best first"
    np.testing.assert_array_equal(slate.attention, sw.attention(catalog, slate.indices))
    assert slate.upper_bound >= slate.value
    assert slate.gap == pytest.approx((slate.upper_bound - slate.value) / slate.upper_bound) or slate.proven
    assert set(slate.timings) == {"retrieve", "rank", "certify"}
    assert min(slate.timings.values()) >= 0
    slate.save(tmp_path / "slate.json")
    verification = verify(tmp_path / "slate.json", catalog)
    assert verification.ok, verification.checks


def test_numbers_without_sense_that_are_finite() -> None:
    rec, user = world(1, n=24)  # few items: without a limit of time the search for a proof goes on to its end
    plain = rec.recommend(user, k=3)
    assert rec.recommend(user, k=3, budget_ms=1e308).value == plain.value
    assert rec.recommend(user, k=10**400).value == rec.recommend(user, k=len(rec.index.catalog)).value
    assert rec.recommend(user, k=3, where={"year": (-(10**400), 10**400)}).value == plain.value


def test_drafts_of_killed_saves_are_removed(tmp_path) -> None:
    rec, user = world(1)
    new, old, other = (tmp_path / f".{name}" for name in (f"slate.json.{'a' * 16}", f"slate.json.{'b' * 16}", "mine"))
    for path in (new, old, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    rec.recommend(user, k=3).save(tmp_path / "slate.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([new.name, other.name, "slate.json"])


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans(), st.integers(1, 4))
def test_no_feasible_set_of_a_small_catalogue_beats_the_bound(seed, heads, base, sink, mixed, k) -> None:
    """Retrieval sees a few items only; the bound must hold for all sets of all items."""
    rewards = REWARDS if mixed else REWARDS[:1]
    catalog, user = random_catalog(seed, n=9, heads=heads, base=base, sink=sink, rewards=rewards, sharpness=2.0)
    rec = Recommender(sw.Index.build(catalog, cells=2), candidates=2)
    slate = rec.recommend(user, k=k)
    best = max(
        sw.set_value(catalog, user, chosen)
        for size in range(1, k + 1)
        for chosen in itertools.combinations(range(9), size)
    )
    assert slate.upper_bound >= best - 1e-12 * abs(best)
    assert slate.value <= best + 1e-9 * abs(best)
    if slate.proven:
        assert slate.value == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"at_most": {"artist": 1}}, {"include": ["song 3"], "budget_ms": 10_000}])
@pytest.mark.parametrize("hasty", [False, True])
def test_a_certificate_never_costs_value(options, hasty, monkeypatch) -> None:
    """Ranking stops early where a proof may come; where none comes, it must have gone all the way."""
    if hasty:  # a glance, and no time for a proof: everything is left to what follows
        for name, little in (("FIRST_LOOK", 10_000), ("FIRST_PROOF", 0.0), ("BOUND_MS", 0.0)):
            monkeypatch.setattr(pipeline, name, little)
    for seed in range(6):
        rec, user = world(seed, sharpness=3.0)
        certified, plain = (rec.recommend(user, k=6, certify=each, **options) for each in (True, False))
        assert certified.value >= plain.value * (1 - 1e-9)


def test_constraints_are_kept() -> None:
    rec, user = world(2)
    free = rec.recommend(user, k=6)
    slate = rec.recommend(
        user, k=6, exclude=free.items[:2], include=["song 7"], where={"year": (1990, 2010)}, at_most={"artist": 1}
    )
    attributes = rec.index.catalog.attributes
    assert not set(slate.items.tolist()) & set(free.items[:2].tolist())
    assert "song 7" in slate.items
    assert attributes.matching({"year": (1990, 2010)})[slate.indices].all()
    artists = [int(row) % 40 for row in slate.indices]
    assert len(set(artists)) == len(artists)
    assert slate.value <= slate.upper_bound


def test_small_catalogues_are_solved_outright() -> None:
    """When all items are candidates the instance itself is searched, with limits and pins."""
    catalog, user = random_catalog(3, n=12, attributes={"artist": [f"a{i % 3}" for i in range(12)]})
    rec = Recommender(sw.Index.build(catalog, cells=2))
    slate = rec.recommend(user, k=4, at_most={"artist": 1}, include=[5])
    instance = sw.Instance.from_catalog(catalog, user, np.arange(12))
    best = sw.rank(instance, 4, "exhaustive", at_most={"artist": 1}, include=[5])
    assert slate.proven
    assert slate.value == pytest.approx(best.value, rel=1e-9)
    assert slate.gap == 0.0


def test_without_a_certificate() -> None:
    rec, user = world(5)
    plain = Recommender(rec.index, certify=False, ranker="greedy")
    slate = plain.recommend(user, k=4)
    assert slate.upper_bound == np.inf
    assert slate.gap == 1.0
    assert not slate.proven


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(
    "options", [{}, {"exclude": ["song 1"], "where": {"year": (1995, None)}, "at_most": {"artist": 1}}]
)
def test_many_users_get_what_each_gets_alone(heads: int, options, monkeypatch) -> None:
    monkeypatch.setattr(recommender, "RETRIEVED_TOGETHER", 2)  # more than one pass
    rec, _ = world(6, heads=heads)
    users = np.random.default_rng(0).normal(size=(5, heads, 3))
    together = rec.recommend_many(users, k=4, threads=3, certify=False, **options)
    for user, slate in zip(users, together, strict=True):
        alone = rec.recommend(user, k=4, certify=False, **options)
        np.testing.assert_array_equal(slate.indices, alone.indices)
        assert slate.value == alone.value
    some = users[:3]  # more than one pass as well; each takes the time of a bound
    for threads in (1, 3):
        for user, slate in zip(some, rec.recommend_many(some, k=3, threads=threads, **options), strict=True):
            alone = rec.recommend(user, k=3, **options)
            assert set(slate.timings) == {"retrieve", "rank", "certify"}
            assert alone.value <= slate.upper_bound * (1 + 1e-9)
            assert slate.value <= alone.upper_bound * (1 + 1e-9)
            assert slate.value == pytest.approx(alone.value) or not (slate.proven and alone.proven)
        assert set(slate.timings) == {"retrieve", "rank", "certify"}
    assert rec.recommend_many([], k=4) == []
    for whom, got in (({}, "none of them"), ({"users": 5}, "int"), ({"histories": "s1"}, "str")):
        with pytest.raises(InvalidInput, match=f"(the user|users|histories) must be .*, got {got}"):
            rec.recommend_many(**whom, k=4)


def test_many_users_get_certificates_too() -> None:
    rec, _ = world(6)
    users = [np.random.default_rng(seed).normal(size=3) for seed in range(4)]
    for user, slate in zip(users, rec.recommend_many(users, k=4, budget_ms=50), strict=True):
        alone = rec.recommend(user, k=4)
        assert slate.value == pytest.approx(alone.value, rel=0.02)  # the certificate may find better sets in its time
        assert slate.value <= slate.upper_bound < np.inf


# --- histories ---


def trained(seed: int = 0, n: int = 300) -> SimpleTransformer:
    """A model with random arrays: two heads, a base, titles."""
    attributes = {"artist": [f"artist {i % 40}" for i in range(n)]}
    catalog, _ = random_catalog(
        seed, n=n, heads=2, base=True, ids=[f"song {i}" for i in range(n)], attributes=attributes
    )
    rng = np.random.default_rng(seed)
    parts = {"items": (n, 5), "heads_weight": (2, 3, 5), "heads_bias": (2, 3), "base_weight": (2, 5), "base_bias": (2,)}
    return SimpleTransformer(catalog, Encoder(**{name: rng.normal(size=shape) for name, shape in parts.items()}))


HISTORIES = [["song 4", "song 9", "song 4"], [], ["song 250"]]


def test_a_history_is_its_user_and_is_not_shown_again() -> None:
    model = trained()
    rec = Recommender.from_model(model, cells=8, certify=False, candidates=60)
    for history in HISTORIES:
        slate = rec.recommend(history=history, k=5)
        user = model.user(history)
        np.testing.assert_array_equal(slate.user.heads, user.heads)
        np.testing.assert_array_equal(slate.user.base, user.base)
        assert not set(slate.items.tolist()) & set(history)
        same = rec.recommend(user, k=5, exclude=history)
        np.testing.assert_array_equal(slate.indices, same.indices)


def test_what_was_heard_may_be_wished_for() -> None:
    rec = Recommender.from_model(trained(), cells=8, certify=False, candidates=60)
    free = rec.recommend(history=["song 4"], k=5, filter_seen=False)
    again = rec.recommend(history=[*free.items, "song 4"], k=5, filter_seen=False, exclude=["song 4"])
    assert "song 4" not in again.items
    pinned = rec.recommend(history=["song 4", "song 9"], k=5, include=["song 9"])
    assert "song 9" in pinned.items
    assert "song 4" not in pinned.items


def test_many_histories_each_without_their_own() -> None:
    rec = Recommender.from_model(trained(), cells=8, certify=False, candidates=60)
    together = rec.recommend_many(histories=HISTORIES, k=5)
    for history, slate in zip(HISTORIES, together, strict=True):
        alone = rec.recommend(history=history, k=5)
        np.testing.assert_array_equal(slate.indices, alone.indices)
        assert slate.value == pytest.approx(alone.value, rel=1e-12)


def test_histories_and_changes_of_the_index(tmp_path) -> None:
    """New items are shown and excluded but not read; removed ones are unknown."""
    model = trained()
    rec = Recommender.from_model(model, cells=8, certify=False, candidates=60)
    new, _ = random_catalog(1, n=1, heads=2, base=True, ids=["new"], attributes={"artist": ["artist 1"]})
    rec.index.add(new)
    rec.index.remove(["song 0"])
    slate = rec.recommend(history=["song 4", "new", "song 0"], k=5)
    np.testing.assert_allclose(slate.user.heads, model.user(["song 4"]).heads)
    assert "new" not in slate.items
    assert slate.ignored == ["song 0"]
    with pytest.raises(InvalidInput, match="encoder must be one that knows every item, got items added since"):
        rec.save(tmp_path / "rec")
    rec.index.remove(["new"])
    rec.save(tmp_path / "rec")
    rec.index.compact()
    loaded = Recommender.load(tmp_path / "rec")
    assert len(loaded.index.catalog) == 299
    for one in (rec, loaded):
        slate = one.recommend(history=["song 4", "song 299"], k=5)
        np.testing.assert_allclose(slate.user.heads, model.user(["song 4", "song 299"]).heads)
        with pytest.raises(UnknownId):
            one.recommend(history=["song 0"], unknown="error")
        assert one.recommend(history=["song 0", "song 4"]).ignored == ["song 0"]


def test_saved_and_loaded(tmp_path) -> None:
    rec = Recommender.from_model(trained(), cells=8, ranker="greedy", certify=False, candidates=60)
    rec.save(tmp_path / "rec")
    loaded = Recommender.load(tmp_path / "rec")
    assert (loaded.ranker, loaded.certifies) == ("greedy", False)
    for history in HISTORIES:
        one, other = (which.recommend(history=history, k=5) for which in (rec, loaded))
        np.testing.assert_array_equal(one.indices, other.indices)
        assert one.value == other.value
        assert other.catalog.digest == rec.index.catalog.digest
    assert Recommender.load(tmp_path / "rec", ranker="knn").ranker == "knn"


@pytest.mark.parametrize("heads", [1, 2])
def test_what_certificates_are_made_of_is_saved(tmp_path, monkeypatch, heads: int) -> None:
    """Opening a recommender measures nothing again, and certificates are what they were; also of a changed index."""
    rec, user = world(14, n=80, heads=heads)  # so few that the bound is exact, and no clock decides
    rec.save(tmp_path / "rec")
    changed, _ = world(14, n=80, heads=heads)
    changed.index.remove(["song 0", "song 7"])
    changed.save(tmp_path / "changed")
    changed.index.compact()
    bare = Recommender(rec.index, certify=False, candidates=60)
    bare.save(tmp_path / "bare")
    before = {
        folder: one.recommend(user, k=3, budget_ms=10_000) for folder, one in (("rec", rec), ("changed", changed))
    }
    with monkeypatch.context() as patched:
        patched.setattr(CellBounds, "build", None)
        for folder, slate in before.items():
            loaded = Recommender.load(tmp_path / folder).recommend(user, k=3, budget_ms=10_000)
            np.testing.assert_array_equal(slate.indices, loaded.indices)
            assert slate.proven
            assert slate.upper_bound == loaded.upper_bound
            assert Recommender.load(tmp_path / folder, certify=False).recommend(user, k=3).upper_bound == np.inf
    again = Recommender.load(tmp_path / "bare", certify=True)
    assert np.isfinite(again.recommend(user, k=3).upper_bound), "built when they were not saved"


def test_an_index_alone_loads_without_histories(tmp_path) -> None:
    rec, user = world(12)
    rec.index.save(tmp_path / "index")
    rec.save(tmp_path / "rec")
    for folder in ("index", "rec"):
        loaded = Recommender.load(tmp_path / folder, candidates=60)
        assert loaded.encoder is None
        np.testing.assert_array_equal(
            loaded.recommend(user, k=4, certify=False).indices, rec.recommend(user, k=4, certify=False).indices
        )
    rec.index.catalog.save(tmp_path / "catalog")
    with pytest.raises(
        DamagedArtifact, match="the kind is 'catalog', not 'recommender' or 'index'; make one of it with setwise index"
    ):
        Recommender.load(tmp_path / "catalog")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({}, "the user must be described by exactly one of history, user, features, or by scores alone, got none of them; pass one of them."),
        ({"user": [1.0, 2.0, 3.0], "history": []}, "the user must be described by exactly one of history, user, features, or by scores alone, got history and user; pass one of them."),
        ({"history": []}, "history must be left out, as this recommender has no encoder for it, got one; use Recommender.from_model(model), or pass a user."),
        ({"user": [1.0, 2.0, 3.0], "ranker": "best"}, None),
    ],
)  # fmt: skip
def test_who_asks(option, sentence) -> None:
    rec, _ = world(13, n=50)
    with pytest.raises(InvalidInput) as caught:
        rec.recommend(**option)
    assert sentence is None or str(caught.value) == sentence


def test_what_is_not_a_model_or_an_encoder() -> None:
    rec, _ = world(14, n=50)
    with pytest.raises(InvalidInput, match="model must be one with a catalogue and an encoder, got Recommender"):
        Recommender.from_model(rec)
    with pytest.raises(InvalidInput, match="encoder must be an Encoder, got str"):
        Recommender(rec.index, encoder="word2vec")
    model = trained(n=50)
    index, few = sw.Index.build(model.catalog()), replace(model.encoder, items=model.encoder.items[:7])
    with pytest.raises(InvalidInput, match="encoder's items must be"):
        Recommender(index, encoder=few)


def test_ranker_and_certificate_of_one_request() -> None:
    rec, user = world(15)
    quick = Recommender(rec.index, ranker="knn", certify=False, candidates=60)
    assert quick.recommend(user, k=4).ranker == "knn"
    slate = quick.recommend(user, k=4, ranker="swap", certify=True)
    assert slate.ranker == "swap"
    assert slate.value <= slate.upper_bound < np.inf
    assert quick.recommend(user, k=4).upper_bound == np.inf, "for that request alone"
    assert rec.recommend(user, k=4, certify=False).upper_bound == np.inf


def test_changes_of_the_index_are_followed(tmp_path) -> None:
    rec, user = world(7)
    first = rec.recommend(user, k=3)
    rec.index.remove(first.items[:1])
    second = rec.recommend(user, k=3)
    second.save(tmp_path / "slate.json")
    assert verify(tmp_path / "slate.json", second.catalog).ok, "what was removed is excluded"
    assert first.items[0] not in second.items
    assert second.value <= second.upper_bound
    with pytest.raises(Infeasible, match="include must be items that may be shown"):
        rec.recommend(user, k=3, include=first.items[:1])
    rec.index.compact()
    third = rec.recommend(user, k=3)
    assert third.value == pytest.approx(second.value, rel=0.02)


def test_a_budget_for_everything() -> None:
    rec, user = world(8, n=2_000)
    for budget in (1, 5, 30):
        slate = rec.recommend(user, k=5, budget_ms=budget)
        assert slate.value <= slate.upper_bound


@pytest.mark.parametrize(
    ("option", "error", "sentence"),
    [
        ({"k": 0}, InvalidInput, "k must be a whole number of at least 1, got 0; pass 1 or more."),
        ({"exclude": ["no such song"], "unknown": "error"}, UnknownId, None),
        ({"include": ["song 1"], "exclude": ["song 1"]}, Infeasible, "include must be items that may be shown, got 'song 1', excluded or filtered out; drop it from include, or loosen exclude and where."),
        ({"include": ["song 1"], "where": {"year": 1990}}, Infeasible, None),
        ({"where": {"year": 1800}}, Infeasible, None),
        ({"budget_ms": -1}, InvalidInput, "budget_ms must be above 0, got -1.0; pass milliseconds, or leave it out."),
        ({"at_most": {"genre": 1}}, InvalidInput, None),
        ({"user": np.ones(7)}, InvalidInput, None),
        ({"at_most": []}, InvalidInput, "at_most must be a mapping {attribute: n}, got []; write at_most={'artist': 2}."),
        ({"where": 0}, InvalidInput, None),
    ],
)  # fmt: skip
def test_invalid_arguments(option, error, sentence) -> None:
    rec, user = world(9)
    asked = {"user": user, "k": 3} | option
    with pytest.raises(error) as caught:
        rec.recommend(asked.pop("user"), **asked)
    assert sentence is None or str(caught.value) == sentence


def test_what_is_not_an_index_or_a_ranker() -> None:
    rec, _ = world(10, n=50)
    with pytest.raises(InvalidInput, match=r"index must be a setwise\.Index, got NoneType"):
        Recommender(None)
    with pytest.raises(InvalidInput, match="ranker must be one of"):
        Recommender(rec.index, ranker="best")
    with pytest.raises(InvalidInput, match="ranker must be one of"):
        Recommender(rec.index, ranker=["swap"])
    assert "swap" in repr(rec)


def test_values_that_leave_the_doubles_prove_nothing() -> None:
    catalog = sw.Catalog(np.zeros((3, 1)), np.zeros((3, 1)), -np.ones((3, 1)), reward=sw.Exp(-1.0, 0.0))
    slate = Recommender(sw.Index.build(catalog)).recommend([2000.0], 1)
    assert slate.value == -np.inf
    assert not slate.proven


def test_gaps_of_values_that_are_not_positive() -> None:
    catalog, user = random_catalog(11, n=30, rewards=[sw.Linear(0.1, -5.0)])
    slate = Recommender(sw.Index.build(catalog, cells=3), candidates=5).recommend(user, k=3)
    assert slate.value < 0
    assert 0 <= slate.gap <= 1


def test_followers_of_the_leader_are_candidates() -> None:
    """Item 0 has the highest score; 1 to 4 attend to it alone, and their own scores are the lowest there are."""
    rng = np.random.default_rng(0)
    n, leader, others = 160, np.array([8.0, 0.0]), np.array([0.0, 8.0])
    query, key = np.tile(others, (n, 1)), np.tile(others, (n, 1))
    query[:5], key[0] = leader, leader
    value = rng.uniform(0.1, 1.0, size=(n, 1))
    value[0], value[1:5] = 2.0, 0.0
    catalog, user = sw.Catalog(query, key, value), np.ones(1)
    cells = np.arange(n) % 4  # cells that know nothing of who attends to whom: the followers are last in theirs
    index = sw.Index.build(catalog, partition=Partition.of(catalog, cells, 4), progress=False)
    for slate in (
        sw.Recommender(index, certify=False, candidates=40).recommend(user, k=5),
        sw.Recommender(index, certify=False, candidates=40).recommend_many([user], k=5)[0],
    ):
        assert sorted(slate.indices.tolist()) == [0, 1, 2, 3, 4]
        assert slate.value == pytest.approx(sw.set_value(catalog, user, slate.indices), rel=1e-12)
    top = sw.Recommender(index, certify=False, candidates=40).recommend(user, k=5, ranker="knn")
    assert sorted(top.indices.tolist()) == sorted(np.argsort(-value[:, 0])[:5].tolist())
