"""``setwise index`` through its command line."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import setwise as sw
from saved_songs import N, model, run, said
from setwise import cli
from setwise.cli.query_options import example_history
from setwise.errors import DamagedArtifact, InvalidInput, SetwiseError
from worlds import random_catalog


def test_a_model(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    result = run("index", tmp_path / "model", "--out", tmp_path / "songs", "--cells", 4)
    assert result.exit_code == 0, result.output
    assert "60 items in 4 cells" in said(result)
    assert "Users are given by histories" in said(result)
    rec = sw.Recommender.load(tmp_path / "songs")
    assert (rec.ranker, rec.certifies) == ("swap", True)
    np.testing.assert_array_equal(rec.recommend(history=["s1"], k=2).user.heads, model().user(["s1"]).heads)


def test_a_backend(tmp_path: Path) -> None:
    model().catalog().save(tmp_path / "catalog")
    result = run("index", tmp_path / "catalog", "--out", tmp_path / "songs", "--backend", "gpu", "--json")
    assert json.loads(result.stdout)["backend"] == "gpu"
    assert sw.Recommender.load(tmp_path / "songs").index.statistics.backend == "gpu"
    result = run("index", tmp_path / "catalog", "--out", tmp_path / "other", "--backend", "annoy")
    assert isinstance(result.exception, InvalidInput)
    assert "backend must be 'auto' or one of numpy, scan" in str(result.exception)
    assert not (tmp_path / "other").exists()


def test_a_catalogue_as_json(tmp_path: Path) -> None:
    model().catalog().save(tmp_path / "catalog")
    result = run("index", tmp_path / "catalog", "--out", tmp_path / "songs", "--json")
    report = json.loads(result.stdout)
    assert report.pop("seconds") > 0
    assert report == {
        "items": N, "heads": 2, "cells": 3, "backend": "scan", "understands_history": False, "features": [], "attributes": ["title", "artist", "price", "year"],
        "sets": None,
        "saved": str(tmp_path / "songs"),
    }  # fmt: skip
    assert sw.Recommender.load(tmp_path / "songs").encoder is None


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    plain = {name: rng.normal(size=(40, 3)) for name in ("query", "key", "value")}
    more = {
        "base": rng.normal(size=(40, 2)),
        "ids": np.array([f"x{i}" for i in range(40)]),
        "scale": np.array(2.0),
        "bias": np.array([-1.0]),
    }
    more |= {
        "sink_key": rng.normal(size=3),
        "sink_value": rng.normal(size=3),
        "attribute.artist": np.array(["a", "b"] * 20),
    }
    encoder = {
        "items": (40, 5),
        "heads_weight": (1, 3, 5),
        "heads_bias": (1, 3),
        "base_weight": (2, 5),
        "base_bias": (2,),
    }
    return plain | more | {f"encoder.{name}": rng.normal(size=shape) for name, shape in encoder.items()}


def test_plain_arrays(tmp_path: Path) -> None:
    given = arrays()
    np.savez(tmp_path / "arrays.npz", **given)
    result = run("index", tmp_path / "arrays.npz", "--out", tmp_path / "mine")
    assert result.exit_code == 0, result.output
    rec = sw.Recommender.load(tmp_path / "mine")
    catalog = rec.index.catalog
    np.testing.assert_array_equal(catalog.query[:, 0], given["query"].astype(np.float32))
    assert catalog.rewards == (sw.Logistic(2.0, -1.0),)
    assert catalog.sink is not None
    slate = rec.recommend(history=["x3"], k=4, at_most={"artist": 1})
    assert len(slate) <= 2


def test_required_arrays_only(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", **{name: arrays()[name] for name in ("query", "key", "value")})
    result = run("index", tmp_path / "arrays.npz", "--out", tmp_path / "mine")
    assert "Users are given by vectors, as there is no encoder of histories" in said(result)
    assert sw.Recommender.load(tmp_path / "mine").recommend([1.0, 2.0, 3.0], k=2).catalog.rewards == (sw.Logistic(),)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"colour": np.zeros(3)}, "arrays of arrays.npz must be among query, key"),
        ({"value": None}, "arrays of arrays.npz must be query, key and value at least, got no value; add it."),
        ({"sink_key": None}, "sink_key and sink_value must be given together, got one alone; add the other or drop it."),
        ({"scale": np.ones(2)}, "scale must be a finite number"),
        ({"ids": np.array(["x", None], object)}, "arrays.npz must be a .npz file of plain arrays, got Object arrays cannot be loaded"),
        ({"encoder.colour": np.zeros(3)}, "encoder must be given by the arrays of an Encoder"),
        ({"encoder.items": np.zeros((7, 5))}, "encoder's items must be"),
    ],
)  # fmt: skip
def test_rejected_arrays(tmp_path: Path, change, sentence: str) -> None:
    kept = {name: array for name, array in (arrays() | change).items() if array is not None}
    np.savez(tmp_path / "arrays.npz", **kept)
    result = run("index", tmp_path / "arrays.npz", "--out", tmp_path / "mine")
    assert isinstance(result.exception, InvalidInput)
    assert sentence in str(result.exception)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut short"])
def test_files_without_arrays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "arrays.npz").write_bytes(content)
    result = run("index", tmp_path / "arrays.npz", "--out", tmp_path / "mine")
    assert isinstance(result.exception, InvalidInput)
    assert "arrays.npz must be a .npz file of plain arrays" in str(result.exception)


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch, capsys) -> None:
    model().save(tmp_path / "model")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "songs/arrays")
    monkeypatch.setattr(sw.Recommender, "save", lambda self, path: (_ for _ in ()).throw(full))
    monkeypatch.setattr(sys, "argv", ["setwise", "index", str(tmp_path / "model"), "--out", str(tmp_path / "songs")])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    sentence = "setwise: songs/arrays must be one that can be read or written, got No space left on device; check path, rights and disk.\n"
    assert capsys.readouterr().err == sentence


def test_other_errors(tmp_path: Path) -> None:
    sw.Index.build(model().catalog()).save(tmp_path / "index")
    result = run("index", tmp_path / "index", "--out", tmp_path / "again")
    assert isinstance(result.exception, DamagedArtifact)
    assert "indexed already" in str(result.exception)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("mine")
    for source, out in (("nowhere", "new"), ("index", "full")):
        result = run("index", tmp_path / source, "--out", tmp_path / out)
        assert isinstance(result.exception, SetwiseError)
    assert (tmp_path / "full" / "diary.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["model", "catalog"])
def test_a_model_or_catalogue_is_never_replaced_by_its_index(tmp_path: Path, kind: str) -> None:
    (model() if kind == "model" else model().catalog()).save(tmp_path / "mine")
    before = (tmp_path / "mine" / "manifest.json").read_bytes()
    result = run("index", tmp_path / "mine", "--out", tmp_path / "mine")
    assert isinstance(result.exception, InvalidInput)
    assert f"which holds a {kind}; choose another folder" in str(result.exception)
    assert (tmp_path / "mine" / "manifest.json").read_bytes() == before
    for _ in range(2):  # what it wrote itself may be written again
        assert run("index", tmp_path / "mine", "--out", tmp_path / "songs").exit_code == 0


def test_the_printed_history_can_be_typed() -> None:
    """``--history`` separates ids by commas."""
    catalog, _ = random_catalog(0, n=6, ids=["a,b", " c", "it's", "d", "e", "f"])
    assert example_history(catalog) == """--history 'it'"'"'s,d'"""
    other, _ = random_catalog(0, n=2, ids=["a,b", ","])
    assert example_history(other) == "--history-file FILE"
