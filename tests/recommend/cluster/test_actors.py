"""A cluster of Ray actors answers as one index does, also while its actors are killed."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import setwise as sw
from setwise.errors import ShardUnavailable
from setwise.recommend.cluster.files import write_cluster
from setwise.retrieval.shards import Patience
from worlds import random_catalog

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'setwise[ray]'")
from setwise.recommend.cluster import actors  # noqa: E402

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]  # of Ray itself
LONG = Patience(deadline_ms=3.6e6, hedge_ms=3.6e6)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    actors.connect(num_cpus=2, object_store_memory=200_000_000)
    yield
    ray.shutdown()


def test_slates_equal_those_of_one_index_while_actors_are_killed(tmp_path: Path) -> None:
    catalog, user = random_catalog(1, n=900, heads=2, base=True, ids=[f"item {row}" for row in range(900)])
    whole = sw.Recommender(sw.Index.build(catalog, cells=7), certify=False, candidates=80)
    write_cluster(whole, tmp_path / "files", 2)
    front = actors.open_front(tmp_path / "files", patience=LONG)
    other = actors.open_front(tmp_path / "files", patience=LONG)  # the same actors
    hosts = front.hosts
    assert [[ray.get(host.actor.pid.remote()) for host in some] for some in hosts] == [
        [ray.get(host.actor.pid.remote()) for host in some] for some in other.hosts
    ]
    new, _ = random_catalog(2, n=3, heads=2, base=True, ids=["new 0", "new 1", "new 2"])
    for index in (whole.index, front):
        index.remove(["item 3", "item 800"])
        index.add(new)
    expected = whole.recommend(user, k=4)
    for shard in (0, 1, 0):
        killed = ray.get(hosts[shard][0].actor.pid.remote())
        os.kill(killed, signal.SIGKILL)
        slate = front.recommend(user, k=4, certify=False)
        assert (slate.items.tolist(), slate.value) == (expected.items.tolist(), expected.value)
        assert ray.get(hosts[shard][0].actor.pid.remote()) != killed
    with pytest.raises(sw.errors.UnknownId, match="an id of exclude"):
        front.recommend(user, exclude=["nothing"], unknown="error")


def test_a_shard_that_is_gone_is_refused(tmp_path: Path) -> None:
    catalog, user = random_catalog(3, n=60)
    write_cluster(sw.Recommender(sw.Index.build(catalog, cells=3), certify=False), tmp_path / "files", 2)
    front = actors.open_front(tmp_path / "files", patience=LONG)
    ray.kill(front.hosts[1][0].actor, no_restart=True)
    with pytest.raises(ShardUnavailable, match="Shard 1"):
        front.recommend(user, k=3)


def test_actors_that_run_answer_from_items_that_are_split_again(tmp_path: Path) -> None:
    for seed in (4, 5):
        catalog, user = random_catalog(seed, n=60)
        whole = sw.Recommender(sw.Index.build(catalog, cells=3), certify=False)
        shutil.rmtree(tmp_path / "files", ignore_errors=True)
        write_cluster(whole, tmp_path / "files", 2)
        front = actors.open_front(tmp_path / "files", patience=LONG)
        front.remove([3])
        whole.index.remove([3])
        expected = whole.recommend(user, k=4)
        for _ in range(2):
            slate = front.recommend(user, k=4, certify=False)
            assert (slate.items.tolist(), slate.value) == (expected.items.tolist(), expected.value)
            os.kill(ray.get(front.hosts[0][0].actor.pid.remote()), signal.SIGKILL)
    shutil.rmtree(tmp_path / "files" / "shard-1")
    ray.kill(front.hosts[1][0].actor, no_restart=True)
    with pytest.raises(sw.errors.DamagedArtifact):
        actors.open_front(tmp_path / "files", patience=LONG)
