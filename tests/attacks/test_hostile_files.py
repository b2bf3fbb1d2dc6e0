"""No file makes setwise run code, exhaust the memory or end by a signal: it is refused in one sentence, or harmless."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import setwise as sw
from attacks import hostile_files
from attacks.hostile_files import BOMBS, binaries, gzip_bomb, opened_in_child, pickles, texts, zip_bomb
from setwise import datasets
from setwise.cli.index import _arrays
from setwise.training import SimpleTransformer
from setwise.verification.slate_file import read_slate

pytestmark = [pytest.mark.nightly, pytest.mark.promise("hostile-files")]


def as_artifact(opened: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """The file as the manifest, and as the only data file, of a folder."""

    def of_folder(path: Path) -> None:
        folder = path.with_suffix(".folder")
        folder.mkdir()
        (folder / "arrays-0123456789abcdef.safetensors").symlink_to(path)
        (folder / "manifest.json").symlink_to(path)
        opened(folder)

    return of_folder


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "catalog": ("", as_artifact(sw.Catalog.load)),
    "recommender": ("", as_artifact(sw.Recommender.load)),
    "model": ("", as_artifact(SimpleTransformer.load)),
    "slate": (".json", read_slate),
    "arrays": (".npz", _arrays),
    **{name: (f".{name}", datasets.read) for name in ("csv", "csv.gz", "jsonl", "parquet", "txt", "inter")},
    "baskets": (".txt", lambda path: datasets.read(path, baskets=True)),
}


@pytest.mark.parametrize("reader", READERS)
def test_files_are_refused_or_harmless(reader: str, tmp_path: Path, monkeypatch, record_property) -> None:
    monkeypatch.chdir(tmp_path)
    canary = tmp_path / "canary"
    corpus = pickles(canary) | texts() | binaries()
    assert len(corpus) >= 55
    suffix, opened = READERS[reader]
    paths = []
    for number, content in enumerate(corpus.values()):
        paths.append(tmp_path / f"f{number}{suffix}")
        paths[-1].write_bytes(content)
    found = dict(zip(corpus, (said for _, said in opened_in_child(opened, paths, tmp_path / "log")), strict=True))
    wrong = {name: said for name, said in found.items() if said not in ("refused", "opened")}
    assert not wrong
    assert not canary.exists()
    counts = Counter(found.values())
    record_property("seen", f"{reader}: {counts['refused']} of {len(corpus)} refused, the others harmless")


@pytest.mark.parametrize(("name", "suffix", "opened"), [
    ("gzip of one line", ".csv.gz", datasets.read), ("gzip of NUL", ".csv.gz", datasets.read),
    ("gzip of one line", ".jsonl.gz", datasets.read), ("gzip of UTF-16", ".csv.gz", datasets.read),
    ("zip of an array", ".npz", _arrays),
    ("gzip of one line", ".txt.gz", lambda path: datasets.read(path, baskets=True)),
])  # fmt: skip
def test_small_files_that_decompress_to_gigabytes(name: str, suffix: str, opened, tmp_path: Path) -> None:
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(BOMBS[name]())
    assert [said for _, said in opened_in_child(opened, [path], tmp_path / "log")] == ["refused"]


def test_bombs_are_files_of_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones decompress to what they should, checksums included: the large ones are not refused for being broken."""
    size = 5 << 20
    monkeypatch.setattr(hostile_files, "BOMB", size)
    for first, block in ((b"session,item\n", b"x"), (b"", b"\0"), (b"\xff\xfe", b"a\0")):
        assert gzip.decompress(gzip_bomb(first, block)) == first + block * (size // len(block))
    with zipfile.ZipFile(io.BytesIO(zip_bomb("query.npy", b"first"))) as archive:
        assert archive.namelist() == ["query.npy"]
        assert archive.read("query.npy") == b"first" + b"0" * size
