"""An artifact as it is served: copied, then opened.

An opened artifact is mapped, not read, so that one overwritten in place, which is what a careless copy does, would
change or end the answers of the service that has it open. The copy has no name any more once it is mapped, by as many
processes as there are; it goes with the last of them.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from setwise.errors import DamagedArtifact
from setwise.model.users import User
from setwise.recommend.recommender import Recommender
from setwise.service.item_search import Shelf

_ATTEMPTS = 5  # a reader that meets a save in progress looks again this often
_MANIFEST = "manifest.json"
_BLOCK = 1 << 24  # bytes that are copied at once


@dataclass(frozen=True, eq=False)
class Served:
    """A recommender, what it is called, and its items as people look for them: every answer is wholly by one."""

    recommender: Recommender
    version: str
    shelf: Shelf

    @classmethod
    def opened(cls, artifact: Path, version: str) -> Served:
        """The recommender saved in ``artifact``, with compiled code that has run once."""
        recommender = Recommender.load(artifact)
        _run_once(recommender)
        return cls(recommender, version, Shelf(recommender.index.catalog))


def _run_once(recommender: Recommender) -> None:
    """Answer nobody in every way there is: code is compiled now, and an artifact that cannot answer is known now."""
    catalog = recommender.index.catalog
    base = None if catalog.base is None else np.zeros(catalog.base.shape[1])
    nobody = User(np.zeros((catalog.heads, catalog.value.shape[2])), base)
    recommender.explain(recommender.recommend(nobody, k=2))
    recommender.recommend_many([nobody, nobody], k=2, threads=1)
    if recommender.encoder is not None:
        recommender.recommend(history=[], k=1)


def copied(folder: Path, target: Path) -> str:
    """Copy one whole artifact, whatever is saved meanwhile; its version, from its manifest."""
    target.mkdir()
    for _ in range(_ATTEMPTS):
        manifest = _manifest(folder)
        try:
            for data in folder.glob("arrays-*.safetensors"):
                _copy(data, target / data.name)
        except FileNotFoundError:
            continue  # a save replaced the file between our two looks
        if _manifest(folder) == manifest:
            (target / _MANIFEST).write_bytes(manifest)
            return hashlib.sha256(manifest).hexdigest()[:12]
    raise DamagedArtifact(folder, "files kept changing while they were read")


def _copy(source: Path, target: Path) -> None:
    """Copy a file in large blocks, which Linux then keeps, and maps, in large pieces.

    Copied by ``shutil.copyfile`` it is kept in pieces of 64 KiB, and a request among 10^5 items takes some 0.2 ms more.
    """
    with source.open("rb") as data, target.open("wb") as copy:
        shutil.copyfileobj(data, copy, _BLOCK)


def _manifest(folder: Path) -> bytes:
    try:
        return (folder / _MANIFEST).read_bytes()
    except OSError:
        raise DamagedArtifact(folder, f"there is no {_MANIFEST}") from None
