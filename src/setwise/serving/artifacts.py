"""The artifact that is served, and how another takes its place: in one step, or not at all.

A folder is copied before it is opened. An opened artifact is mapped, not read, so that one overwritten in place, which
is what a careless copy does, would change or end the answers of the service that has it open. The copy has no name any
more once it is mapped; it goes with the last answer made from it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from setwise.errors import DamagedArtifact
from setwise.recommender import Recommender
from setwise.serving.items import Shelf
from setwise.serving.logs import log, where_it_failed
from setwise.serving.metrics import Metrics
from setwise.serving.refusals import Refusal, bad_artifact
from setwise.users import User

_ATTEMPTS = 5  # a reader that meets a save in progress looks again this often
_MANIFEST = "manifest.json"


@dataclass(frozen=True, eq=False)
class Served:
    """A recommender, what it is called, and its items as people look for them: every answer is wholly by one."""

    recommender: Recommender
    version: str
    shelf: Shelf

    @classmethod
    def opened(cls, folder: Path) -> Served:
        """The recommender saved in ``folder``, with compiled code that has run once."""
        with tempfile.TemporaryDirectory(prefix="setwise-") as private:
            version = _copied(folder, Path(private) / "artifact")
            try:
                recommender = Recommender.load(Path(private) / "artifact")
            except DamagedArtifact as error:  # of our copy: the folder's name is what the operator knows
                raise DamagedArtifact(folder, error.reason, error.todo) from None
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


def _copied(folder: Path, target: Path) -> str:
    """Copy one whole artifact, whatever is saved meanwhile; its version, from its manifest."""
    target.mkdir()
    for _ in range(_ATTEMPTS):
        manifest = _manifest(folder)
        try:
            for data in folder.glob("arrays-*.safetensors"):
                shutil.copyfile(data, target / data.name)
        except FileNotFoundError:
            continue  # a save replaced the file between our two looks
        if _manifest(folder) == manifest:
            (target / _MANIFEST).write_bytes(manifest)
            return hashlib.sha256(manifest).hexdigest()[:12]
    raise DamagedArtifact(folder, "files kept changing while they were read")


def _manifest(folder: Path) -> bytes:
    try:
        return (folder / _MANIFEST).read_bytes()
    except OSError:
        raise DamagedArtifact(folder, f"there is no {_MANIFEST}") from None


class Artifacts:
    """The folder, and what of it is served at this moment."""

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._folder, self._metrics = folder, metrics
        self.changing = threading.Lock()  # held while another artifact is opened
        self.current = Served.opened(folder)

    def reload(self) -> tuple[Served, Served]:
        """Open the folder again and serve it: the old and the new. A bad one changes nothing."""
        if not self.changing.acquire(blocking=False):
            raise Refusal(409, "reloading", "A reload is under way; wait for it to end.")
        try:
            old = self.current
            new = self.current = self._opened(old)
        finally:
            self.changing.release()
        self._metrics.reloaded("done")
        log().info("reloaded", version=new.version, before=old.version)
        return old, new

    def _opened(self, old: Served) -> Served:
        try:
            return Served.opened(self._folder)
        except Exception as error:  # whatever is wrong with a file, the old one goes on
            self._metrics.reloaded("refused")
            log().error("reload refused", serving=old.version, **where_it_failed(error))
            raise bad_artifact(error) from None
