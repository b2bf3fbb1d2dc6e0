"""Real faults of a file system while objects are saved: the old object or the new one can be opened, and one sentence
says what happened."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from attacks.small_disk import SmallDisk, small_disk
from attacks.test_artifact_mutants import KINDS
from setwise.errors import InvalidInput, SaveFailed

pytestmark = [pytest.mark.nightly, pytest.mark.promise("disk")]
FAULTS = 50


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", "8m") as one:
        yield one


def save_or_say_why(name: str, folder: Path) -> bool:
    """Whether the save succeeded; if not, the error must be one sentence that names the folder."""
    said = ""
    try:
        KINDS[name][1](folder)
    except (SaveFailed, InvalidInput) as error:
        said = str(error)
    assert not said or (str(folder) in said and "\n" not in said)
    return not said


@pytest.mark.parametrize("name", KINDS)
def test_no_space_is_left(name: str, disk: SmallDisk, count, record_property) -> None:
    _, _, opened, used = KINDS[name]
    folder, failed = disk.folder / "object", 0
    assert save_or_say_why(name, folder)
    before = disk.free
    size = sum(path.stat().st_size for path in folder.iterdir())
    rng = np.random.default_rng(len(name))
    faults = count(FAULTS, 8)
    for free in rng.integers(0, size, faults):
        disk.leave(int(free))
        failed += not save_or_say_why(name, folder)
        disk.empty()
        used(opened(folder))
    assert save_or_say_why(name, folder), "with room again, it can be saved again"
    assert disk.free >= before - 65536, "failed saves leave nothing behind"
    record_property("seen", f"{name}: {faults} disks too small, {failed} saves failed, every object opened")
    assert failed > faults // 4


@pytest.mark.parametrize("name", ["catalog", "recommender"])
def test_a_disk_that_cannot_be_written(name: str, disk: SmallDisk) -> None:
    folder = disk.folder / "object"
    assert save_or_say_why(name, folder)
    disk.remount("ro")
    assert not save_or_say_why(name, folder)
    KINDS[name][2](folder)
    disk.remount("rw")
    assert save_or_say_why(name, folder)


def test_no_inode_is_left(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m", inodes=6) as disk:
        folder = disk.folder / "object"
        assert save_or_say_why("catalog", folder)
        for number in range(10):
            try:
                (disk.folder / str(number)).touch()
            except OSError:
                break
        assert not save_or_say_why("catalog", folder)
        KINDS["catalog"][2](folder)


@pytest.mark.parametrize("name", ["catalog", "scan", "model"])
def test_a_limit_of_the_file_size(name: str, tmp_path: Path, count) -> None:
    """A fault that needs no permission to mount: writes beyond RLIMIT_FSIZE fail."""
    folder = tmp_path / "object"
    assert save_or_say_why(name, folder)
    size = max(path.stat().st_size for path in folder.iterdir())
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for limit in np.random.default_rng(1).integers(1, size, count(FAULTS)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), before[1]))
        try:
            saved = save_or_say_why(name, folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not saved
        KINDS[name][2](folder)
    signal.signal(signal.SIGXFSZ, handler)
