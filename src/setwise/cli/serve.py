"""``setwise serve``: the service and its page. Its options are the rows of the table of settings."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise.errors import InvalidInput, MissingDependency
from setwise.service.settings import PREFIX, Settings, table

if TYPE_CHECKING:
    from setwise.service.served_cluster import Cluster


ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar=PREFIX + "API_KEY",
        help="The key that every route but probes, metrics and page requires.",
        show_envvar=True,
    ),
]
ReadKey = Annotated[
    str | None,
    typer.Option(
        envvar=PREFIX + "READ_KEY",
        help="A second key, for the routes that change nothing: no reload and no outcomes.",
        show_envvar=True,
    ),
]
ImageHosts = Annotated[
    str,
    typer.Option(
        envvar=PREFIX + "IMAGE_HOSTS",
        help="Hosts that the page may load pictures from, by https, separated by commas; by default none.",
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(envvar=PREFIX + "CLUSTER", help="Serve shards by the cluster of Ray here: 10.0.0.1:6379, or auto."),
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="With --cluster: answer without the shards that do not answer, and say so."),
]


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with an option for every setting in place of ``**limits``."""
    signature = inspect.signature(command, eval_str=True)
    fixed = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            row.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=row.default,
            annotation=Annotated[int, typer.Option(envvar=row.variable, min=row.least, max=row.most, help=row.help)],
        )
        for row in table()
    ]
    command.__signature__ = signature.replace(parameters=[*fixed, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in (*fixed, *options)}
    return command


@_with_settings
def serve(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="A folder written by Recommender.save or setwise index; with --cluster, that of the shards."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8080,
    api_key: ApiKey = None,
    read_key: ReadKey = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(envvar=PREFIX + "ALLOW_HOST", help="A name that clients may send in the Host header; repeatable."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(envvar=PREFIX + "LOG", help="A folder to log slates and their outcomes in; by default none."),
    ] = None,
    image_hosts: ImageHosts = "",
    cluster: ClusterAddress = None,
    replicas: Annotated[int, typer.Option(min=1, help="Hosts of each shard, with --cluster.")] = 1,
    partial: Partial = False,
    rerank_only: Annotated[
        bool, typer.Option("--rerank-only", help="Serve no catalogue: only lists that requests bring are re-ranked.")
    ] = False,
    **limits: Any,
) -> None:
    """Serve recommendations over HTTP, and a page to explore them.

    SIGHUP, or POST /admin/reload with a key, serves what the folder holds by then. SIGTERM answers what was accepted,
    and ends. With --log every slate has an id, under which POST /v1/outcomes takes what became of its items. With
    --cluster the folder is that of setwise cluster split, and hosts in a cluster of Ray hold the items. With
    --rerank-only the folder may be that of a model of effects: POST /v1/rerank takes lists of candidates.

    Example: [bold]setwise serve songs/ --port 8080[/bold]
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # each worker computes on one core
    run = server_module().serve
    from setwise.service.security_headers import parse_image_hosts
    from setwise.service.served_lists import ListsOnly

    if cluster is None and (replicas > 1 or partial):
        given = "--partial" if partial else "--replicas"
        raise InvalidInput(given, "given together with --cluster", "no --cluster", "add it, or drop the option")
    if folder is None and not rerank_only:
        raise InvalidInput("FOLDER", "that of a recommender", "none", "name it, or pass --rerank-only")
    if rerank_only and cluster is not None:
        raise InvalidInput("--rerank-only", "given without --cluster", "both", "drop one of them")
    pictures = parse_image_hosts(image_hosts)
    hosts, limits_ = allow_host or (), Settings(**limits)
    place: Cluster | ListsOnly | None = None
    if rerank_only:
        place = ListsOnly(folder)
    elif cluster is not None and folder is not None:
        place = _cluster(folder, cluster, replicas, partial)
    run(folder or Path("lists"), host, port, api_key, limits_, hosts, log, pictures, read_key, place)


def server_module() -> ModuleType:
    """The module of the service, which needs packages that a plain installation lacks."""
    try:
        return import_module("setwise.service.server")
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "serving", "serve") from None


def _cluster(folder: Path, address: str, replicas: int, partial: bool) -> Cluster:
    """Where the hosts are; a mistake in it is refused here, before a worker starts."""
    from setwise.recommend.cluster.joining import check_address
    from setwise.service.served_cluster import Cluster

    if find_spec("ray") is None:
        raise MissingDependency("ray", "a cluster", "ray")
    check_address(address)
    return Cluster(folder, address, replicas, partial)
