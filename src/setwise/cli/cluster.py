"""``setwise cluster``: split an index into shards, and start the hosts that search them."""

from __future__ import annotations

import json
import signal
import threading
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from setwise.errors import InvalidInput, MissingDependency
from setwise.recommend.cluster.files import FrontFiles, read_front, write_cluster
from setwise.recommend.recommender import Recommender


class Action(StrEnum):
    """What to do."""

    UP = "up"
    SPLIT = "split"


def cluster(
    action: Annotated[Action, typer.Argument(help="split: write the shards. up: also start their hosts, and wait.")],
    folder: Annotated[Path, typer.Argument(help="A folder written by Recommender.save or setwise index.")],
    files: Annotated[
        Path, typer.Option(help="The folder of the shards; written unless it is there. All machines must see it.")
    ],
    shards: Annotated[int, typer.Option(min=1, help="Parts of the catalogue.")] = 2,
    replicas: Annotated[int, typer.Option(min=1, help="Hosts of each shard.")] = 1,
    backend: Annotated[str, typer.Option(help="The search of each shard: auto, scan, tree, gpu, faiss.")] = "auto",
    address: Annotated[
        str | None, typer.Option(help="A cluster of Ray, such as 10.0.0.1:6379; by default one on this machine.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
) -> None:
    """Split an index into shards, and search them by hosts of a Ray cluster.

    Without --address the cluster is on this machine and ends with this command, on Ctrl-C or SIGTERM.

    Example: [bold]setwise cluster up songs/ --files songs-shards/ --shards 4[/bold]
    """
    written = _written(folder, files, shards, backend)
    report = {"files": str(files), "shards": len(written.layout.starts), "items": written.layout.rows}
    if action is Action.SPLIT:
        _print(report, f"{report['items']:,} items in {report['shards']} shards, in {files}.", as_json)
        return
    try:
        from setwise.recommend.cluster import actors
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "a cluster", "ray") from None
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    actors.open_front(files, address, replicas)
    report |= {"replicas": replicas, "address": actors.address()}
    place = report["address"]
    text = f"{report['shards']} shards of {report['items']:,} items are searched at {place}. Next:\n\n"
    _print(report, f"{text}    actors.open_front('{files}', '{place}')", as_json)
    if address is None:
        ended.wait()


def _written(folder: Path, files: Path, shards: int, backend: str) -> FrontFiles:
    """The shards in ``files``, written if they are not there."""
    if not (files / "cluster").exists():
        return write_cluster(Recommender.load(folder, certify=False), files, shards, backend)
    found = read_front(files)
    if len(found.layout.starts) != shards:
        raise InvalidInput("shards", f"{len(found.layout.starts)}, as --files has", shards, "choose another folder")
    return found


def _print(report: dict[str, object], text: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report), flush=True)
    else:
        Console().print(text, highlight=False, soft_wrap=True, markup=False)
