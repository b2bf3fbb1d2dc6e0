"""Symbolic links and other special files in the folder of an artifact: refused with a reason, never followed to harm."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from services import here, post, world_recommender

import setwise as sw
from setwise.errors import DamagedArtifact
from setwise.service.artifact_copy import copy_artifact

pytestmark = [pytest.mark.nightly, pytest.mark.promise("mutants")]
KEY = "a-long-and-random-key"


def data_of(folder: Path) -> Path:
    (data,) = folder.glob("arrays-*.safetensors")
    return data


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder, tmp_path / "world")
    return tmp_path / "world"


def served_copy(folder: Path, target: Path) -> sw.Recommender:
    """What a service serves: it opens a copy."""
    copy_artifact(folder, target)
    return sw.Recommender.load(target)


SPECIAL: dict[str, tuple[Callable[[Path], None], str]] = {
    "itself": (lambda path: path.symlink_to(path.name), "is not a regular file"),
    "nothing": (lambda path: path.symlink_to("nowhere"), "the data file is missing|there is no manifest.json"),
    "a folder": (lambda path: path.symlink_to("."), "is not a regular file"),
    "no end": (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    "another file": (lambda path: path.symlink_to("/etc/passwd"), "bytes, not|altered or cut short"),
    "a pipe": (os.mkfifo, "is not a regular file"),
    "a socket": (lambda path: os.mknod(path, stat.S_IFSOCK | 0o600), "is not a regular file"),
}


@pytest.mark.parametrize("name", ["manifest.json", "arrays"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_are_refused(copied: Path, tmp_path: Path, kind: str, name: str) -> None:
    """By the library, and by a service."""
    make, reason = SPECIAL[kind]
    path = data_of(copied) if name == "arrays" else copied / name
    path.unlink()
    make(path)
    with pytest.raises(DamagedArtifact, match=reason):
        sw.Recommender.load(copied)
    with pytest.raises(DamagedArtifact, match=reason):
        served_copy(copied, tmp_path / "copy")


def test_links_to_an_artifact_are_followed(copied: Path, tmp_path: Path) -> None:
    """To its folder, as deployments have them, and to its files."""
    (tmp_path / "current").symlink_to("world")
    data_of(copied).rename(tmp_path / "data")
    (copied / "arrays").symlink_to(tmp_path / "data")
    (copied / "arrays").rename(copied / _name_in_manifest(copied))
    assert len(sw.Recommender.load(tmp_path / "current").recommend(history=["song-1"], k=3)) == 3
    copy_artifact(tmp_path / "current", tmp_path / "copy")
    assert not data_of(tmp_path / "copy").is_symlink()


def _name_in_manifest(folder: Path) -> str:
    text = (folder / "manifest.json").read_text()
    at = text.index("arrays-")
    return text[at : text.index('"', at)]


def test_only_the_file_of_the_manifest_is_copied(copied: Path, tmp_path: Path) -> None:
    for number in range(3):
        (copied / f"arrays-{number:016x}.safetensors").symlink_to("/dev/zero")
    copy_artifact(copied, tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [_name_in_manifest(copied), "manifest.json"]


@pytest.mark.parametrize(
    "name", [".setwise-lock", ".setwise-drafts", "manifest.json", "arrays-0123456789abcdef.safetensors"]
)
def test_a_save_writes_through_no_link(copied: Path, tmp_path: Path, name: str) -> None:
    """What a link in the folder leads to is neither written nor removed; the save is refused, or takes its place."""
    (tmp_path / "home").mkdir()
    for path in (tmp_path / "home" / "precious", tmp_path / "precious"):
        path.write_text("precious")
    (copied / name).unlink(missing_ok=True)
    if name == "manifest.json":  # without one of its own the folder is another's
        shutil.copy(_other_manifest(tmp_path), tmp_path / "precious")
    target = tmp_path / ("home" if name == ".setwise-drafts" else "precious")
    (copied / name).symlink_to(target)
    before = (tmp_path / "precious").read_bytes()
    try:
        world_recommender(n=40).save(copied)
    except sw.SetwiseError:
        assert (copied / name).is_symlink()
    else:
        assert not (copied / name).is_symlink()
        assert len(sw.Recommender.load(copied).index.catalog) == 40
    assert (tmp_path / "precious").read_bytes() == before
    assert [path.read_text() for path in (tmp_path / "home").iterdir()] == ["precious"]


def _other_manifest(tmp_path: Path) -> Path:
    world_recommender(n=30).save(tmp_path / "other")
    return tmp_path / "other" / "manifest.json"


def test_a_folder_that_is_a_link_can_be_switched(tmp_path: Path) -> None:
    """A deployment that points a link to another release, and reloads."""
    for number in (30, 40):
        world_recommender(n=number).save(tmp_path / str(number))
    (tmp_path / "current").symlink_to("30")
    with here(tmp_path / "current", key=KEY) as service:
        assert service.client.get("/v1/info").json()["items"] == 30
        (tmp_path / "next").symlink_to("40")
        (tmp_path / "next").replace(tmp_path / "current")
        assert service.client.post("/admin/reload").status_code == 200
        assert service.client.get("/v1/info").json()["items"] == 40
        (tmp_path / "loop").symlink_to("loop")
        (tmp_path / "loop").replace(tmp_path / "current")
        assert service.client.post("/admin/reload").status_code in (422, 503)
        assert post(service, "/v1/recommend", {"history": ["song-1"], "k": 2})["items"]
