"""A catalogue in shards answers as the whole one does, to the last bit, and never from some of the shards alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from cells import random_cells
from setwise.errors import ShardUnavailable
from setwise.retrieval.backends.protocol import Hits, by_cell, item_vectors
from setwise.retrieval.backends.scan import Scan
from setwise.retrieval.shards import (
    Patience,
    Shard,
    ShardedSearch,
    ShardHost,
    first_answers,
    merged,
    row_ranges,
    write_shards,
)
from worlds import random_catalog

SHORT = Patience(deadline_ms=300, hedge_ms=20)  # where a call is never answered
LONG = Patience(deadline_ms=3.6e6, hedge_ms=20)  # where one is, on the slowest machine
NO_HEDGE = Patience(deadline_ms=3.6e6, hedge_ms=3.6e6)


class Here:
    """A host in this process: calls are answered at once."""

    def __init__(self, host: ShardHost | None = None) -> None:
        self.host, self.calls = host or ShardHost(), 0

    def submit(self, folder, users, per_cell, eligible) -> Future[Hits]:
        self.calls += 1
        return finished(lambda: self.host.search(folder, users, per_cell, eligible))


def finished(call: Callable[[], Hits]) -> Future[Hits]:
    future: Future[Hits] = Future()
    try:
        future.set_result(call())
    except Exception as error:
        future.set_exception(error)
    return future


class Silent:
    """A host that does not answer."""

    def submit(self, *arguments) -> Future[Hits]:
        return Future()


class Broken:
    """A host whose calls fail."""

    def submit(self, *arguments) -> Future[Hits]:
        return finished(lambda: (_ for _ in ()).throw(ConnectionError("the host ended")))


def split(folder: Path, vectors, cell_of, cells, shards: int, backend: str = "scan") -> list[Shard]:
    order, start = by_cell(cell_of, cells)
    return write_shards(folder, vectors[order], order, start, shards, backend)


def same(one: Hits, other: Hits) -> None:
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_array_equal(one.scores.view(np.int32), other.scores.view(np.int32))


def test_any_number_of_shards_equals_the_whole_to_the_last_bit(tmp_path: Path, count) -> None:
    for seed in range(count(500)):
        vectors, cell_of, cells, users, per_cell, eligible = random_cells(3000 + seed)
        whole = Scan.build(vectors, cell_of, cells).search(users, per_cell, eligible)
        for shards in range(1, 6):
            parts = split(tmp_path / f"{seed}-{shards}", vectors, cell_of, cells, shards)
            assert [part.first for part in parts[1:]] == [part.last for part in parts[:-1]]
            same(ShardedSearch(parts, [[Here()] for _ in parts], LONG).search(users, per_cell, eligible), whole)


def test_an_index_over_shards_equals_one_index_while_items_come_and_go(tmp_path: Path, count) -> None:
    for seed in range(count(100)):
        rng = np.random.default_rng(seed)
        catalog, user = random_catalog(seed, n=600, heads=1 + seed % 2, base=bool(seed % 3), ids=list(range(600)))
        whole = sw.Index.build(catalog, cells=5)
        order, start = by_cell(whole.cell_of, 5)
        vectors = item_vectors(catalog)[order]
        parts = write_shards(tmp_path / str(seed), vectors, order, start, int(rng.integers(1, 6)), "scan")
        search = ShardedSearch(parts, [[Here()] for _ in parts], LONG)
        sharded = sw.Index(replace(whole._state, neighbors=search), "scan", {})
        for step in range(4):
            gone = rng.choice(600, 3, replace=False)
            new, _ = random_catalog(
                1000 + seed,
                n=5,
                heads=1 + seed % 2,
                base=bool(seed % 3),
                ids=list(range(1000 + 5 * step, 1005 + 5 * step)),
            )
            for index in (whole, sharded):
                index.remove(gone)
                index.add(new)
            exclude = rng.choice(600, 20, replace=False)
            np.testing.assert_array_equal(whole.candidates(user, 4, exclude), sharded.candidates(user, 4, exclude))
        one, other = (sw.Recommender(index, certify=False).recommend(user, k=5) for index in (whole, sharded))
        np.testing.assert_array_equal(one.indices, other.indices)
        assert (one.value, one.rewards.tolist()) == (other.value, other.rewards.tolist())


def test_ties_and_overflown_scores_go_by_row() -> None:
    shards = [Shard("", 0, 3), Shard("", 3, 6)]
    low = -np.inf
    answers = [
        Hits(np.array([[[1, 0, -1]]]), np.array([[[2.0, low, low]]], np.float32)),
        Hits(np.array([[[0, 2, 1]]]), np.array([[[2.0, 2.0, low]]], np.float32)),
    ]
    assert merged(shards, answers, 3).rows.tolist() == [[[1, 3, 5]]]
    assert merged(shards, answers, 6).rows.tolist() == [[[1, 3, 5, 0, 4, -1]]]


def test_rows_are_divided_evenly() -> None:
    assert row_ranges(10, 3) == [(0, 3), (3, 6), (6, 10)]
    assert row_ranges(2, 5) == [(0, 1), (1, 2)]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory):
    vectors, cell_of, cells, users, per_cell, eligible = random_cells(4)
    folder = tmp_path_factory.mktemp("shards")
    whole = Scan.build(vectors, cell_of, cells).search(users, per_cell, eligible)
    return split(folder, vectors, cell_of, cells, 3), (users, per_cell, eligible), whole


@pytest.mark.parametrize("bad", [Silent, Broken])
def test_another_replica_answers_for_one_that_does_not(parts, bad) -> None:
    shards, asked, whole = parts
    search = ShardedSearch(shards, [[bad(), Here()], [Here(), bad()], [Here(), Here()]], LONG)
    for _ in range(4):  # each replica is the first in its turn
        same(search.search(*asked), whole)


@pytest.mark.parametrize(
    ("bad", "reason"), [(Silent, "no answer within 300 ms"), (Broken, "ConnectionError: the host")]
)
def test_a_lost_shard_is_refused(parts, bad, reason: str) -> None:
    shards, asked, _ = parts
    with pytest.raises(ShardUnavailable, match=reason) as raised:
        ShardedSearch(shards, [[Here()], [bad(), bad()], [Here()]], SHORT).search(*asked)
    assert raised.value.shard == 1


def test_a_second_replica_is_asked_only_when_the_first_is_slow(parts) -> None:
    shards, asked, _ = parts
    first, second = Here(), Here()
    ShardedSearch(shards, [[first, second], [Here()], [Here()]], NO_HEDGE).search(*asked)
    assert (first.calls, second.calls) == (1, 0)


def test_an_answer_that_comes_during_the_wait_counts() -> None:
    future: Future[int] = Future()
    threading.Timer(0.05, future.set_result, [7]).start()
    assert first_answers([[lambda: future]], LONG) == [7]


def test_an_answer_that_is_there_counts_after_the_deadline() -> None:
    assert first_answers([[lambda: finished(lambda: 7)]], Patience(0, 0)) == [7]


def test_a_host_reopens_shards_and_closes_the_oldest(parts) -> None:
    shards, (users, per_cell, _), _ = parts
    host = ShardHost(most=1)
    before = [host.search(shard.folder, users, per_cell) for shard in shards]
    again = [host.search(shard.folder, users, per_cell) for shard in shards]
    for one, other in zip(before, again, strict=True):
        same(one, other)
    host.forget(shards[0].folder)
    same(host.search(shards[0].folder, users, per_cell), before[0])
