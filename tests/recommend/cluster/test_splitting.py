"""A catalogue that was not indexed becomes the shards of its index, with the memory of one shard."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from in_process import Here
from setwise.recommend.cluster.files import shard_folder
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.cluster.splitting import split_catalog
from setwise.retrieval import kmeans, partition
from setwise.storage import artifact
from worlds import random_catalog

ITEMS, WIDTH, SHARDS = 96_000, 64, 8
LIMIT = 36 << 20  # bytes of new memory; the arrays have 74 MB, and their index has half as much again


def test_shards_are_those_of_the_index(tmp_path: Path) -> None:
    catalog, user = random_catalog(4, n=500, heads=2, base=True, ids=[f"item {row}" for row in range(500)])
    catalog.save(tmp_path / "catalogue")
    whole = sw.Recommender(sw.Index.build(catalog, cells=6), certify=False, candidates=60)
    files = split_catalog(sw.Catalog.load(tmp_path / "catalogue"), tmp_path / "shards", 3, cells=6, candidates=60)
    assert files.layout.sizes == (166, 167, 167)
    front = ClusterRecommender.open(tmp_path / "shards", [[Here()] for _ in range(3)])
    for k in (2, 5):
        one, other = whole.recommend(user, k=k), front.recommend(user, k=k, certify=False)
        assert (one.items.tolist(), one.value) == (other.items.tolist(), other.value)


@pytest.mark.nightly
def test_the_memory_of_one_shard_suffices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child that may allocate half of what the arrays take; pages of mapped files do not count, as they are freed.

    Pieces of constant size, some 200 MB in all, are made as small as this catalogue is.
    """
    monkeypatch.setattr(kmeans, "_DISTANCES", 1 << 17)
    monkeypatch.setattr(partition, "_CHUNK", 1 << 12)
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal((ITEMS, WIDTH), np.float32) for _ in range(3))
    sw.Catalog(query, key, value).save(tmp_path / "catalogue")
    del query, key, value
    split_catalog(random_catalog(1, n=90)[0], tmp_path / "small", 3)  # what is imported or compiled at first is so now
    child = os.fork()
    if child == 0:
        status = 99
        try:
            used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_DATA, (used + LIMIT, resource.RLIM_INFINITY))
            split_catalog(
                sw.Catalog.load(tmp_path / "catalogue"), tmp_path / "shards", SHARDS, cells=64, progress=False
            )
            status = 0
        except BaseException as error:
            sys.stderr.write(repr(error))
            sys.stderr.flush()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sizes = [len(sw.Index.load(shard_folder(tmp_path / "shards", shard) / "index").catalog) for shard in range(SHARDS)]
    assert sizes == [ITEMS // SHARDS] * SHARDS
    assert artifact.kind_of(tmp_path / "shards" / "cluster") == "cluster"
