"""Saved objects survive kills, refuse damage, and open without copying."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import processes
import setwise as sw
from setwise.errors import DamagedArtifact, InvalidInput
from setwise.storage import artifact
from worlds import REWARDS, random_catalog


def full_catalog(seed: int = 0) -> sw.Catalog:
    catalog, _ = random_catalog(
        seed,
        heads=2,
        base=True,
        sink=True,
        positions=3,
        rewards=REWARDS,
        ids=[f"song {i} é" for i in range(12)],
        attributes={
            "artist": ["x", None, "z"] * 4,
            "year": np.arange(12),
            "price": np.linspace(0, 1, 12),
            "new": [True, False] * 6,
        },
    )
    return catalog


def same(one: sw.Catalog, other: sw.Catalog) -> bool:
    user = sw.User(np.ones((2, 3)), np.ones(2))
    rows = np.arange(12)
    return (
        np.array_equal(sw.item_rewards(one, user, [0, 5, 11]), sw.item_rewards(other, user, [0, 5, 11]))
        and one.ids[rows].tolist() == other.ids[rows].tolist()
        and one.rewards == other.rewards
        and all(
            one.attributes.labels(name, rows).tolist() == other.attributes.labels(name, rows).tolist()
            for name in one.attributes
        )
    )


def test_a_saved_catalogue_is_loaded_unchanged(tmp_path: Path) -> None:
    catalog = full_catalog()
    catalog.save(tmp_path / "a" / "b")
    loaded = sw.Catalog.load(tmp_path / "a" / "b")
    assert same(catalog, loaded)
    assert list(loaded.attributes) == list(catalog.attributes)
    assert loaded.attributes["artist"][:3] == ["x", None, "z"]
    assert loaded.rows_of(["song 7 é"]).tolist() == [7]
    assert loaded.base.shape == (12, 2)
    loaded.save(tmp_path / "a" / "b")  # onto itself, while its file is mapped
    assert same(catalog, sw.Catalog.load(tmp_path / "a" / "b"))
    assert same(catalog, loaded), "the old mapping stays readable"


@pytest.mark.parametrize("ids", [None, [5, 3, 10**15]])
def test_plain_catalogues(tmp_path: Path, ids) -> None:
    ones = np.ones((3, 2))
    sw.Catalog(ones, ones, ones, ids=ids, dtype=np.float64).save(tmp_path)
    loaded = sw.Catalog.load(tmp_path)
    assert loaded.query.dtype == np.float64
    assert loaded.ids[np.arange(3)].tolist() == (ids or [0, 1, 2])
    assert loaded.rows_of(loaded.ids[np.arange(3)]).tolist() == [0, 1, 2]


def test_opening_copies_nothing(tmp_path: Path) -> None:
    full_catalog().save(tmp_path)
    loaded = sw.Catalog.load(tmp_path)
    for array in (
        loaded.query,
        loaded.key,
        loaded.value,
        loaded.base,
        loaded.sink.key,
        loaded.reward_class,
        loaded.ids.keys,
    ):
        assert not array.flags.owndata
        assert not array.flags.writeable
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        assert not root.flags.owndata, "the memory belongs to the mapped file"


@pytest.mark.nightly
def test_a_million_items_open_within_a_few_megabytes(tmp_path: Path) -> None:
    """The peak of allocated memory, measured by tracemalloc, is far below the 192 MB of the arrays."""
    rows = np.zeros((1_000_000, 16), np.float32)
    sw.Catalog(rows, rows, rows, ids=np.arange(1_000_000) * 3).save(tmp_path)
    code = (
        "import tracemalloc, sys, setwise; tracemalloc.start(); c = setwise.Catalog.load(sys.argv[1]); "
        "print(tracemalloc.get_traced_memory()[1], c.rows_of([2999997])[0])"
    )
    out = processes.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    peak, row = map(int, out.stdout.split())
    assert row == 999_999
    assert peak < 8 << 20


def test_the_data_file_is_plain_safetensors(tmp_path: Path) -> None:
    catalog = full_catalog()
    catalog.save(tmp_path)
    (data,) = tmp_path.glob("*.safetensors")
    with safe_open(data, "np") as file:
        np.testing.assert_array_equal(file.get_tensor("query"), catalog.query)


def test_folders_with_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "novel.txt").write_text("years of work")
    for foreign in (tmp_path, tmp_path / "drafts" / "novel.txt"):
        with pytest.raises(InvalidInput, match="choose a folder that is new, empty or an artifact"):
            full_catalog().save(foreign)
    web = tmp_path / "web"
    web.mkdir()
    (web / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(InvalidInput, match="path must be a folder for this artifact alone"):
        full_catalog().save(web)
    assert (tmp_path / "drafts" / "novel.txt").read_text() == "years of work"
    assert (web / "manifest.json").read_text() == '{"name": "a web page"}'


def test_columns_of_any_type_and_name_are_loaded_unchanged(tmp_path: Path) -> None:
    columns = {
        "half": np.arange(12, dtype=np.float16),
        "long": np.arange(12, dtype=np.longdouble),
        "big": np.arange(12).astype(">i4"),
        "unsigned": np.arange(12, dtype=np.uint8),
        "a": list("xyzxyzxyzxyz"),
        "a.codes": [2] * 12,
        "a.bytes": list("pqrpqrpqrpqr"),
        "0": [f"title {i}" for i in range(12)],
        "ü/\\ ": [None, "x"] * 6,
    }
    random_catalog(0, attributes=columns)[0].save(tmp_path)
    loaded = sw.Catalog.load(tmp_path).attributes
    assert list(loaded) == list(columns)
    for name, column in columns.items():
        assert list(loaded[name][:]) == list(column), name


def test_content_that_cannot_be_read_back_replaces_nothing(tmp_path: Path) -> None:
    artifact.write(tmp_path, "thing", {"a": np.zeros(2)}, {"x": 1})
    for arrays, meta in (
        ({"a": np.zeros(2, np.float16)}, {}),
        ({"a": np.zeros(2)}, {"x": {1, 2}}),
        ({"a": np.zeros(2)}, {"x": "y" * (17 << 20)}),
    ):
        with pytest.raises(InvalidInput):
            artifact.write(tmp_path, "thing", arrays, meta)
    assert artifact.read(tmp_path, "thing").meta == {"x": 1}


SAVER = """
import sys, filelock, numpy as np, safetensors.numpy, setwise as sw
path, mark = sys.argv[1], int(sys.argv[2])
rows = np.full((20_000, 8), mark, np.float32)
catalog = sw.Catalog(rows, rows, rows, ids=np.arange(20_000) + mark)
print("ready", flush=True)
while True:
    catalog.save(path)
