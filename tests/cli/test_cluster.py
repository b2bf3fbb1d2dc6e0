"""``setwise cluster split``: shards from which a front answers as the index does; ``up`` is tested with Ray."""

from __future__ import annotations

import json
from pathlib import Path

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
