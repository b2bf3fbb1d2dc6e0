"""The simulated world: readable, seeded, and with set effects worth optimising."""

from __future__ import annotations

import numpy as np
import pytest

import setwise as sw
from setwise.datasets import World
from setwise.errors import InvalidInput


def test_the_seed_decides_everything() -> None:
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


def test_people_can_read_it() -> None:
    catalog = World.make(3000).catalog
    titles = catalog.attributes["title"][:]
    assert len(set(titles)) == 3000
    assert titles[0] == "Silver Harbour"
    artists, genres = catalog.attributes["artist"], catalog.attributes["genre"]
    assert len(set(artists[:])) > 100
    by_artist = dict(zip(artists[:], genres[:], strict=True))
    assert all(by_artist[artist] == genre for artist, genre in zip(artists[:], genres[:], strict=True))


def test_the_set_matters() -> None:
    """Top-k by score loses a good part of the value, as on trained models: there is something to optimise."""
    world = World.make()
    index, shares = sw.Index.build(world.catalog, cells=12), []
    for history in world.histories[:10]:
        user = world.user(history)
        candidates = index.candidates(user, per_cell=3, exclude=history)
        instance = sw.Instance.from_catalog(world.catalog, user, candidates)
        shares.append(sw.rank(instance, 4, "knn").value / sw.rank(instance, 4, "exhaustive").value)
    assert 0.6 < np.mean(shares) < 0.95


def test_near_copies_bore() -> None:
    world = World.make()
    user = world.user(world.histories[0])
    close = np.argsort(-(world.taste @ world.taste[7]))[:5]  # song 7 and its nearest copies
    together, alone = sw.item_rewards(world.catalog, user, close)[0], sw.item_rewards(world.catalog, user, [7])[0]
    assert together < alone


@pytest.mark.parametrize("wrong", [{"n_items": 0}, {"heads": 0}, {"n_users": -1}, {"seed": -1}])
def test_refusals(wrong) -> None:
    with pytest.raises(InvalidInput, match="must be a whole number of at least"):
        World.make(**wrong)
