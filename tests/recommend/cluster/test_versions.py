"""Hosts answer from the files that the front means: not from those of an earlier split, nor with another change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import setwise as sw
from in_process import LONG, Here, cluster_of, same, world
from setwise.errors import InvalidInput, ShardUnavailable
from setwise.recommend.cluster.files import Version, read_front, write_cluster, write_front
from setwise.recommend.cluster.front import ClusterRecommender

OTHER = "it is not the shard that the cluster was split into, or its changes are others"


def whole(seed: int) -> tuple[sw.Recommender, sw.User]:
    catalog, user = world(seed, 90)
    return sw.Recommender(sw.Index.build(catalog, cells=3)), user


def opened(folder: Path, hosts: list[Here]) -> ClusterRecommender:
    return ClusterRecommender.open(folder, [[host] for host in hosts], LONG)


@pytest.mark.parametrize("changes", [0, 2])
def test_items_that_are_split_again_into_the_same_folder_are_those_of_the_answers(tmp_path: Path, changes: int) -> None:
    (first, user), (second, _) = whole(1), whole(2)
    old, hosts = cluster_of(first, tmp_path / "files", 2)
    for row in range(changes):
        old.remove([f"item {row}"])
    before = old.recommend(user, k=3)
    shutil.rmtree(tmp_path / "files")
    write_cluster(second, tmp_path / "files", 2)
    new = opened(tmp_path / "files", hosts)
    same(second.recommend(user, k=3), new.recommend(user, k=3))
    for row in range(changes):
        second.index.remove([f"item {80 - row}"])
        new.remove([f"item {80 - row}"])
        same(second.recommend(user, k=3), new.recommend(user, k=3))
    same(before, old.recommend(user, k=3))  # hosts still have what this front means
    alone = ClusterRecommender(tmp_path / "files", old._files, [[Here()] for _ in hosts], LONG)
    with pytest.raises(ShardUnavailable, match="must be an intact setwise artifact"):
        alone.recommend(user, k=3)
    old.refresh()
    same(second.recommend(user, k=3), old.recommend(user, k=3))


def test_a_front_refuses_items_that_were_split_into_another_number_of_shards(tmp_path: Path) -> None:
    """It has no hosts for the others, whose items would be missing."""
    recommender, user = whole(5)
    front, _ = cluster_of(recommender, tmp_path, 2)
    write_cluster(recommender, tmp_path, 3)
    for change in (front.refresh, lambda: front.remove(["item 1"])):
        with pytest.raises(InvalidInput, match="must be one of 2 shards, as its hosts are, got 3"):
            change()
    same(recommender.recommend(user, k=3), opened(tmp_path, [Here(), Here(), Here()]).recommend(user, k=3))


def test_a_change_of_another_cluster_or_number_is_refused(tmp_path: Path) -> None:
    """Removed items would be eligible again, and the bound would hold for other items."""
    recommender, user = whole(3)
    best = recommender.recommend(user, k=2).items.tolist()
    for name, gone in (("one", best), ("other", ["item 0", "item 1"])):
        cluster, _ = cluster_of(recommender, tmp_path / name, 1)
        for one in gone:
            cluster.remove([one])
    changes = [tmp_path / name / "shard-0" / f"change-{number}" for name in ("other", "one") for number in (1, 2)]
    for wrong in changes[:3]:
        shutil.rmtree(changes[3], ignore_errors=True)
        shutil.copytree(wrong, changes[3])
        with pytest.raises(ShardUnavailable, match=OTHER):
            opened(tmp_path / "one", [Here()]).recommend(user, k=2)


def test_a_cluster_whose_layout_has_no_digests_opens(tmp_path: Path) -> None:
    """Those that were split by an earlier version."""
    recommender, user = whole(4)
    cluster_of(recommender, tmp_path, 2)
    files = read_front(tmp_path)
    files.layout.__dict__["versions"] = (Version(0), Version(0))
    write_front(tmp_path, files)
    old = opened(tmp_path, [Here(), Here()])
    old.remove(["item 3"])
    recommender.index.remove(["item 3"])
    same(recommender.recommend(user, k=3), old.recommend(user, k=3))
    assert {version.digest for version in old.layout.versions} == {""}
