"""``setwise index``: partition a model, a catalogue or plain arrays into cells, and save a recommender."""

from __future__ import annotations

import json
import shlex
import time
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from setwise._validation import real_number
from setwise.cli.query_options import example_history
from setwise.errors import DamagedArtifact, InvalidInput, SetwiseError
from setwise.model.catalog import Catalog, Sink
from setwise.model.encoder import Encoder
from setwise.model.feature_encoder import FeatureEncoder
from setwise.model.rewards import Logistic
from setwise.recommend.recommender import Recommender
from setwise.retrieval import Index
from setwise.retrieval.backends.protocol import BACKENDS
from setwise.storage import artifact
from setwise.training import SimpleTransformer, portfolio

PARTS = ("query", "key", "value", "base", "ids", "sink_key", "sink_value", "scale", "bias")
KINDS = ("index", "recommender")  # what --out may replace
COLUMN, ENCODER = "attribute.", "encoder."
LARGE, RATIO = 1 << 30, 100  # bytes of arrays, and of them for each byte of the file, that no compressed numbers have


def index(
    source: Annotated[Path, typer.Argument(help="The folder of a model or a catalogue, or arrays in a .npz file.")],
    out: Annotated[Path, typer.Option(help="The folder to save in, for recommend, serve, evaluate and bench.")],
    cells: Annotated[
        int | None,
        typer.Option(min=1, help="Number of cells; by default 256, or one for every 16 items if that is fewer."),
    ] = None,
    backend: Annotated[
        str, typer.Option(help=rf"The search of the cells: auto, {', '.join(BACKENDS)}; gpu needs setwise\[gpu].")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
) -> None:
    """Partition the items of a model or a catalogue into cells, and save a recommender.

    A .npz file must hold query, key and value: (n, d) or (n, heads, d). It may hold
    base, ids, sink_key and sink_value, as in setwise.Catalog;
    scale and bias of the logistic reward;
    attribute.NAME, one column for each attribute;
    encoder.NAME, the arrays of an Encoder, which turns a history into a user.

    Example: [bold]setwise index model/ --out songs/[/bold]
    """
    require_replaceable(out)
    began = time.perf_counter()
    catalog, encoder, features = load_source(source)
    recommender = Recommender(Index.build(catalog, cells, backend), encoder=encoder, features=features)
    if encoder is not None and source.is_dir() and artifact.kind_of(source) == "model":
        recommender.effects = SimpleTransformer.load(source).effects
    recommender.save(out)
    report = {
        "items": len(catalog),
        "heads": catalog.heads,
        "cells": recommender.index.partition.n_cells,
        "backend": recommender.index.statistics.backend,
        "understands_history": encoder is not None,
        "features": [] if features is None else list(features.names),
        "attributes": list(catalog.attributes),
        "sets": {"size": features.size, "exactly": {}} if features and features.size else _outcome_sets(source),
        "seconds": time.perf_counter() - began,
        "saved": str(out),
    }
    if as_json:
        print(json.dumps(report))
    else:
        Console().print(_summary(report, catalog), highlight=False, soft_wrap=True)


def require_replaceable(out: Path) -> None:
    """Refuse a folder of other files, or of a model or catalogue, which an index would replace, before the work."""
    try:
        artifact.refuse_foreign(out)
    except InvalidInput as error:
        raise error.about("--out") from None
    require_kind(out, KINDS, "setwise index")


def require_kind(out: Path, kinds: Collection[str], command: str) -> None:
    """Refuse a folder that holds an artifact of another kind than ``command`` writes."""
    try:
        kind = artifact.kind_of(out)
    except SetwiseError:  # nothing, or nothing that can be read
        return
    if kind not in kinds:
        must, got = f"a folder that is new, empty, or that {command} wrote", f"{out}, which holds a {kind}"
        raise InvalidInput("--out", must, got, "choose another folder, so that it is not lost")


def _summary(report: dict[str, Any], catalog: Catalog) -> str:
    reads, folder = report["understands_history"], escape(shlex.quote(report["saved"]))
    users, option = "vectors, as there is no encoder of histories", "--user-json FILE"
    if report["features"]:
        users, option = "features", f"--features {escape(shlex.quote(report['features'][0] + '=1'))}"
        option += f" --k {report['sets']['size']}" if report["sets"] else ""
    elif report["sets"]:  # a model of the outcomes of whole sets has one user
        users, option = "an empty history", escape(f"--history '' --k {report['sets']['size']}")
        exactly = (f"{name}={count}" for name, count in report["sets"]["exactly"].items())
        option += "".join(f" --exactly {escape(shlex.quote(attribute))}" for attribute in exactly)
    elif reads:
        users, option = "histories", escape(example_history(catalog))
    return (
        f"{report['items']:,} items in {report['cells']:,} cells, saved in {folder} after {report['seconds']:.1f} s.\n"
        f"Users are given by {users}. Next:\n\n    setwise recommend {folder} {option}"
    )


def _outcome_sets(source: Path) -> dict[str, Any] | None:
    """The size and the limits of the sets whose outcomes a saved model predicts; None for other models."""
    if source.suffix == ".npz":
        return None
    summary = artifact.read(source, "model", "catalog", portfolio.KIND).meta.get("summary", {})
    return {"size": summary["size"], "exactly": summary.get("exactly", {})} if "size" in summary else None


def load_source(source: Path) -> tuple[Catalog, Encoder | None, FeatureEncoder | None]:
    """The catalogue, and the encoders of histories and of features if there are any."""
    if source.suffix == ".npz":
        return (*_from_arrays(source), None)
    kind = artifact.read(source, "model", portfolio.KIND, "catalog", "index", "recommender").kind
    if kind == portfolio.KIND:
        of_features = portfolio.PortfolioModel.load(source)
        return of_features.catalog, None, of_features.encoder
    if kind == "model":
        model = SimpleTransformer.load(source)
        return model.catalog(), model.encoder, None
    if kind == "catalog":
        return Catalog.load(source), None, None
    raise DamagedArtifact(
        source, f"the kind is {kind!r}, which is indexed already", "pass it to the next command as it is"
    )


def _from_arrays(path: Path) -> tuple[Catalog, Encoder | None]:
    arrays = _arrays(path)
    for name in arrays:
        if name not in PARTS and not name.startswith((COLUMN, ENCODER)):
            must = f"among {', '.join(PARTS)}, {COLUMN}NAME and {ENCODER}NAME"
            raise InvalidInput(f"arrays of {path.name}", must, repr(name), "rename or drop it")
    for name in ("query", "key", "value"):
        if name not in arrays:
            raise InvalidInput(f"arrays of {path.name}", "query, key and value at least", f"no {name}", "add it")
    if ("sink_key" in arrays) != ("sink_value" in arrays):
        raise InvalidInput("sink_key and sink_value", "given together", "one alone", "add the other or drop it")
    sink = Sink(arrays["sink_key"], arrays["sink_value"]) if "sink_key" in arrays else None
    reward = Logistic(**{name: _one_number(name, arrays[name]) for name in ("scale", "bias") if name in arrays})
    catalog = Catalog(
        arrays["query"],
        arrays["key"],
        arrays["value"],
        reward,
        arrays.get("base"),
        sink,
        arrays.get("ids"),
        artifact.under(COLUMN, arrays),
    )
    parts = artifact.under(ENCODER, arrays)
    try:
        return catalog, Encoder.unpacked(parts) if parts else None
    except TypeError as error:
        raise InvalidInput("encoder", "given by the arrays of an Encoder", str(error), "see encoder.py") from None


def _one_number(name: str, array: Any) -> float:
    return real_number(name, array.item() if array.size == 1 else array)


def _arrays(path: Path) -> dict[str, Any]:
    """All arrays of a .npz file; an array of Python objects is an error."""
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(member.file_size for member in archive.infolist())
        if total > max(LARGE, RATIO * path.stat().st_size):
            raise ValueError(f"{total:,} bytes compressed to {path.stat().st_size:,}")
        with path.open("rb") as raw, np.lib.npyio.NpzFile(raw) as file:  # by default it rejects objects
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        reason = (
            error.strerror if isinstance(error, OSError) else (str(error).splitlines() or [type(error).__name__])[0]
        )
        raise InvalidInput(path.name, "a .npz file of plain arrays", reason, "write it with numpy.savez") from None
