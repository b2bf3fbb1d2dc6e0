"""Files that the user names for an output: replaced atomically, and only where they are of the same kind."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from setwise.errors import InvalidInput
from setwise.storage.output_file import write_file

START = b"session,item\n"


@pytest.mark.parametrize("former", [None, b"", START, START + b"0,a\n" * 9])
def test_files_of_the_same_kind_are_replaced(tmp_path: Path, former: bytes | None) -> None:
    path = tmp_path / "held_out.csv"
    if former is not None:
        path.write_bytes(former)
    write_file("--held-out", path, START, [START, b"1,b\n"])
    assert path.read_bytes() == START + b"1,b\n"
    assert [one.name for one in tmp_path.iterdir()] == ["held_out.csv"], "no draft is left"


@pytest.mark.parametrize("former", [b"years of work", b"session,items\n", b"s", START[:-1]])
def test_other_files_stay(tmp_path: Path, former: bytes) -> None:
    path = tmp_path / "novel.txt"
    path.write_bytes(former)
    with pytest.raises(InvalidInput, match="--held-out must be a new file, or one that this would write again"):
        write_file("--held-out", path, START, [START])
    assert path.read_bytes() == former
    assert [one.name for one in tmp_path.iterdir()] == ["novel.txt"]


def test_folders_and_devices_stay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InvalidInput, match="--held-out must be a file that can be written, got"):
            write_file("--held-out", path, START, [START])
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_draft_that_fails_is_removed(tmp_path: Path) -> None:
    def parts():
        yield START
        raise OSError(28, "No space left on device")

    with pytest.raises(InvalidInput, match="No space left on device"):
        write_file("--held-out", tmp_path / "held_out.csv", START, parts())
    assert not list(tmp_path.iterdir())


def test_a_slate_never_replaces_the_manifest_of_a_recommender(tmp_path: Path) -> None:
    items = np.random.default_rng(0).normal(size=(9, 3))
    recommender = sw.Recommender(sw.Index.build(sw.Catalog(items, items, items)))
    recommender.save(tmp_path / "shop")
    manifest = (tmp_path / "shop" / "manifest.json").read_bytes()
    slate = recommender.recommend(np.ones(3), k=2)
    with pytest.raises(InvalidInput, match="must be a new file"):
        slate.save(tmp_path / "shop" / "manifest.json")
    assert (tmp_path / "shop" / "manifest.json").read_bytes() == manifest
    for _ in range(2):  # a slate replaces a slate
        slate.save(tmp_path / "slate.json")
