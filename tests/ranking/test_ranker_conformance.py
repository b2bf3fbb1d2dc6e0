"""One suite that every ranker passes, present and future: it is parametrised over the registry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.errors import Infeasible, InvalidInput
from setwise.model.constraints import Constraints
from setwise.ranking import RANKERS
from worlds import REWARDS, random_catalog

every_ranker = pytest.mark.parametrize("ranker", sorted(RANKERS))
GROUPS = {"artist": [f"artist {i % 4}" for i in range(12)], "year": [2000 + i % 3 for i in range(12)]}

catalogs = st.builds(
    lambda seed, heads, base, sink, sharpness, mixed: random_catalog(
        seed,
        heads=heads,
        base=base,
        sink=sink,
        sharpness=sharpness,
        rewards=REWARDS if mixed else REWARDS[:1],
        attributes=GROUPS,
    ),
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.3, 1.0, 5.0, 3000.0]),
    st.booleans(),
)


def whole(world) -> sw.Instance:
    catalog, user = world
    return sw.Instance.from_catalog(catalog, user, np.arange(catalog.n_items))


@every_ranker
@examples(40)
@given(world=catalogs, k=st.integers(1, 5))
def test_feasible_and_judged(ranker: str, world, k: int) -> None:
    instance = whole(world)
    ranking = sw.rank(instance, k, ranker)
    assert Constraints.of(instance, k).admits(ranking.indices)
    expected = sw.set_value(*world, instance.candidates[ranking.indices])
    assert ranking.value == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert ranking.upper_bound >= ranking.value
    assert ranking.evaluations >= 1
    rewards = sw.item_rewards(*world, instance.candidates[ranking.indices])
    assert (np.diff(rewards) <= 0).all(), "best first"


@every_ranker
@examples(40)
@given(world=catalogs, k=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_constraints_are_honoured(ranker: str, world, k: int, seed: int) -> None:
    instance = whole(world)
    rng = np.random.default_rng(seed)
    exclude, include = np.split(rng.permutation(12)[:5], [4])
    at_most = {"artist": int(rng.integers(1, 3)), "year": int(rng.integers(1, 3))}
    ranking = sw.rank(instance, k, ranker, exclude=exclude, include=include, at_most=at_most)
    chosen = set(ranking.indices.tolist())
    assert include[0] in chosen
    assert not chosen & set(exclude.tolist())
    for name, limit in at_most.items():
        values = [GROUPS[name][i] for i in chosen]
        assert max(values.count(value) for value in values) <= limit


@every_ranker
@examples(25)
@given(world=catalogs, seed=st.integers(0, 10**6))
def test_order_of_candidates_changes_nothing(ranker: str, world, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(12)
    one = whole(world)
    other = sw.Instance.from_catalog(*world, shuffled)
    first = sw.rank(one, 4, ranker, at_most={"artist": 1}, include=[3])
    second = sw.rank(other, 4, ranker, at_most={"artist": 1}, include=[int(np.flatnonzero(shuffled == 3)[0])])
    np.testing.assert_array_equal(one.candidates[first.indices], other.candidates[second.indices])
    assert first.value == second.value


@every_ranker
@examples(15)
@given(world=catalogs)
def test_deterministic(ranker: str, world) -> None:
    instance = whole(world)
    first, second = sw.rank(instance, 3, ranker), sw.rank(instance, 3, ranker)
    np.testing.assert_array_equal(first.indices, second.indices)
    assert first.value == second.value


@every_ranker
@examples(25)
@given(world=catalogs, k=st.integers(1, 4))
def test_never_better_than_the_truth(ranker: str, world, k: int) -> None:
    instance = whole(world)
    best = sw.rank(instance, k, "exhaustive")
    ranking = sw.rank(instance, k, ranker)
    assert ranking.value <= best.value + 1e-9 * abs(best.value)
    assert ranking.upper_bound >= best.value - 1e-9 * abs(best.value)
    if ranking.proven:
        assert ranking.value == pytest.approx(best.value, rel=1e-9, abs=1e-12)


@every_ranker
def test_fewer_candidates_than_k(ranker: str) -> None:
    catalog, user = random_catalog(5, n=3, rewards=[sw.Logistic()])
    ranking = sw.rank(sw.Instance.from_catalog(catalog, user, [0, 2]), 10, ranker)
    assert set(ranking.indices.tolist()) <= {0, 1}
    assert len(ranking.indices) >= 1


@every_ranker
def test_exclusions_may_leave_fewer_than_k(ranker: str) -> None:
    ranking = sw.rank(whole(random_catalog(5)), 5, ranker, exclude=np.arange(11))
    assert ranking.indices.tolist() == [11]


@every_ranker
def test_one_candidate(ranker: str) -> None:
    catalog, user = random_catalog(6)
    assert sw.rank(sw.Instance.from_catalog(catalog, user, [7]), 3, ranker).indices.tolist() == [0]


@every_ranker
def test_equal_items(ranker: str) -> None:
    same = np.ones((6, 2))
    instance = sw.Instance.from_catalog(sw.Catalog(same, same, same), [1.0, 1.0], np.arange(6))
    ranking = sw.rank(instance, 3, ranker)
    assert len(set(ranking.indices.tolist())) == 3
    assert ranking.value == pytest.approx(3 * float(sw.Logistic()(2.0)))


@every_ranker
def test_all_rewards_negative(ranker: str) -> None:
    """The best set may be smaller than k, and is never empty."""
    catalog, user = random_catalog(7, rewards=[sw.Linear(0.1, -5.0)])
    ranking = sw.rank(whole((catalog, user)), 4, ranker)
    assert 1 <= len(ranking.indices) <= 4
    assert ranking.value < 0
    if ranker not in ("knn", "mmr", "dpp"):  # these always fill the slate
        assert len(ranking.indices) == 1


@every_ranker
def test_ordered_slates_use_each_item_and_place_once(ranker: str) -> None:
    catalog, user = random_catalog(8, n=5, positions=3)
    instance = sw.Instance.from_catalog(catalog, user, [4, 1, 2, 0])
    ranking = sw.rank(instance, 3, ranker)
    rows, places = instance.candidates[ranking.indices], instance.positions[ranking.indices]
    assert len(set(rows.tolist())) == len(rows)
    assert sorted(places.tolist()) == places.tolist(), "in order of place"
    assert len(set(places.tolist())) == len(places)
    assert ranking.value == pytest.approx(sw.set_value(catalog, user, rows, places), rel=1e-12)


@every_ranker
@pytest.mark.parametrize(
    ("score", "reward"),
    [
        ([-800.0, -900.0, -1000.0], sw.Exp(scale=-1.0)),
        ([900.0, 950.0, 990.0], sw.Exp()),
        ([-1e99, -1e99, -1e99], sw.Linear()),
    ],
)
def test_values_beyond_the_largest_double(ranker: str, score, reward) -> None:
    """Constraints hold when values are infinite, and nothing is called proven."""
    ranking = sw.rank(sw.Instance(np.zeros((3, 3)), score, reward), 2, ranker, exclude=[0])
    assert set(ranking.indices.tolist()) <= {1, 2}
    assert np.isfinite(ranking.value) or not ranking.proven
    assert ranking.upper_bound >= ranking.value


def test_the_last_representable_exponentials_are_told_apart() -> None:
    instance = sw.Instance(np.zeros((3, 3)), [709.2, 709.5, 709.7], sw.Exp())
    best = sw.rank(instance, 1, "exhaustive")
    assert best.indices.tolist() == [2]
    assert best.proven


@every_ranker
def test_labels_of_any_size(ranker: str) -> None:
    labels = np.array([10**15, 10**15, -1, 5], np.int64)
    instance = sw.Instance(np.zeros((4, 4)), [4.0, 3.0, 2.0, 1.0], groups={"g": labels})
    chosen = set(sw.rank(instance, 4, ranker, at_most={"g": 1}).indices.tolist())
    assert not {0, 1} <= chosen
    assert sw.rank(instance, 4, ranker, at_most={"g": 10**20}).indices.size == 4


@every_ranker
def test_logits_of_any_size(ranker: str) -> None:
    """Huge logits give a number, not NaN; that it is the right one is test_never_better_than_the_truth's business."""
    instance = whole(random_catalog(9, sharpness=1e5))
    ranking = sw.rank(instance, 4, ranker)
    assert np.isfinite(ranking.value)


