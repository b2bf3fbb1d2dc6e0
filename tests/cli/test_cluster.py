"""``setwise cluster split``: shards from which a front answers as the index does; ``up`` is tested with Ray."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from in_process import Here
from setwise.cli import app
from setwise.recommend.cluster.front import ClusterRecommender
from worlds import random_catalog


def test_split(tmp_path: Path) -> None:
    catalog, user = random_catalog(1, n=60)
    whole = sw.Recommender(sw.Index.build(catalog, cells=3), certify=False)
    whole.save(tmp_path / "songs")
    arguments = ["cluster", "split", str(tmp_path / "songs"), "--files", str(tmp_path / "shards"), "--json"]
    for _ in range(2):  # the second time the shards are there
        result = CliRunner().invoke(app, [*arguments, "--shards", "3"], catch_exceptions=False)
        report = json.loads(result.stdout)
        assert (report["shards"], report["items"]) == (3, 60)
    front = ClusterRecommender.open(tmp_path / "shards", [[Here()] for _ in range(3)])
    assert front.recommend(user, k=4).items.tolist() == whole.recommend(user, k=4).items.tolist()
    with pytest.raises(sw.errors.InvalidInput, match="shards must be 3, as --files has, got 2"):
        CliRunner().invoke(app, [*arguments, "--shards", "2"], catch_exceptions=False)


def test_shards_of_another_catalogue_are_not_taken_for_its_own(tmp_path: Path) -> None:
    """A model that was trained again was announced as split, and the shards of the old one were served."""
    arguments = ["cluster", "split", str(tmp_path / "songs"), "--files", str(tmp_path / "shards")]
    for seed in (1, 2):
        sw.Recommender(sw.Index.build(random_catalog(seed, n=60)[0], cells=3), certify=False).save(tmp_path / "songs")
        if seed == 1:
            assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    with pytest.raises(sw.errors.InvalidInput, match="shards are of another or older one; choose a new folder"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    (tmp_path / "songs").rename(tmp_path / "elsewhere")  # hosts need the shards alone
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0


def test_shards_of_another_file_of_arrays(tmp_path: Path) -> None:
    arguments = ["cluster", "split", str(tmp_path / "songs.npz"), "--files", str(tmp_path / "shards")]
    for seed in (1, 2):
        catalog, _ = random_catalog(seed, n=60)
        np.savez(tmp_path / "songs.npz", query=catalog.query, key=catalog.key, value=catalog.value)
        if seed == 1:
            for _ in range(2):
                assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    with pytest.raises(sw.errors.InvalidInput, match="shards are of another or older one"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_shards_are_not_written_among_the_files_of_an_artifact(tmp_path: Path) -> None:
    sw.Recommender(sw.Index.build(random_catalog(1, n=60)[0], cells=3), certify=False).save(tmp_path / "songs")
    before = sorted(one.name for one in (tmp_path / "songs").iterdir())
    arguments = ["cluster", "split", str(tmp_path / "songs"), "--files", str(tmp_path / "songs")]
    with pytest.raises(sw.errors.InvalidInput, match="--files must be a folder for the shards alone"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert sorted(one.name for one in (tmp_path / "songs").iterdir()) == before
