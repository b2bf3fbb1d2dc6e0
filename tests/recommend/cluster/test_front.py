"""A cluster answers as one index does: slates, bounds where it states them, refusals; also while items come and go."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from in_process import LONG, Here, cluster_of, same, shapes, world
from setwise.errors import Infeasible, InvalidInput, ShardUnavailable, UnknownId
from setwise.model.base_terms import BaseTerms
from setwise.model.encoder import Encoder
from setwise.model.feature_encoder import FeatureEncoder
from setwise.model.fold_in import FoldIn
from setwise.model.neighbours import Neighbours
from setwise.model.two_tower import TwoTower
from setwise.recommend.cluster import changes
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.training.portfolio import PortfolioModel
from setwise.verification.verify import verify
from worlds import REWARDS, random_catalog


def test_slates_equal_those_of_one_index_while_items_come_and_go(tmp_path: Path, count) -> None:
    for seed in range(count(500, 60)):
        rng = np.random.default_rng(seed)
        catalog, user = world(seed, 700, **shapes(seed))
        index = sw.Index.build(catalog, cells=6)
        whole = sw.Recommender(index, certify=False, candidates=60)
        cluster, _ = cluster_of(whole, tmp_path / str(seed), 1 + seed % 5)
        ids, coming = list(catalog.ids[np.arange(700)]), 700
        for _ in range(2):
            new, _ = world(1000 + seed, 4, coming, **shapes(seed))
            new.sink = catalog.sink
            gone = rng.choice(ids, 3, replace=False).tolist()
            for one in (index, cluster):
                one.remove(gone)
                one.add(new)
            ids = [one for one in ids if one not in gone] + list(new.ids[np.arange(4)])
            coming += 4
            request = {
                "k": int(rng.integers(2, 7)),
                "exclude": rng.choice(ids, 20, replace=False).tolist(),
                "where": {"colour": ["red", "blue"]} if rng.random() < 0.5 else None,
                "at_most": {"colour": 3} if rng.random() < 0.5 else None,
                "certify": False,
            }
            allowed = [one for one in ids if one not in request["exclude"]] if request["where"] is None else []
            request["include"] = allowed[:1] if rng.random() < 0.5 else []
            same(whole.recommend(user, **request), cluster.recommend(user, **request))


def test_bounds_of_few_items_and_of_items_that_do_not_interact_are_those_of_one_index(tmp_path: Path) -> None:
    catalog, user = world(3, 300, base=True)
    whole = sw.Recommender(sw.Index.build(catalog, cells=5), candidates=40)
    cluster, _ = cluster_of(whole, tmp_path, 3)
    few = {"where": {"colour": "red", "price": (7, None)}, "k": 3}
    one, other = whole.recommend(user, **few), cluster.recommend(user, **few)
    same(one, other)
    assert math.isfinite(other.upper_bound)
    assert (one.upper_bound, one.proven) == (other.upper_bound, other.proven)
    alone = sw.User(np.zeros_like(user.heads), user.base)
    for request in ({"user": user, "k": 1}, {"user": alone, "k": 6}, {"user": alone, "k": 6, "at_most": {"colour": 2}}):
        one, other = whole.recommend(**request), cluster.recommend(**request)
        same(one, other)
        assert other.proven


def test_more_pins_than_places_are_refused_where_items_do_not_interact(tmp_path: Path) -> None:
    catalog, user = world(3, 300)
    cluster, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=5), candidates=40), tmp_path, 3)
    for person in (user, sw.User(np.zeros_like(user.heads))):
        with pytest.raises(Infeasible, match="include must be at most k = 1 candidates, got 2"):
            cluster.recommend(person, k=1, include=["item 3", "item 200"])


def test_saved_slates_are_verified_against_their_candidates(tmp_path: Path) -> None:
    catalog, user = world(6, 300)
    cluster, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=5), candidates=40), tmp_path, 3)
    slate = cluster.recommend(user, k=3, at_most={"colour": 1}, where={"price": (5, None)}, exclude=catalog.ids[:4])
    slate.save(tmp_path / "slate.json")
    slate.catalog.save(tmp_path / "candidates")
    assert verify(tmp_path / "slate.json", sw.Catalog.load(tmp_path / "candidates")).ok
    assert not verify(tmp_path / "slate.json", catalog).ok


def test_histories(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    catalog, _ = world(5, 200)
    encoder = Encoder(rng.normal(size=(200, 4)), rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 3)))
    whole = sw.Recommender(sw.Index.build(catalog, cells=5), certify=False, candidates=40, encoder=encoder)
    cluster, _ = cluster_of(whole, tmp_path, 3)
    for history in (["item 3", "item 150", "unheard", "item 77"], []):
        one, other = (each.recommend(history=history, k=4, certify=False) for each in (whole, cluster))
        same(one, other)
        assert one.ignored == other.ignored
    with pytest.raises(UnknownId, match="an id of history"):
        cluster.recommend(history=["unheard"], unknown="error")


def test_histories_of_models_with_base_terms(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    catalog, _ = world(17, 200)
    catalog = sw.Catalog(
        catalog.query, catalog.key, catalog.value, base=rng.normal(size=(200, 6)), ids=catalog.ids[np.arange(200)]
    )
    draw = [rng.normal(size=(200, width)).astype(np.float32) for width in (2, 4, 3, 3)]
    terms = BaseTerms(
        FoldIn.of(draw[0], 10.0, 0.1, 0.9), (), TwoTower(draw[1], draw[2], draw[3], np.zeros(3, np.float32), 0.8)
    )
    parts = rng.normal(size=(200, 4)), rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 3))
    whole = sw.Recommender(
        sw.Index.build(catalog, cells=5), certify=False, candidates=40, encoder=Encoder(*parts, base_terms=terms)
    )
    cluster, _ = cluster_of(whole, tmp_path / "split", 3, bounds=False)
    for history in (["item 3", "item 150", "unheard", "item 77"], []):
        same(*(one.recommend(history=history, k=4, certify=False) for one in (whole, cluster)))


def with_neighbours(seed: int, n: int, new_user: bool, catalog: sw.Catalog) -> Encoder:
    """An encoder with two matrices of neighbours, in which some items have none."""
    rng = np.random.default_rng(seed)
    matrices = []
    for power in (0.0, 0.5):
        lengths = rng.integers(0, 12, n)
        related = [np.sort(rng.choice(n, length, replace=False)) for length in lengths]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        weights = rng.normal(size=offsets[-1]).astype(np.float32)
        matrices.append(Neighbours(offsets, np.concatenate(related), weights, 0.8, power))
    popular = rng.normal(size=n).astype(np.float32) if new_user else None
    _, heads, d_v = catalog.value.shape
    pooled = (
        () if catalog.base is None else (rng.normal(size=(catalog.base.shape[1], 4)), np.zeros(catalog.base.shape[1]))
    )
    parts = rng.normal(size=(n, 4)), rng.normal(size=(heads, d_v, 4)), rng.normal(size=(heads, d_v))
    return Encoder(*parts, *pooled, base_terms=BaseTerms(None, tuple(matrices), None, popular))


def test_histories_of_models_with_neighbours(tmp_path: Path, count) -> None:
    """Also with scores of the caller, while items come and go, and for new users."""
    for seed in range(count(100)):
        rng = np.random.default_rng(seed)
        catalog, _ = world(seed, 300, **shapes(seed))
        index = sw.Index.build(catalog, cells=6)
        encoder = with_neighbours(seed, 300, seed % 3 > 0, catalog)
        whole = sw.Recommender(index, candidates=40, encoder=encoder)
        cluster, _ = cluster_of(whole, tmp_path / str(seed), 1 + seed % 5)
        for changed in (False, True):
            if changed:
                new, _ = world(1000 + seed, 4, 300, **shapes(seed))
                new.sink = catalog.sink
                for one in (index, cluster):
                    one.remove(["item 3", "item 40"])
                    one.add(new)
            ids = [f"item {row}" for row in range(300) if row not in (3, 40)]
            for history in ([*rng.choice(ids, 5, replace=False).tolist(), "unheard", "item 301"], ["unheard"], []):
                request = {"history": history, "k": int(rng.integers(2, 6)), "certify": not changed and seed % 2 == 0}
                request["at_most"] = {"colour": 3} if rng.random() < 0.5 else None
                if rng.random() < 0.5:
                    some = rng.choice(ids, 150, replace=False).tolist()
                    request["scores"] = dict(zip(some, rng.normal(size=150).tolist(), strict=True))
                    request["scores_floor"] = -1.0 if rng.random() < 0.5 else None
                if request["certify"]:
                    request["budget_ms"] = 10_000.0
                one, other = whole.recommend(**request), cluster.recommend(**request)
                same(one, other)
                assert one.ignored == other.ignored
                assert other.upper_bound >= one.value * (1 - 1e-12) or not request["certify"]


def test_long_histories(tmp_path: Path) -> None:
    """Longer than an encoder reads, with repetitions: the latest items count."""
    catalog, _ = world(3, 300)
    encoder = with_neighbours(3, 300, True, catalog)
    whole = sw.Recommender(sw.Index.build(catalog, cells=6), certify=False, candidates=40, encoder=encoder)
    cluster, _ = cluster_of(whole, tmp_path, 4, bounds=False)
    history = [f"item {row}" for row in np.random.default_rng(0).integers(250, size=400)]
    same(*(one.recommend(history=history, k=4, certify=False) for one in (whole, cluster)))


def test_explanations_are_those_of_one_index(tmp_path: Path) -> None:
    for seed in (0, 1):
        catalog, user = world(seed, 300, **shapes(seed))
        whole = sw.Recommender(sw.Index.build(catalog, cells=6), certify=False, candidates=40)
        cluster, _ = cluster_of(whole, tmp_path / str(seed), 3, bounds=False)
        request = {"k": 4, "exclude": ["item 5"], "at_most": {"colour": 2}, "certify": False, "budget_ms": 10_000.0}
        mine = cluster.recommend(user, **request)
        one, other = whole.explain(whole.recommend(user, **request)), cluster.explain(mine)
        for name in ("attention", "rewards", "alone", "lent"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        sets = [[(r.ranker, r.items.tolist(), r.value) for r in each.rivals] for each in (one, other)]
        assert sets[0] == sets[1]
        assert [each["items"] for each in one.to_dict()["rivals"]] == [
            each["items"] for each in other.to_dict()["rivals"]
        ]
    for wrong in (whole.recommend(user, k=2), None):
        with pytest.raises(InvalidInput, match="slate must be a slate of this cluster, got another"):
            cluster.explain(wrong)


def test_an_id_that_was_removed_may_come_back(tmp_path: Path) -> None:
    catalog, user = world(6, 100)
    whole = sw.Recommender(sw.Index.build(catalog, cells=4), certify=False)
    cluster, hosts = cluster_of(whole, tmp_path, 1)
    again = catalog.taken([7])
    for one in (whole.index, cluster):
        one.remove(["item 7", "item 50"])
        one.add(again)
    same(whole.recommend(user, k=5), cluster.recommend(user, k=5, certify=False))
    restarted = ClusterRecommender.open(tmp_path, [[Here()] for _ in hosts], LONG)
    same(whole.recommend(user, k=5), restarted.recommend(user, k=5, certify=False))
    with pytest.raises(InvalidInput, match="not in the cluster yet, got 'item 7'"):
        cluster.add(again)


def test_changes_of_one_front_are_seen_by_another_after_refresh(tmp_path: Path) -> None:
    catalog, user = world(7, 60)
    cluster, hosts = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=4), certify=False), tmp_path, 2)
    other = ClusterRecommender.open(tmp_path, [[host] for host in hosts], LONG)
    first = cluster.recommend(user, k=3).items.tolist()
    cluster.remove(first)
    assert other.recommend(user, k=3).items.tolist() == first
    other.refresh()
    assert not set(other.recommend(user, k=3).items.tolist()) & set(first)


def test_changes_of_two_fronts_are_all_kept(tmp_path: Path) -> None:
    """A front that has not read the changes of another one adds to them, and does not replace them."""
    catalog, user = world(7, 60)
    index = sw.Index.build(catalog.taken(np.arange(40)), cells=4)
    one, hosts = cluster_of(sw.Recommender(index, certify=False), tmp_path, 2)
    other = ClusterRecommender.open(tmp_path, [[host] for host in hosts], LONG)
    one.add(catalog.taken(np.arange(40, 45)))
    other.add(catalog.taken(np.arange(45, 50)))
    one.remove(catalog.ids[[46]].tolist())
    other.refresh()
    for row in (40, 44, 45, 49):
        for front in (one, other):
            assert catalog.ids[row] in front.recommend(user, k=3, include=[catalog.ids[row]]).items.tolist()
    with pytest.raises(Infeasible, match="include"):
        other.recommend(user, k=3, include=[catalog.ids[46]])


def test_a_change_waits_for_another_front_and_then_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, _ = world(7, 60)
    front, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=4), certify=False), tmp_path, 2)
    monkeypatch.setattr(changes, "WAIT_S", 0.05)
    with changes.changing(tmp_path), pytest.raises(InvalidInput, match="no other front changes"):
        front.remove(catalog.ids[[1]].tolist())
    front.remove(catalog.ids[[1]].tolist())


@pytest.mark.parametrize(
    ("request_", "error", "match"),
    [
        (
            {"exclude": ["nothing"], "unknown": "error"},
            UnknownId,
            "an id of exclude must be one of the catalogue, got 'nothing'",
        ),
        ({"include": ["nothing"]}, UnknownId, "an id of include"),
        ({"exclude": [3]}, InvalidInput, "."),
        ({"where": {"size": 3}}, InvalidInput, "size"),
        ({"where": {"colour": "black"}}, Infeasible, "leave an item"),
        ({"include": ["item 3"], "exclude": ["item 3"]}, Infeasible, "include must be items that may be shown"),
        ({"ranker": "nothing"}, InvalidInput, "ranker"),
        ({"k": 0}, InvalidInput, "k must be"),
        (
            {"history": ["item 1"]},
            InvalidInput,
            "exactly one of history, user, features, or by scores alone, got history and user",
        ),
    ],
)
def test_mistakes_are_refused(tmp_path_factory, request_, error, match: str) -> None:
    folder = tmp_path_factory.mktemp("cluster")
    catalog, user = world(8, 50)
    cluster, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=3), certify=False), folder, 3)
    with pytest.raises(error, match=match):
        cluster.recommend(user, **{"k": 3, **request_})


def test_wrong_changes_are_refused_and_change_nothing(tmp_path: Path) -> None:
    catalog, user = world(9, 40)
    cluster, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=3), certify=False), tmp_path, 2)
    before, layout = cluster.recommend(user, k=3), cluster.layout
    for items in (world(1, 2, 90, heads=2)[0], random_catalog(1, n=2)[0], world(1, 2, 90, rewards=REWARDS[2:3])[0]):
        with pytest.raises(InvalidInput):
            cluster.add(items)
    with pytest.raises(UnknownId, match="'nothing'"):
        cluster.remove(["nothing"])
    with pytest.raises(Infeasible, match="fewer than all items of a shard"):
        cluster.remove([f"item {row}" for row in range(20)])
    assert cluster.layout == layout
    same(before, cluster.recommend(user, k=3))


def test_a_shard_of_another_cluster_or_number_is_refused(tmp_path: Path) -> None:
    """Its rows would be taken for others, and its items would have the vectors of others in histories."""
    catalog, user = world(8, 60)
    for name, some in (("one", catalog), ("other", world(9, 60)[0])):
        whole = sw.Recommender(sw.Index.build(some, cells=4), certify=False)
        cluster, hosts = cluster_of(whole, tmp_path / name, 2, bounds=False)
    cluster.recommend(user, k=2)
    for wrong in (tmp_path / "one" / "shard-0", tmp_path / "other" / "shard-1"):
        aside = tmp_path / "aside"
        (tmp_path / "other" / "shard-0").rename(aside)
        shutil.copytree(wrong, tmp_path / "other" / "shard-0")
        restarted = ClusterRecommender.open(tmp_path / "other", [[Here()] for _ in hosts], LONG)
        with pytest.raises(ShardUnavailable, match="it is not the shard that the cluster was split into"):
            restarted.recommend(user, k=2)
        shutil.rmtree(tmp_path / "other" / "shard-0")
        aside.rename(tmp_path / "other" / "shard-0")
    assert ClusterRecommender.open(tmp_path / "other", [[Here()] for _ in hosts], LONG).recommend(user, k=2).value > 0


def test_a_lost_shard_is_refused_or_said(tmp_path: Path) -> None:
    catalog, user = world(10, 90)
    whole = sw.Recommender(sw.Index.build(catalog, cells=3))
    strict, hosts = cluster_of(whole, tmp_path, 3)
    lenient = ClusterRecommender.open(tmp_path, [[host] for host in hosts], LONG, partial=True)
    assert not lenient.recommend(user, k=3).partial
    hosts[1].lost = True
    with pytest.raises(ShardUnavailable, match="Shard 1 must answer") as raised:
        strict.recommend(user, k=3)
    assert raised.value.shard == 1
    slate = lenient.recommend(user, k=3)
    assert slate.partial
    assert slate.upper_bound == math.inf
    assert slate.to_dict()["partial"]
    assert not {int(one.split()[1]) for one in slate.items} & set(range(30, 60))
    rest = catalog.taken([*range(30), *range(60, 90)])
    same(
        sw.Recommender(sw.Index.build(rest, cells=3)).recommend(user, k=3),
        sw.Slate(**{**vars(slate), "partial": False}),
    )
    hosts[0].lost = hosts[2].lost = True
    with pytest.raises(ShardUnavailable):
        lenient.recommend(user, k=3)


def test_what_a_lost_shard_may_have_is_not_called_unknown(tmp_path: Path) -> None:
    """Nobody can say that an item is in no catalogue, or that no set keeps a limit, while a shard is lost."""
    catalog, user = world(10, 90)
    catalog = catalog.named(catalog.ids, {"half": ["other"] * 40 + ["lost"] * 10 + ["other"] * 40})
    _, hosts = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=3)), tmp_path, 3)
    lenient = ClusterRecommender.open(tmp_path, [[host] for host in hosts], LONG, partial=True)
    pinned = catalog.ids[45]
    needs = [{"include": [pinned]}, {"where": {"half": "lost"}}, {"at_least": {"half": {"lost": 1}}}]
    assert not any(lenient.recommend(user, k=3, **one).partial for one in needs)
    with pytest.raises(UnknownId):
        lenient.recommend(user, k=3, include=["nothing"])
    hosts[1].lost = True
    for one in (*needs, {"include": ["nothing"]}):
        with pytest.raises(ShardUnavailable, match="Shard 1 must answer"):
            lenient.recommend(user, k=3, **one)
    assert lenient.recommend(user, k=3, include=[catalog.ids[5]], exclude=[pinned]).partial


def test_a_replica_answers_for_one_that_fails(tmp_path: Path) -> None:
    catalog, user = world(11, 90)
    _, hosts = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=3), certify=False), tmp_path, 2)
    bad = Here()
    bad.lost = True
    cluster = ClusterRecommender.open(tmp_path, [[bad, hosts[0]], [hosts[1], bad]], LONG)
    slates = [cluster.recommend(user, k=3).items.tolist() for _ in range(4)]
    assert all(one == slates[0] for one in slates)
    assert bad.calls > 0


def test_small_and_large_budgets(tmp_path: Path, large: bool) -> None:
    """The largest is more than the proof takes: two minutes with 900 items."""
    for budget, items in ((0.01, 900), (1.0, 900), (1e6, 900 if large else 120)):
        catalog, user = world(12, items, heads=2)
        recommender = sw.Recommender(sw.Index.build(catalog, cells=6), certify=False)
        cluster, _ = cluster_of(recommender, tmp_path / str(budget), 3)
        slate = cluster.recommend(user, k=5, budget_ms=budget)
        assert len(slate) <= 5
        assert slate.value == pytest.approx(sw.set_value(catalog, user, catalog.rows_of(slate.items)), rel=1e-12)


def test_lower_limits_and_rankers_by_reward_alone_are_those_of_one_index(tmp_path: Path, count) -> None:
    for seed in range(count(200)):
        rng = np.random.default_rng(seed)
        catalog, user = world(seed, 300, **shapes(seed))
        whole = sw.Recommender(sw.Index.build(catalog, cells=6), certify=False, candidates=int(rng.choice([40, 80])))
        cluster, _ = cluster_of(whole, tmp_path / str(seed), 1 + seed % 5, bounds=False)
        limits = [
            {"at_least": {"colour": {"red": 2}, "price": {3: 1}}},
            {"exactly": {"colour": 1}},
            {"at_least": {"price": {"8": 2}}, "at_most": {"colour": 2}},
            {"ranker": str(rng.choice(["top-k", "mmr", "dpp"]))},
        ][seed % 4]
        request = {"k": int(rng.integers(3, 7)), "certify": False, **limits}
        same(whole.recommend(user, **request), cluster.recommend(user, **request))


@pytest.mark.parametrize(
    "request_",
    [
        {"at_least": {"colour": {"red": 9}}},
        {"at_least": {"colour": {"black": 1}}},
        {"exactly": {"price": 1}},
        {"at_least": {"colour": 3}},
        {"exactly": {"size": 1}},
    ],
)
def test_lower_limits_are_refused_as_by_one_index(tmp_path_factory, request_) -> None:
    catalog, user = world(8, 200)
    whole = sw.Recommender(sw.Index.build(catalog, cells=3), certify=False, candidates=30)
    cluster, _ = cluster_of(whole, tmp_path_factory.mktemp("cluster"), 3, bounds=False)
    messages = []
    for one in (whole, cluster):
        with pytest.raises(InvalidInput) as raised:
            one.recommend(user, k=3, **request_)
        messages.append((type(raised.value), str(raised.value)))
    assert messages[0] == messages[1]


def test_many_requests_are_answered_as_one_by_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    catalog, _ = world(13, 200)
    users = [sw.User(rng.normal(size=(1, 3))) for _ in range(5)]
    cluster, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=4), certify=False), tmp_path, 2, bounds=False)
    slates = cluster.recommend_many(users, k=3, where={"colour": "red"}, certify=False)
    for user, slate in zip(users, slates, strict=True):
        same(cluster.recommend(user, k=3, where={"colour": "red"}, certify=False), slate)
    assert cluster.recommend_many([]) == []
    with pytest.raises(
        InvalidInput, match="exactly one of users, histories, features, or by scores alone, got none of them"
    ):
        cluster.recommend_many()


def test_slates_can_be_improved(tmp_path: Path) -> None:
    catalog, user = world(14, 300, heads=2, base=True)
    cluster, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=4), candidates=40), tmp_path, 2)
    first = cluster.recommend(user, k=4, budget_ms=20.0)
    later = cluster.certify(first, seconds=1.0)
    assert later.value >= first.value
    assert later.upper_bound <= first.upper_bound
    assert later.improve(0.2).upper_bound <= later.upper_bound
    assert set(first.timings) <= set(later.timings)
    assert all(later.timings[phase] >= took for phase, took in first.timings.items())  # those of both requests


def test_features(tmp_path: Path) -> None:
    catalog, _ = world(15, 60)
    leaf = np.arange(3.0)
    encoder = FeatureEncoder(
        ("size",), np.zeros(1), np.zeros(0, np.int64), np.zeros(1, np.int64), np.array([-1]), np.zeros(1),
        np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([0, 3]), np.arange(3), leaf, np.ones((1, 3)),
    )  # fmt: skip
    whole = sw.Recommender(sw.Index.build(catalog, cells=3), certify=False, features=encoder)
    cluster, _ = cluster_of(whole, tmp_path, 2, bounds=False)
    same(*(one.recommend(features={"size": 1.0}, k=3, certify=False) for one in (whole, cluster)))
    bare, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=3), certify=False), tmp_path / "b", 2)
    with pytest.raises(InvalidInput, match="features must be left out"):
        bare.recommend(features={"size": 1.0})


def test_portfolios_are_valued_by_the_items_that_are_left(tmp_path: Path) -> None:
    outcomes = (np.random.default_rng(0).random((60, 8)) < 0.4) * 1.0
    model = PortfolioModel.fit(outcomes, 3)
    whole = sw.Recommender(sw.Index.build(model.catalog, cells=2), features=model.encoder)
    cluster, _ = cluster_of(whole, tmp_path, 2)
    for gone in ([0, 0], [5, 1]):
        cluster.remove(gone)
        whole.index.remove(gone)
        for k in (4, 6, 7, 10):
            mine, reference = (one.recommend(features={}, k=k) for one in (cluster, whole))
            assert list(mine.items) == list(reference.items)
            assert mine.value == pytest.approx(reference.value, rel=1e-12)


def test_slates_with_scores_are_those_of_one_index(tmp_path: Path, count) -> None:
    for seed in range(count(200)):
        rng = np.random.default_rng(seed)
        catalog, user = world(seed, 300, **shapes(seed))
        whole = sw.Recommender(sw.Index.build(catalog, cells=6), certify=False, candidates=40)
        cluster, _ = cluster_of(whole, tmp_path / str(seed), 1 + seed % 5, bounds=False)
        ids = rng.choice([f"item {row}" for row in range(300)], int(rng.choice([10, 200])), replace=False).tolist()
        request = {
            "k": int(rng.integers(2, 6)),
            "scores": {one: float(rng.normal(scale=2)) for one in ids},
            "scores_floor": None if rng.random() < 0.5 else -0.5,
            "at_least": {"colour": {"red": 1}} if rng.random() < 0.3 else None,
            "certify": False,
        }
        person = None if rng.random() < 0.3 else user
        same(whole.recommend(person, **request), cluster.recommend(person, **request))


def test_wrong_scores_are_refused(tmp_path: Path) -> None:
    catalog, user = world(16, 40)
    cluster, _ = cluster_of(sw.Recommender(sw.Index.build(catalog, cells=3), certify=False), tmp_path, 2, bounds=False)
    with pytest.raises(UnknownId, match="an id of scores must be one of the catalogue, got 'nothing'"):
        cluster.recommend(user, scores={"nothing": 1.0, "item 3": 1.0}, unknown="error")
    with pytest.raises(UnknownId, match="an id of scores"):
        cluster.recommend(user, scores={"nothing": 1.0})
    beyond = ({"scores": {"item 3": 1e308}}, {"scores": {"item 3": 1.0}, "scores_floor": 1e308})
    wrong_ones = ({"scores": np.zeros(40)}, {"scores": {}}, {"scores": {"item 3": math.nan}}, {"scores_floor": 1.0})
    for wrong in (*wrong_ones, *beyond):
        with pytest.raises(InvalidInput, match="scores"):
            cluster.recommend(user, **wrong)
    for n in (1, 40):
        with pytest.raises(InvalidInput, match="user must be one without added scores"):
            cluster.recommend(sw.User(user.heads, user.base, np.ones(n)))