"""


@pytest.mark.nightly
@pytest.mark.promise("kills")
def test_killed_while_saving(tmp_path: Path, count) -> None:
    """kill -9 at a random moment of Catalog.save: the old or the new catalogue is readable, never a mixture."""
    path = tmp_path / "catalog"
    rows = np.zeros((20_000, 8), np.float32)
    sw.Catalog(rows, rows, rows, ids=np.arange(20_000)).save(path)
    marks, chance, manifest = {0}, random.Random(0), path / "manifest.json"
    for mark in range(1, count(50, 4) + 1):
        before = manifest.read_bytes()
        with processes.started([sys.executable, "-c", SAVER, path, mark], stdout=subprocess.PIPE) as saver:
            saver.stdout.readline()
            if mark % 3 == 0:  # the first save is complete, in whatever time
                processes.until(lambda before=before: manifest.read_bytes() != before)
            time.sleep(chance.uniform(0, 0.2))
        loaded = sw.Catalog.load(path)
        found = float(loaded.query[0, 0, 0])
        for part in (loaded.query, loaded.key, loaded.value):
            assert (part == found).all()
        assert loaded.ids[0] == found
        assert found in (mark, previous := max(marks)), (found, previous)
        marks.add(int(found))
    assert len(marks) > count(50, 4) // 10, "some saves did commit"
    sw.Catalog(rows, rows, rows).save(path)
    names = sorted(entry.name.split("-")[0] for entry in path.iterdir())
    assert names == [".setwise", "arrays", "manifest.json"], "a save removes what killed ones left behind"


@pytest.mark.promise("kills")
def test_killed_before_the_first_save_is_complete(tmp_path: Path) -> None:
    catalog = full_catalog()
    catalog.save(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(DamagedArtifact, match=r"there is no manifest\.json"):
        sw.Catalog.load(tmp_path)


@pytest.mark.promise("mutants")
def test_flipped_bits_and_cut_files_are_refused(tmp_path: Path, count) -> None:
    full_catalog().save(tmp_path)
    intact = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != ".setwise-lock"}
    chance = random.Random(1)
    for _ in range(count(2000, 5)):
        victim = chance.choice(list(intact))
        content = bytearray(intact[victim])
        if chance.random() < 0.25:
            del content[chance.randrange(len(content)) :]
        else:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        victim.write_bytes(content)
        with pytest.raises(DamagedArtifact, match="must be an intact setwise artifact, but "):
            sw.Catalog.load(tmp_path)
        victim.write_bytes(intact[victim])
    sw.Catalog.load(tmp_path)


def rewritten(folder: Path, **changes) -> None:
    """Replace parts of the manifest and recompute its digest."""
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_bytes())["manifest"]
    for name, value in changes.items():
        content[name] = value(content[name]) if callable(value) else value
    manifest.write_bytes(artifact._canonical(content))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 2}, "the format version is 2, not 1; save it again with this version of setwise"),
        ({"version": True}, "the format version is True, not 1"),
        ({"version": 1.0}, "the format version is 1.0, not 1"),
        ({"kind": "index"}, "the kind is 'index', not 'catalog'"),
        ({"data": lambda data: {**data, "file": "../../etc/passwd"}}, "the manifest names a file outside the folder"),
        ({"data": lambda data: {**data, "file": "arrays-0123456789abcdef.safetensors"}}, "the data file is missing"),
        ({"arrays": {}}, "holds other arrays than the manifest lists"),
    ],
)
def test_consistent_manifests_with_wrong_content_are_refused(tmp_path: Path, changes, reason: str) -> None:
    full_catalog().save(tmp_path)
    rewritten(tmp_path, **changes)
    with pytest.raises(DamagedArtifact, match=reason):
        sw.Catalog.load(tmp_path)


def test_manifest_and_arrays_have_the_same_permissions(tmp_path: Path) -> None:
    full_catalog().save(tmp_path)
    assert len({entry.stat().st_mode for entry in tmp_path.iterdir() if entry.name != ".setwise-lock"}) == 1


def test_not_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path / "file"):
        (tmp_path / "file").write_text("x")
        with pytest.raises(DamagedArtifact, match=r"there is no manifest\.json \(.*\); check the path"):
            sw.Catalog.load(path)
    for path in (Path("/proc/nobody"), tmp_path / "file" / "folder"):
        with pytest.raises(InvalidInput, match="path must be a folder that can be made"):
            full_catalog().save(path)


@pytest.mark.promise("hostile-files")
def test_a_manifest_of_a_gigabyte(tmp_path: Path) -> None:
    full_catalog().save(tmp_path)
    with (tmp_path / "manifest.json").open("r+b") as file:
        file.truncate(1 << 30)  # sparse: takes no room
    with pytest.raises(DamagedArtifact, match="more than the limit of 67108864"):
        sw.Catalog.load(tmp_path)


@pytest.mark.promise("hostile-files")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX only")
@pytest.mark.parametrize("name", ["manifest.json", "arrays"])
def test_pipes_and_devices_are_refused(tmp_path: Path, name: str) -> None:
    full_catalog().save(tmp_path)
    (victim,) = tmp_path.glob(f"{name}*")
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        victim.unlink()
        make(victim)
        with pytest.raises(DamagedArtifact, match=f"{name}.* is not a regular file"):
            sw.Catalog.load(tmp_path)


def test_an_empty_data_file(tmp_path: Path) -> None:
    full_catalog().save(tmp_path)
    (data,) = tmp_path.glob("*.safetensors")
    data.write_bytes(b"")
    with pytest.raises(DamagedArtifact, match="has 0 bytes"):
        sw.Catalog.load(tmp_path)


@pytest.mark.promise("kills")
def test_readers_during_saves(tmp_path: Path) -> None:
    """A reader that meets a save in progress gets one whole catalogue or the other."""
    catalogs = [full_catalog(0), full_catalog(1)]
    catalogs[0].save(tmp_path)
    stop = threading.Event()

    def save_in_turn() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            catalogs[turn % 2].save(tmp_path)

    writer = threading.Thread(target=save_in_turn)
    writer.start()
    try:
        for _ in range(100):
            loaded = sw.Catalog.load(tmp_path)
            assert any(same(loaded, catalog) for catalog in catalogs)
    finally:
        stop.set()
        writer.join()


def test_a_manifest_that_keeps_changing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_catalog().save(tmp_path)
    (data,) = tmp_path.glob("*.safetensors")
    os.remove(data)
    versions = iter(range(100))
    original = artifact.manifest_bytes

    def changing(folder: Path) -> bytes:
        content = json.loads(original(folder))["manifest"]
        content["meta"]["turn"] = next(versions)
        return artifact._canonical(content)

    monkeypatch.setattr(artifact, "manifest_bytes", changing)
    with pytest.raises(DamagedArtifact, match="the manifest kept changing while it was read"):
        sw.Catalog.load(tmp_path)
