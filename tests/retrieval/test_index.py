"""Index: build, ask, filter, change, save."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from processes import LIMIT, until
from setwise.datasets import World
from setwise.errors import DamagedArtifact, Infeasible, InvalidInput
from setwise.retrieval.backends.protocol import BACKENDS
from setwise.retrieval.partition import Partition
from worlds import random_catalog


def world_index(n: int = 600, **options) -> tuple[World, sw.Index]:
    world = World.make(n, n_users=5, seed=3)
    return world, sw.Index.build(world.catalog, **{"cells": 8, "backend": "numpy"} | options)


def by_hand(index: sw.Index, user: sw.User, per_cell: int, allowed=None) -> set[int]:
    """The best of every cell, straight from the definition."""
    catalog = index.catalog
    score = np.einsum("nhd,hd->n", catalog.value.astype(float), user.heads) + catalog.base.astype(float) @ user.base
    chosen: set[int] = set()
    for cell in range(index.partition.n_cells):
        rows = np.flatnonzero((index.cell_of == cell) & (True if allowed is None else allowed))
        chosen |= set(rows[np.argsort(-score[rows], kind="stable")][:per_cell].tolist())
    return chosen


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_candidates_are_the_best_of_every_cell(backend: str) -> None:
    world, index = world_index(backend=backend)
    for history in world.histories:
        user = world.user(history)
        found = index.candidates(user, per_cell=4)
        assert set(found.tolist()) == by_hand(index, user, 4)
        assert (np.diff(found) > 0).all()


def test_exclusions_and_filters() -> None:
    world, index = world_index()
    user = world.user(world.histories[0])
    genre, year = world.catalog.attributes["genre"], world.catalog.attributes["year"]
    allowed = np.array([g in ("folk", "jazz") for g in genre[:]]) & (year >= 1980)
    allowed[world.histories[0]] = False
    found = index.candidates(
        user, 4, exclude=world.histories[0], where={"genre": ["folk", "jazz"], "year": (1980, None)}
    )
    assert set(found.tolist()) == by_hand(index, user, 4, allowed)
    one = index.candidates(user, 4, where={"genre": "folk", "year": [1999, 2000]})
    assert set(one.tolist()) == by_hand(
        index, user, 4, np.array([g == "folk" for g in genre[:]]) & np.isin(year, [1999, 2000])
    )
    for same in ({1999, 2000}, np.array([1999, 2000]), (1999, 2000)):
        other = index.candidates(user, 4, where={"genre": {"folk"}, "year": same})
        np.testing.assert_array_equal(other, one)
    repeated = np.concatenate([world.histories[0], world.histories[0]])
    np.testing.assert_array_equal(
        index.candidates(user, 4, exclude=repeated), index.candidates(user, 4, exclude=world.histories[0])
    )


@pytest.mark.parametrize(
    ("option", "error", "sentence"),
    [
        ({"where": {"genre": "polka"}}, Infeasible, "where['genre'] must be met by an item, got 'polka'; name one of its texts: 'folk', 'house', 'ambient', 'blues', 'reggae', 'jazz', 'techno', 'disco', …."),
        ({"where": {"mood": "sad"}}, InvalidInput, "attribute must be one the catalogue has (artist, genre, title, year), got 'mood'; use one of those names."),
        ({"where": {"year": (1, 2, 3)}}, InvalidInput, "where['year'] must be a pair of numbers (low, high), got (1, 2, 3); use None for an open end."),
        ({"where": {"year": ("a", "b")}}, InvalidInput, "where['year'] must be a pair of numbers (low, high), got ('a', 'b'); use None for an open end."),
        ({"where": {"year": "1999"}}, InvalidInput, "where['year'] must be a number, a list of numbers or a range (low, high), got '1999'; the column holds numbers."),
        ({"where": {"year": float("nan")}}, InvalidInput, "where['year'] must be a number, a list of numbers or a range (low, high), got nan; the column holds numbers."),
        ({"where": {"genre": ("a", "m")}}, InvalidInput, "where['genre'] must be a text or a list of texts, got ('a', 'm'); the column holds texts: 'folk', 'house', 'ambient', 'blues', 'reggae', 'jazz', 'techno', 'disco', …."),
        ({"where": {"genre": 3}}, InvalidInput, "where['genre'] must be a text or a list of texts, got 3; the column holds texts: 'folk', 'house', 'ambient', 'blues', 'reggae', 'jazz', 'techno', 'disco', …."),
        ({"where": ["genre"]}, InvalidInput, "where must be a mapping {attribute: condition}, got ['genre']; write where={'genre': 'jazz'}."),
        ({"per_cell": 0}, InvalidInput, "per_cell must be a whole number of at least 1, got 0; pass 1 or more."),
        ({"per_head": -1}, InvalidInput, "per_head must be a whole number of at least 0, got -1; pass 0 or more."),
        ({"exclude": [600]}, InvalidInput, "exclude must be row numbers of the catalogue, 0 to 599, got 600; pass row numbers, not ids."),
    ],
)  # fmt: skip
def test_invalid_arguments(option, error, sentence: str) -> None:
    world, index = world_index()
    with pytest.raises(error) as caught:
        index.candidates(world.user(world.histories[0]), **option)
    assert str(caught.value) == sentence


def test_build_refuses_what_it_cannot_do() -> None:
    catalog, _ = random_catalog(0, positions=2)
    with pytest.raises(InvalidInput, match="catalog must be without positional encodings"):
        sw.Index.build(catalog)
    with pytest.raises(InvalidInput, match="cells must be a whole number of at least 1, got 0"):
        sw.Index.build(random_catalog(0)[0], cells=0)


def test_each_head_alone_adds_what_the_total_hides() -> None:
    world, index = world_index()
    user = world.user(world.histories[1])
    plain, wide = index.candidates(user, 3), index.candidates(user, 3, per_head=2)
    assert set(plain.tolist()) < set(wide.tolist())
    assert len(wide) <= 8 * (3 + 2 * 2)
    one_head, someone = random_catalog(1, n=100)
    single = sw.Index.build(one_head, cells=4, backend="numpy")
    np.testing.assert_array_equal(single.candidates(someone, 3, per_head=5), single.candidates(someone, 3))


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_many_users_at_once(backend: str) -> None:
    world, index = world_index(backend=backend)
    users = [world.user(history) for history in world.histories]
    together = index.candidates_many(users, 4, exclude=world.histories)
    for user, history, found in zip(users, world.histories, together, strict=True):
        np.testing.assert_array_equal(found, index.candidates(user, 4, exclude=history))
    for user, found in zip(users, index.candidates_many(users, 4), strict=True):
        np.testing.assert_array_equal(found, index.candidates(user, 4))
    assert index.candidates_many([], 4) == []


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_many_users_with_a_filter_and_heads(backend: str) -> None:
    """Those whose exclusions crowd one cell are served alone, with the same result."""
    world, index = world_index(backend=backend)
    users = [world.user(history) for history in world.histories]
    crowded = np.flatnonzero(index.cell_of == index.cell_of[0])[:50]
    lists = [crowded, *world.histories[1:]]
    for options in ({"per_head": 2}, {"where": {"year": (1980, None)}}, {"where": {"genre": "jazz"}, "per_head": 3}):
        together = index.candidates_many(users, 4, exclude=lists, **options)
        for user, rows, found in zip(users, lists, together, strict=True):
            np.testing.assert_array_equal(found, index.candidates(user, 4, exclude=rows, **options))
    heavy = [np.flatnonzero(index.cell_of == 0), *world.histories[1:]]  # one user has seen a whole cell
    for user, seen, found in zip(users, heavy, index.candidates_many(users, 4, exclude=heavy), strict=True):
        np.testing.assert_array_equal(found, index.candidates(user, 4, exclude=seen))
    with pytest.raises(Infeasible, match="where and exclude must be"):
        index.candidates_many(users[:1], 4, exclude=np.arange(600)[None])
    with pytest.raises(InvalidInput, match="exclude must be one list per user, 5 in all, got 1"):
        index.candidates_many(users, 4, exclude=[[]])


@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.parametrize(("per_head", "where"), [(0, None), (2, None), (0, {"year": (1980, None)})])
def test_the_reserve_is_what_comes_next(backend: str, per_head: int, where) -> None:
    world, index = world_index(backend=backend)
    users = [world.user(history) for history in world.histories]
    eligible = [index.eligible(where=where).without(history) for history in world.histories]
    separate = [index.eligible(history, where) for history in world.histories]  # masks of their own: no shared pass
    batches = [index.retrieve_many(users, 3, each, per_head, reserve=4) for each in (eligible, separate)]
    for user, history, mine, many, other in zip(users, world.histories, eligible, *batches, strict=True):
        found = index.retrieve(user, 3, mine, per_head, reserve=4)
        np.testing.assert_array_equal(found.best, index.candidates(user, 3, history, where, per_head))
        both = index.candidates(user, 7, history, where, per_head)
        np.testing.assert_array_equal(np.sort(np.concatenate([found.best, found.reserve])), both)
        for each in (many, other):
            np.testing.assert_array_equal(each.best, found.best)
            np.testing.assert_array_equal(each.reserve, found.reserve)
    assert not len(index.retrieve(users[0], 3).reserve)
    assert [len(each.best) for each in index.retrieve_many(users, 3)] == [24] * len(users)
    with pytest.raises(InvalidInput, match="eligible must be one per user, 5 in all, got 1"):
        index.retrieve_many(users, 3, eligible[:1])
    with pytest.raises(
        InvalidInput, match="eligible must be one for the 600 items of this catalogue, got one for 12 items"
    ):
        index.retrieve(users[0], 3, sw.Index.build(random_catalog(0, n=12)[0], cells=1).eligible())


def test_add_remove_and_compact() -> None:
    world = World.make(600, n_users=3, seed=3)
    index = sw.Index.build(world.catalog.taken(np.arange(500)), cells=8, backend="auto")
    index.add(world.catalog.taken(np.arange(500, 550)))
    index.add(world.catalog.taken(np.arange(550, 600)))
    gone = world.catalog.ids[[0, 7, 520]].tolist()
    index.remove(gone[:2])
    index.remove(gone[2:])
    user = world.user(world.histories[0])
    allowed = ~np.isin(np.arange(600), [0, 7, 520])
    assert index.statistics.overflow == 100
    assert index.statistics.removed == 3
    before = index.candidates(user, 5)
    assert set(before.tolist()) == by_hand(index, user, 5, allowed)
    ids = set(index.catalog.ids[before].tolist())
    index.compact()
    assert index.statistics.overflow == index.statistics.removed == 0
    assert len(index.catalog) == 597
    after = index.candidates(user, 5)
    assert set(index.catalog.ids[after].tolist()) == ids
    np.testing.assert_array_equal(
        index.partition.reward_class[index.cell_of], index.catalog.reward_class, "a cell has one reward class"
    )


def test_items_without_ids_go_on_counting() -> None:
    catalog, user = random_catalog(2, n=40)
    index = sw.Index.build(catalog.taken(np.arange(40)), cells=2, backend="numpy")
    plain = sw.Index.build(random_catalog(2, n=40)[0], cells=2, backend="numpy")
    plain.add(random_catalog(3, n=5)[0])
    assert plain.catalog.ids[44] == 44
    assert len(plain.candidates(user, 30)) == 45
    with pytest.raises(InvalidInput, match="ids must be distinct"):
        index.add(catalog.taken([3]))


def test_new_values_of_a_column_join_the_old_ones() -> None:
    catalog, _ = random_catalog(2, n=3, ids=["a", "b", "c"], attributes={"x": ["p", None, "q"], "y": [1, 2, 3]})
    newer, _ = random_catalog(3, n=3, ids=["d", "e", "f"], attributes={"x": ["r", "q", None], "y": [4, 5, 6]})
    both = catalog.joined(newer)
    assert both.attributes["x"][:] == ["p", None, "q", "r", "q", None]
    assert both.attributes["y"].tolist() == [1, 2, 3, 4, 5, 6]
    assert both.rows_of(["f", "a"]).tolist() == [5, 0]
    with pytest.raises(InvalidInput, match="ids must be all str or all int of 64 bits, got some of each"):
        catalog.joined(random_catalog(3, n=2, attributes={"x": ["r", "q"], "y": [4, 5]})[0])
    with pytest.raises(InvalidInput, match="attributes of the new items must be"):
        catalog.joined(random_catalog(3, n=1, ids=["z"], attributes={"x": ["r"], "y": ["four"]})[0])
    numbered = random_catalog(2, n=2, ids=[7, 9])[0].joined(random_catalog(2, n=2, ids=[1, 2])[0])
    assert numbered.rows_of([1, 9]).tolist() == [2, 1]


def test_items_that_do_not_fit() -> None:
    world, index = world_index()
    other, _ = random_catalog(0, heads=2, base=True)
    with pytest.raises(InvalidInput, match="query of the new items must be of shape"):
        index.add(other)
    bare = world.catalog.taken([0])
    alien = sw.Catalog(bare.query, bare.key, bare.value, sw.Tanh(), bare.base, bare.sink, ["new"], {name: bare.attributes[name][[0]] for name in bare.attributes})  # fmt: skip
    with pytest.raises(InvalidInput, match="the new items' reward must be one that the index has cells for"):
        index.add(alien)
    with pytest.raises(InvalidInput, match="ids must be distinct, got 'song-0' more than once"):
        index.add(bare)
    with pytest.raises(InvalidInput, match="attributes of the new items must be"):
        index.add(sw.Catalog(bare.query, bare.key, bare.value, bare.rewards[0], bare.base, bare.sink, ["new"]))
    with pytest.raises(Infeasible, match="ids must be fewer than all items"):
        index.remove(world.catalog.ids[np.arange(600)])


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_saved_and_opened(backend: str, tmp_path: Path) -> None:
    if not BACKENDS[backend].available:
        pytest.skip(f"{BACKENDS[backend].library} is not installed")
    world, index = world_index(backend=backend)
    index.remove(["song-5"])
    index.save(tmp_path)
    assert index.statistics.removed == 1, "saving compacts what is saved, not what is served"
    loaded = sw.Index.load(tmp_path)
    user = world.user(world.histories[0])
    ids = [set(one.catalog.ids[one.candidates(user, 6)].tolist()) for one in (loaded, index)]
    assert ids[0] == ids[1]
    index.compact()
    assert loaded.statistics == index.statistics
    assert not loaded.catalog.value.flags.owndata
    assert repr(loaded) == f"Index(599 items, 8 cells, backend '{backend}')"
    with pytest.raises(DamagedArtifact, match="the kind is 'index', not 'catalog'"):
        sw.Catalog.load(tmp_path)


def test_an_item_like_another_goes_to_its_cell() -> None:
    """New items are measured as the cells were made: in logits, not in raw distances."""
    rng = np.random.default_rng(2)
    query, key = 0.05 * rng.normal(size=(2000, 8)), 5 * rng.normal(size=(2000, 8))
    value = rng.normal(size=(2000, 4))
    index = sw.Index.build(sw.Catalog(query, key, value, ids=np.arange(2000)), cells=32, backend="numpy")
    index.add(sw.Catalog(query[:500], key[:500], value[:500], ids=np.arange(500) + 10**6))
    assert (index.cell_of[2000:] == index.cell_of[:500]).mean() > 0.9


def test_an_id_may_come_back_and_numbers_go_on() -> None:
    world, index = world_index()
    index.remove(["song-3"])
    changed = world.catalog.taken([3])
    index.add(changed)
    assert index.catalog.rows_of(["song-3"]).tolist() == [599]
    plain = sw.Index.build(random_catalog(2, n=60)[0], cells=3, backend="numpy")
    plain.add(random_catalog(3, n=5)[0])
    plain.compact()
    plain.add(random_catalog(4, n=5)[0])
    assert plain.catalog.ids[69] == 69


def test_a_reward_class_survives_the_loss_of_its_items() -> None:
    catalog, user = random_catalog(5, n=60, rewards=[sw.Logistic(), sw.ReLU()], ids=[f"i{row}" for row in range(60)])
    index = sw.Index.build(catalog, cells=4, backend="numpy")
    lost = np.flatnonzero(catalog.reward_class == 1)
    back = catalog.taken(lost[:3])
    index.remove(catalog.ids[lost].tolist())
    index.compact()
    index.add(back)
    assert set(back.ids[np.arange(3)]) <= set(index.catalog.ids[index.candidates(user, 60)])


def test_changes_while_it_is_saved_are_in_it_whole_or_not_at_all(tmp_path: Path) -> None:
    world = World.make(400, n_users=1, seed=3)
    index = sw.Index.build(world.catalog.taken(np.arange(200)), cells=4, backend="numpy")
    user = world.user([0])

    def grow() -> None:
        for start in range(200, 400, 10):
            index.add(world.catalog.taken(np.arange(start, start + 10)))
            index.remove([f"song-{start - 200}"])

    change = threading.Thread(target=grow, daemon=True)
    change.start()
    deadline = time.monotonic() + LIMIT
    while change.is_alive():
        assert time.monotonic() < deadline
        index.save(tmp_path)
        loaded = sw.Index.load(tmp_path)
        assert len(loaded.candidates(user, 400)) == len(loaded.catalog), "every item that was saved can be found"
    index.save(tmp_path)
    assert len(sw.Index.load(tmp_path).catalog) == 380


def test_options_are_kept_and_secrets_are_not(tmp_path: Path) -> None:
    world, index = world_index(backend="tree", recall=np.float32(0.9), sample_users=np.ones((3, 28)))
    index.save(tmp_path / "tree")
    assert "sample_users" not in (tmp_path / "tree" / "manifest.json").read_text()
    loaded = sw.Index.load(tmp_path / "tree")
    loaded.remove(["song-1"])
    loaded.compact()
    assert 0.89 < loaded._options["recall"] < 0.91
    with pytest.raises(InvalidInput, match="options of 'scan' must be among: none, got 'recal'; drop it"):
        sw.Index.build(world.catalog, recal=0.9)
    with pytest.raises(InvalidInput, match="options of 'tree' must be among: none, got 'dsn'; drop it"):
        sw.Index.load(tmp_path / "tree", dsn="x")


def test_values_and_users_of_any_size() -> None:
    catalog, user = random_catalog(4, n=200, dtype=np.float64)
    index = sw.Index.build(catalog, cells=4)
    for factor in (1e-80, 1e-30, 1e30, 1e90):
        np.testing.assert_array_equal(index.candidates(sw.User(user.heads * factor), 5), index.candidates(user, 5))
    with pytest.raises(InvalidInput, match=r"value and base must be at most 1e\+18 in size"):
        sw.Index.build(sw.Catalog(catalog.query, catalog.key, catalog.value * 1e30, dtype=np.float64), cells=4)
    assert len(index.candidates(user, 10**12)) == 200


def test_partitions_that_do_not_fit() -> None:
    world, index = world_index()
    other = world.catalog.taken(np.arange(300))
    for arguments in (
        {"partition": index.partition},
        {"partition": sw.Index.build(other, cells=4).partition, "cells": 4},
    ):
        with pytest.raises(InvalidInput, match="partition must be one of this catalogue, in place of cells"):
            sw.Index.build(other, **arguments)
    with pytest.raises(InvalidInput, match="cell_of must be an array of shape"):
        Partition.of(other, np.zeros(5, int), 1)
    with pytest.raises(InvalidInput, match="cell_of must be whole numbers from 0 to 0, got others"):
        Partition.of(other, np.ones(300, int), 1)
    mixed, _ = random_catalog(5, rewards=[sw.Logistic(), sw.ReLU()])
    with pytest.raises(InvalidInput, match="cell_of must be cells of one reward class each"):
        Partition.of(mixed, np.zeros(12, int), 1)


def test_a_partition_made_by_hand_and_a_compaction_without_removals() -> None:
    world, index = world_index()
    by_cover = sw.Index.build(world.catalog, partition=index.partition, backend="numpy")
    user = world.user(world.histories[0])
    np.testing.assert_array_equal(by_cover.candidates(user, 4), index.candidates(user, 4))
    by_cover.compact()
    np.testing.assert_array_equal(by_cover.candidates(user, 4), index.candidates(user, 4))
    by_cover.remove(["song-1"])
    kept = by_cover.candidates(user, 600, exclude=[2], where={"year": (None, None)})
    assert set(range(600)) - set(kept.tolist()) == {1, 2}


def test_statistics() -> None:
    _, index = world_index()
    seen = index.statistics
    assert seen.n_items == 600
    assert seen.n_cells == 8
    assert 0 < seen.smallest_cell <= seen.median_cell <= seen.largest_cell <= 150, "no cell above twice the average"
    assert seen.query_radius > 0


def test_two_hundred_threads_get_the_answers_of_one() -> None:
    world, index = world_index(n=2000, backend="auto")
    users = [world.user(history) for history in world.histories]
    alone = [index.candidates(user, 5, exclude=history) for user, history in zip(users, world.histories, strict=True)]
    wrong: list[int] = []

    def ask(number: int) -> None:
        mine = number % 5
        if not np.array_equal(index.candidates(users[mine], 5, exclude=world.histories[mine]), alone[mine]):
            wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(200)]
    for thread in threads:
        thread.start()
    until(lambda: not any(thread.is_alive() for thread in threads))
    assert not wrong


def test_answers_while_it_changes() -> None:
    """A search under way keeps the state it began with: every answer is right for some moment."""
    world, index = world_index(n=800, backend="auto")
    user = world.user(world.histories[0])
    first = index.candidates(user, 5)
    index.remove(world.catalog.ids[first[:3]].tolist())
    without = index.candidates(user, 5)
    _, fresh = world_index(n=800, backend="auto")
    seen = []
    begun, done = threading.Event(), threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.append(fresh.candidates(user, 5))
            begun.set()
        seen.append(fresh.candidates(user, 5))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    assert begun.wait(LIMIT)
    fresh.remove(world.catalog.ids[first[:3]].tolist())
    done.set()
    watcher.join(LIMIT)
    assert not watcher.is_alive()
    assert np.array_equal(seen[0], first)
    assert np.array_equal(seen[-1], without)
    assert all(np.array_equal(found, first) or np.array_equal(found, without) for found in seen)


def test_a_progress_bar_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    world_index(progress=True)
    assert "building the index" in capsys.readouterr().err
    world_index(progress=False)
    assert capsys.readouterr().err == ""
