"""``setwise cluster``: split an index into shards, and start the hosts that search them."""

from __future__ import annotations

import hashlib
import json
import shlex
import signal
import threading
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from setwise.cli.index import load_source
from setwise.errors import InvalidInput, MissingDependency
from setwise.recommend.cluster.files import FrontFiles, read_front, write_cluster
from setwise.recommend.cluster.splitting import split_catalog
from setwise.recommend.recommender import Recommender
from setwise.storage import artifact


class Action(StrEnum):
    """What to do."""

    UP = "up"
    SPLIT = "split"


def cluster(
    action: Annotated[Action, typer.Argument(help="split: write the shards. up: also start their hosts, and wait.")],
    folder: Annotated[
        Path, typer.Argument(help="A folder written by setwise index, or of a catalogue or model that is not indexed.")
    ],
    files: Annotated[
        Path, typer.Option(help="The folder of the shards; written unless it is there. All machines must see it.")
    ],
    shards: Annotated[int, typer.Option(min=1, help="Parts of the catalogue.")] = 2,
    replicas: Annotated[int, typer.Option(min=1, help="Hosts of each shard.")] = 1,
    cells: Annotated[
        int | None, typer.Option(min=1, help="Cells of a folder that is not indexed; by default as setwise index has.")
    ] = None,
    backend: Annotated[str, typer.Option(help="The search of each shard: auto, scan, tree, gpu, faiss.")] = "auto",
    address: Annotated[
        str | None, typer.Option(help="A cluster of Ray, such as 10.0.0.1:6379; by default one on this machine.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
) -> None:
    """Split an index into shards, and search them by hosts of a Ray cluster.

    Without --address the cluster is on this machine and ends with this command, on Ctrl-C or SIGTERM. A catalogue that
    is not indexed is split one shard at a time, so it may be larger than the memory.

    Example: [bold]setwise cluster up songs/ --files songs-shards/ --shards 4[/bold]
    """
    written = _written(folder, files, shards, cells, backend)
    report = {"files": str(files), "shards": len(written.layout.starts), "items": written.layout.rows}
    if action is Action.SPLIT:
        _print(report, f"{report['items']:,} items in {report['shards']} shards, in {files}.", as_json)
        return
    try:
        from setwise.recommend.cluster import actors
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "a cluster", "ray") from None
    actors.open_front(files, address, replicas)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # after Ray has started, which sets handlers of its own
        signal.signal(number, lambda *_: ended.set())
    report |= {"replicas": replicas, "address": actors.address()}
    place = report["address"]
    text = f"{report['shards']} shards of {report['items']:,} items are searched at {place}. Next:\n\n"
    _print(report, f"{text}    RAY_AUTH_MODE=token setwise serve {shlex.quote(str(files))} --cluster {place}", as_json)
    if address is None:
        ended.wait()


def _written(folder: Path, files: Path, shards: int, cells: int | None, backend: str) -> FrontFiles:
    """The shards in ``files``, written if they are not there."""
    if (files / "manifest.json").exists():
        must, todo = "a folder for the shards alone", "choose a new folder"
        raise InvalidInput("--files", must, f"{files}, which holds an artifact", todo)
    source = _digest(folder)
    if (files / "cluster").exists():
        front = read_front(files)
        if front.source and source and front.source != source:
            raise InvalidInput(
                "--files",
                f"a new folder, or one with the shards of {folder} as it is now",
                f"{files}, whose shards are of another or older one",
                "choose a new folder, or delete this one first",
            )
        if len(front.layout.starts) != shards:
            raise InvalidInput("shards", f"{len(front.layout.starts)}, as --files has", shards, "choose another folder")
        return front
    if folder.suffix != ".npz" and artifact.kind_of(folder) in ("recommender", "index"):
        if cells is not None:
            raise InvalidInput(
                "--cells", "left out, as the folder is indexed", cells, "index it again, or leave it out"
            )
        return write_cluster(Recommender.load(folder), files, shards, backend, source=source)
    catalog, encoder, features = load_source(folder)
    return split_catalog(catalog, files, shards, cells, backend, source=source, encoder=encoder, features=features)


def _digest(folder: Path) -> str:
    """The digest of what is to be split; empty if it is not there: hosts need the shards alone."""
    if not folder.exists():
        return ""
    if folder.suffix != ".npz":
        return artifact.digest(folder)
    with artifact.open_regular(folder) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _print(report: dict[str, object], text: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report), flush=True)
    else:
        Console().print(text, highlight=False, soft_wrap=True, markup=False)
