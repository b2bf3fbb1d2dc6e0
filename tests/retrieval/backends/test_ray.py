"""The backend ``ray``: an index in shards equals one index, also while its actors are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.errors import ShardUnavailable
from worlds import random_catalog

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'setwise[ray]'")
from setwise.retrieval.backends import ray as backend  # noqa: E402

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]  # of Ray itself


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    yield
    ray.shutdown()


def two_indexes(seed: int, n: int = 900) -> tuple[sw.Index, sw.Index, sw.User]:
    catalog, user = random_catalog(seed, n=n, heads=2, base=True)
    whole = sw.Index.build(catalog, cells=7)
    options = {"shards": 2, "deadline_ms": 120_000}  # an actor loads compiled code when it is first asked
    return whole, sw.Index.build(catalog, partition=whole.partition, backend="ray", **options), user


def test_candidates_and_slates_equal_those_of_one_index() -> None:
    whole, sharded, user = two_indexes(1)
    assert sharded.statistics.backend == "ray"
    for index in (whole, sharded):
        index.remove([3, 4])
    np.testing.assert_array_equal(whole.candidates(user, 5), sharded.candidates(user, 5))
    one, other = (sw.Recommender(index, certify=False).recommend(user, k=4) for index in (whole, sharded))
    np.testing.assert_array_equal(one.indices, other.indices)
    assert one.value == other.value


def test_saved_and_loaded(tmp_path: Path) -> None:
    whole, sharded, user = two_indexes(3)
    sharded.save(tmp_path / "index")
    again = sw.Index.load(tmp_path / "index")
    np.testing.assert_array_equal(again.candidates(user, 5), whole.candidates(user, 5))


def test_a_killed_actor_comes_back_and_no_answer_is_wrong() -> None:
    whole, sharded, user = two_indexes(4)
    expected = whole.candidates(user, 5)
    actors = backend._started(2)
    for number in range(3):
        pid = ray.get(actors[number % 2].pid.remote())
        os.kill(pid, signal.SIGKILL)
        try:
            np.testing.assert_array_equal(sharded.candidates(user, 5), expected)
        except ShardUnavailable:
            continue
    np.testing.assert_array_equal(sharded.candidates(user, 5), expected)
