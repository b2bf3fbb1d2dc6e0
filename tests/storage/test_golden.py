"""Artifacts and slates as older versions wrote them, kept in the repository: each can be opened and gives what it gave.

    python tests/storage/test_golden.py VERSION      writes golden/VERSION/ with this version of setwise, once a release

Files of an older version are never written again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise as sw
from setwise.recommend.recommender import zero_user
from setwise.training import SimpleTransformer
from setwise.verification.verify import verify

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir())
HISTORY = ["s3", "s41", "s17"]
BACKENDS = ("numpy", "scan", "tree")


def seen_in(catalog: sw.Catalog) -> dict[str, Any]:
    """Numbers that depend on every array of a catalogue."""
    heads = np.linspace(-1, 1, catalog.value[0].size).reshape(catalog.value[0].shape)
    user = sw.User(heads, None if catalog.base is None else np.linspace(1, 2, catalog.base.shape[1]))
    rows = np.arange(0, len(catalog), 7)
    return {
        "ids": list(catalog.ids[rows]),
        "value": sw.set_value(catalog, user, rows),
        "attributes": [catalog.attributes.record(int(row)) for row in rows],
    }


def slate_of(recommender: sw.Recommender) -> sw.Slate:
    return recommender.recommend(history=HISTORY, k=4, at_most={"artist": 1}, budget_ms=60_000)


def write(folder: Path) -> None:
    """All kinds of files, and what they give."""
    from saved_songs import model

    trained = model()
    trained.save(folder / "model")
    trained.catalog().save(folder / "catalog")
    for backend in BACKENDS:
        sw.Index.build(trained.catalog(), cells=4, backend=backend, progress=False).save(folder / f"index-{backend}")
    recommender = sw.Recommender.from_model(trained, cells=4)
    recommender.save(folder / "recommender")
    slate = slate_of(recommender)
    slate.save(folder / "slate.json")
    given = {"catalog": seen_in(trained.catalog()), "slate": slate.items.tolist(), "value": slate.value}
    (folder / "given.json").write_text(json.dumps(given, indent=1, allow_nan=True), encoding="utf-8")


def same(found: Any, given: Any) -> bool:
    """Equal JSON, numbers to 12 digits; NaN equals NaN."""
    if isinstance(given, dict):
        return set(found) == set(given) and all(same(found[name], given[name]) for name in given)
    if isinstance(given, list):
        return len(found) == len(given) and all(map(same, found, given))
    if isinstance(given, float):
        return bool(np.isclose(found, given, rtol=1e-12, atol=0, equal_nan=True))
    return bool(found == given)


@pytest.mark.promise("formats")
@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_this_version_give_what_they_gave(version: str, record_property) -> None:
    folder = GOLDEN / version
    given = json.loads((folder / "given.json").read_text(encoding="utf-8"))
    catalog = sw.Catalog.load(folder / "catalog")
    assert same(seen_in(catalog), given["catalog"])
    assert same(seen_in(SimpleTransformer.load(folder / "model").catalog()), given["catalog"])
    for backend in BACKENDS:
        index = sw.Index.load(folder / f"index-{backend}")
        assert same(seen_in(index.catalog), given["catalog"])
        assert len(index.candidates(zero_user(catalog), per_cell=1)) > 0
    recommender = sw.Recommender.load(folder / "recommender")
    slate = slate_of(recommender)
    assert sorted(slate.items.tolist()) == sorted(given["slate"])
    assert slate.value == pytest.approx(given["value"], rel=1e-12)
    assert verify(folder / "slate.json", catalog).ok
    record_property("seen", f"{version}: {4 + len(BACKENDS)} files")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    write(GOLDEN / sys.argv[1])
