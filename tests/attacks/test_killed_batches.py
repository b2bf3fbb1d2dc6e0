"""A batch that is killed at random moments and resumed equals one that was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import setwise as sw
from attacks.killed_batches import kill_and_resume, unbroken
from recommend.test_batch import parquet, users, written
from saved_songs import model

pytestmark = pytest.mark.nightly


def test_killed_and_resumed_equals_an_unbroken_run(tmp_path: Path, count: Callable[..., int], large: bool) -> None:
    number = 120 if large else 40
    sw.Recommender.from_model(model()).save(tmp_path / "shop")
    table = parquet(tmp_path / "users.parquet", users(number))
    out, met = kill_and_resume(table, tmp_path / "shop", number, tmp_path, count(20))
    assert met >= 1
    assert [row["user"] for row in written(out)] == [row["user"] for row in users(number)]
    assert out.read_bytes() == unbroken(table, tmp_path / "shop", tmp_path).read_bytes()
    assert not out.with_name(out.name + ".parts").exists()
