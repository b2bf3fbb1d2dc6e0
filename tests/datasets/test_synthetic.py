"""The simulated world: readable titles, determinism, set effects, and a log that follows the true model."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.datasets import World
from setwise.errors import InvalidInput


def test_the_seed_determines_everything() -> None:
    one, same, other = World.make(300, seed=4), World.make(300, seed=4), World.make(300, seed=5)
    np.testing.assert_array_equal(one.catalog.query, same.catalog.query)
    np.testing.assert_array_equal(one.histories[0], same.histories[0])
    assert not np.array_equal(one.catalog.query, other.catalog.query)


@pytest.mark.parametrize(("n", "heads"), [(1, 1), (20, 3), (1000, 4), (20_000, 2)])
def test_any_size_and_any_number_of_heads(n: int, heads: int) -> None:
    world = World.make(n, n_users=3, heads=heads)
    assert world.catalog.n_items == n
    assert world.catalog.heads == heads
    for history in world.histories:
        assert len(set(history.tolist())) == len(history) == min(15, n)
        assert np.isfinite(sw.set_value(world.catalog, world.user(history), history[:5]))


def test_titles_and_artists_are_readable() -> None:
    catalog = World.make(3000).catalog
    titles = catalog.attributes["title"][:]
    assert len(set(titles)) == 3000
    assert titles[0] == "Silver Harbour"
    artists, genres = catalog.attributes["artist"], catalog.attributes["genre"]
    assert len(set(artists[:])) > 100
    by_artist = dict(zip(artists[:], genres[:], strict=True))
    assert all(by_artist[artist] == genre for artist, genre in zip(artists[:], genres[:], strict=True))


def test_sets_have_interactions() -> None:
    """Top-k by score loses a good part of the value, as on trained models: there is something to optimise."""
    world = World.make()
    index, shares = sw.Index.build(world.catalog, cells=12), []
    for history in world.histories[:10]:
        user = world.user(history)
        candidates = index.candidates(user, per_cell=3, exclude=history)
        instance = sw.Instance.from_catalog(world.catalog, user, candidates)
        shares.append(sw.rank(instance, 4, "knn").value / sw.rank(instance, 4, "exhaustive").value)
    assert 0.6 < np.mean(shares) < 0.95


def test_near_copies_lower_the_value() -> None:
    world = World.make()
    user = world.user(world.histories[0])
    close = np.argsort(-(world.taste @ world.taste[7]))[:5]  # song 7 and its nearest copies
    together, alone = sw.item_rewards(world.catalog, user, close)[0], sw.item_rewards(world.catalog, user, [7])[0]
    assert together < alone


def test_songs_of_one_mood_raise_the_value() -> None:
    world = World.make(500)
    np.testing.assert_allclose(np.linalg.norm(world.mood, axis=1), 1)
    quiet = World.make(500, variety=0.0, complementarity=0.0)
    user = quiet.user(quiet.histories[0])
    alone = [sw.item_rewards(quiet.catalog, user, [row])[0] for row in range(5)]
    np.testing.assert_allclose(sw.item_rewards(quiet.catalog, user, np.arange(5)), alone)


# --- the log ---


def test_the_seed_determines_the_log() -> None:
    world = World.make(200)
    one, same, other = world.log(50, k=4, seed=3), world.log(50, k=4, seed=3), world.log(50, k=4, seed=4)
    np.testing.assert_array_equal(one.shown.values, same.shown.values)
    np.testing.assert_array_equal(one.outcome, same.outcome)
    assert not np.array_equal(one.shown.values, other.shown.values)


@pytest.mark.parametrize("greed", [0.0, 8.0, 100.0])
def test_a_slate_is_k_unseen_songs(greed: float) -> None:
    world = World.make(60)
    log = world.log(300, k=7, greed=greed)
    assert len(log) == 300
    assert (log.shown.lengths == 7).all()
    for history, shown in zip(log.history, log.shown, strict=True):
        assert len(set(history)) == len(history) == 15
        assert len({*history, *shown}) == 15 + 7
    assert set(log.outcome) <= {0.0, 1.0}
    assert list(log.ids) == list(world.catalog.ids[:])
    assert log.attributes["title"][7] == world.catalog.attributes["title"][7]


def test_greed_increases_the_mean_liking() -> None:
    world = World.make(300)
    liking = [
        np.einsum("bkd,bd->bk", world.taste[log.shown.values.reshape(-1, 5)], world.taste[log.history.values.reshape(-1, 15)].mean(1)).mean()
        for log in (world.log(200, k=5, greed=greed) for greed in (0.0, 30.0))
    ]  # fmt: skip
    assert liking[1] > liking[0]


def test_expected_agrees_with_the_reference_objective() -> None:
    world = World.make(200, heads=3)
    log = world.log(8, k=6)
    history, shown = log.history.values.reshape(8, -1), log.shown.values.reshape(8, -1)
    expected = world.expected(history, shown)
    for row in range(8):
        reference = sw.item_rewards(world.catalog, world.user(history[row]), shown[row])
        np.testing.assert_allclose(expected[row], reference, rtol=1e-6)


def test_outcomes_follow_the_expected_probabilities() -> None:
    """The sum of outcomes is within five standard deviations of what the truth expects."""
    world = World.make(300)
    log = world.log(3000)
    p = world.expected(log.history.values.reshape(3000, -1), log.shown.values.reshape(3000, -1)).ravel()
    assert abs(log.outcome.sum() - p.sum()) < 5 * np.sqrt((p * (1 - p)).sum())
    likely = p > np.median(p)
    assert log.outcome[likely].mean() > log.outcome[~likely].mean()


def test_slates_longer_than_the_world_are_refused() -> None:
    assert len(World.make(25).log(3, k=10)) == 3
    with pytest.raises(InvalidInput, match="k must be at most 10, the items beyond a history, got 11"):
        World.make(25).log(3, k=11)
    for wrong in ({"n_slates": 0}, {"n_slates": 5, "k": 0}, {"n_slates": 5, "seed": -1}):
        with pytest.raises(InvalidInput, match="must be a whole number of at least"):
            World.make(60).log(**wrong)


@pytest.mark.parametrize("wrong", [{"n_items": 0}, {"heads": 0}, {"n_users": -1}, {"seed": -1}])
def test_invalid_arguments(wrong) -> None:
    with pytest.raises(InvalidInput, match="must be a whole number of at least"):
        World.make(**wrong)