REFUSED = [
    ({"k": 0}, InvalidInput, "k must be a whole number of at least 1, got 0; pass 1 or more."),
    ({"k": 2.5}, InvalidInput, "k must be a whole number of at least 1, got 2.5; pass an int."),
    ({"k": True}, InvalidInput, "k must be a whole number of at least 1, got True; pass an int."),
    ({"at_most": {"genre": 1}}, InvalidInput, "at_most must be about attributes the items have (artist, year), got 'genre'; use one of those."),
    ({"at_most": {"artist": 0}}, InvalidInput, "at_most['artist'] must be a whole number of at least 1, got 0; pass 1 or more."),
    ({"include": [1], "exclude": [1]}, Infeasible, "include must be free of excluded candidates, got 1 in both; drop it from one of them."),
    ({"include": [0, 1, 2, 3]}, Infeasible, "include must be at most k = 3 candidates, got 4; raise k or pin fewer."),
    ({"include": [0, 4], "at_most": {"artist": 1}}, Infeasible, "include must be at most 1 of one group, got more; pin fewer or raise at_most."),
    ({"exclude": np.arange(12)}, Infeasible, "candidates must be at least one that is not excluded, got none; exclude fewer."),
    ({"include": [99]}, InvalidInput, "include must be row numbers of the instance, 0 to 11, got 99; pass row numbers, not ids."),
    ({"wings": 2}, InvalidInput, None),
    ({"at_most": 2}, InvalidInput, "at_most must be a mapping {attribute: n}, got 2; write at_most={'artist': 2}."),
]  # fmt: skip


@every_ranker
@pytest.mark.parametrize(("option", "error", "sentence"), REFUSED)
def test_invalid_arguments(ranker: str, option, error, sentence) -> None:
    instance = whole(random_catalog(5, attributes=GROUPS))
    with pytest.raises(error) as caught:
        sw.rank(instance, **{"k": 3, "ranker": ranker} | option)
    assert sentence is None or str(caught.value) == sentence


def test_what_is_not_an_instance_or_a_name() -> None:
    with pytest.raises(InvalidInput, match=r"instance must be a setwise\.Instance, got NoneType"):
        sw.rank(None, 3)
    with pytest.raises(InvalidInput, match="ranker must be one of"):
        sw.rank(whole(random_catalog(5)), 3, ["knn"])


def test_unknown_ranker() -> None:
    with pytest.raises(InvalidInput, match="got 'best'; choose one of those"):
        sw.rank(whole(random_catalog(5)), 3, "best")
