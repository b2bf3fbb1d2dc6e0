"""The HTTP routes: one table, from which routing, authentication, metrics labels and the documentation are made.

A route is matched by the bytes of the path as they were sent: nothing is decoded, collapsed or redirected, so a path
has one spelling. Authentication is decided on the matched route. A route needs the API key unless its row says
``open``, and so does a path without a route. Requests that must be computed go through the queue; probes, metrics and
the page do not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from setwise.service import decoding, docs_page, http_errors, list_schemas, openapi, schemas
from setwise.service.connections import OTHER
from setwise.service.exchange import Bodies, Request, Response
from setwise.service.hosts import AllowedHosts
from setwise.service.http_errors import JSON, HttpError
from setwise.service.keys import Keys
from setwise.service.logs import error_place, log
from setwise.service.metrics import CONTENT_TYPE, Metrics
from setwise.service.outcome_log import OutcomeLog
from setwise.service.queue import TaskQueue
from setwise.service.reload import Reloader
from setwise.service.served_cluster import Cluster
from setwise.service.served_lists import ListsOnly
from setwise.service.settings import Settings
from setwise.service.static_files import StaticFile, read_static_files
from setwise.service.turns import Turns
from setwise.storage.slate_log import ItemOutcome

_LOGGED = ("recommend", "batch")  # handlers whose slates are shown to people
_NO_CACHE = {"Cache-Control": "no-cache"}  # ask again every time; the entity tag makes that cheap


@dataclass(frozen=True, eq=False)
class Service:
    """What the routes use."""

    settings: Settings
    reloader: Reloader
    queue: TaskQueue
    metrics: Metrics
    bodies: Bodies
    document: bytes
    docs: bytes
    has_key: bool
    log: OutcomeLog | None
    image_hosts: Sequence[str]  # where the page may load pictures from
    turns: Turns = field(default_factory=Turns)  # of responses
    decoding: Turns = field(default_factory=Turns)  # of bodies: they do not delay what needs no decoding

    @classmethod
    async def start(
        cls,
        folder: Path,
        settings: Settings,
        metrics: Metrics,
        has_key: bool,
        log_folder: Path | None = None,
        image_hosts: Sequence[str] = (),
        cluster: Cluster | ListsOnly | None = None,
    ) -> Service:
        """A service for the artifact, or the shards, in ``folder``, with its workers running; slates are logged."""
        log = None if log_folder is None else OutcomeLog(log_folder, settings, metrics)
        reloader = Reloader(folder, settings, metrics, cluster)
        try:
            queue = await reloader.start()
        except BaseException:
            if log is not None:
                await log.end()
            raise
        metrics.watch(lambda: len(queue), lambda: len(queue.pool.workers), lambda: queue.pool.info.items)
        described = openapi.document(ROUTES, settings, has_key)
        others = {route.path: route.summary for route in ROUTES if route.response is None}  # no part of the API
        document, docs = msgspec.json.encode(described), docs_page.page(described, others).encode()
        return cls(settings, reloader, queue, metrics, Bodies(settings), document, docs, has_key, log, image_hosts)

    def fail_all(self) -> None:
        """The time for a drain is over: answer what waits, with 503 where nothing was computed or written."""
        self.queue.fail_all()
        if self.log is not None:
            self.log.release()

    async def end(self) -> None:
        """End the workers, and write what the log has accepted."""
        await self.reloader.end()
        if self.log is not None:
            await self.log.end()


# --- what the routes do ---

Respond = Callable[[Service, Request], Awaitable[Response]]


async def _compute(service: Service, request: Request, handler: str, content: schemas.HttpRequest | bytes) -> Response:
    """Have a request computed by a worker; it leaves the queue, and is not logged, if the client disconnects."""
    if request.over:
        raise http_errors.client_gone()
    task = service.queue.add(handler, content, service.log is not None and handler in _LOGGED)
    request.abandon = partial(service.queue.abandon, task)
    body = await task.body()
    if request.over:  # its slates were not shown: they are not logged
        raise http_errors.client_gone()
    if service.log is not None:
        await service.log.add_shown(task.shown, task.deadline)
    return Response(body)


def _computed(handler: str) -> Respond:
    """A route whose body is computed by a handler; nothing is read while the queue is full."""

    async def respond(service: Service, request: Request) -> Response:
        service.queue.shed_when_full()
        body = await service.bodies.read(request)
        if len(body) > decoding.LARGE:
            return await _compute(service, request, handler, body)
        decode = partial(decoding.DECODERS[handler], body, service.settings)
        return await _compute(service, request, handler, await service.decoding.result(decode))

    return respond


async def _items(service: Service, request: Request) -> Response:
    content = await service.decoding.result(lambda: decoding.decode_items(request.parameters()))
    return await _compute(service, request, "items", content)


async def _outcomes(service: Service, request: Request) -> Response:
    if service.log is None:
        raise http_errors.no_log()
    body, turns, sent = await service.bodies.read(request), service.decoding, list[ItemOutcome]()
    parts = await turns.result(partial(decoding.split_outcomes, body, service.settings))
    with service.log.room(decoding.PART * len(parts)):
        for part in parts:
            outcomes = await turns.result(partial(decoding.decode_outcomes, part))
            sent += [ItemOutcome(entry.slate, entry.item, entry.outcome) for entry in outcomes]
        recorded = await service.log.add_outcomes(sent)
    absent = [schemas.NotShown(entry.slate, entry.item) for entry in recorded.not_shown]
    content = schemas.OutcomesResponse(recorded.new, recorded.repeated, recorded.unknown_slates, absent)
    return Response(msgspec.json.encode(content))


async def _info(service: Service, _: Request) -> Response:
    info = msgspec.structs.replace(service.queue.pool.info, image_hosts=[*service.image_hosts])
    return Response(msgspec.json.encode(info))


async def _reload(service: Service, _: Request) -> Response:
    if not service.has_key:
        raise http_errors.needs_key()
    old, new = await service.reloader.reload()
    return Response(msgspec.json.encode(schemas.Reloaded(new.version, old.version)))


async def _healthy(_: Service, __: Request) -> Response:
    return Response(msgspec.json.encode(schemas.Status("alive")))


async def _ready(service: Service, _: Request) -> Response:
    if not service.queue.pool.workers:
        raise http_errors.not_ready()
    return Response(msgspec.json.encode(schemas.Status("ready")))


async def _metrics(service: Service, _: Request) -> Response:
    return Response(await service.turns.result(service.metrics.text), content_type=CONTENT_TYPE)


async def _docs(service: Service, _: Request) -> Response:
    return Response(service.docs, content_type="text/html; charset=utf-8", headers=_NO_CACHE)


async def _document(service: Service, _: Request) -> Response:
    return Response(service.document)


def _static(file: StaticFile) -> Respond:
    async def respond(_: Service, request: Request) -> Response:
        headers = {"ETag": file.tag, **_NO_CACHE}
        if request.header(b"if-none-match") == file.tag.encode():
            return Response(b"", 304, file.content_type, headers)
        return Response(file.content, 200, file.content_type, headers)

    return respond


# --- the table ---


@dataclass(frozen=True, eq=False)
class Route:
    """A row of the table; a row with a ``response`` type is a part of the documented API."""

    method: str
    path: str
    summary: str
    respond: Respond
    request: type[Any] | None = None  # of the body, or of the query parameters of a GET
    response: type[Any] | None = None
    errors: tuple[int, ...] = ()
    open: bool = False  # whether it is served without the API key
    writes: bool = False  # whether it changes something, for which a read key does not suffice
    label: str = ""  # in the metrics, if not the path

    @property
    def methods(self) -> tuple[bytes, ...]:
        """Its method, and HEAD beside GET: the same response without its body."""
        return (b"GET", b"HEAD") if self.method == "GET" else (self.method.encode(),)


_QUEUED = (422, 503, 504)
_BODY = (400, 408, 413, *_QUEUED)
ROUTES: tuple[Route, ...] = (
    Route("POST", "/v1/recommend", "The best slate for a user.", _computed("recommend"),
          schemas.RecommendRequest, schemas.SlateResponse, _BODY),
    Route("POST", "/v1/recommend/batch", "Many slates at once.", _computed("batch"),
          schemas.BatchRequest, schemas.BatchResponse, _BODY),
    Route("POST", "/v1/explain", "A slate and its explanation.", _computed("explain"),
          schemas.ExplainRequest, schemas.ExplainResponse, _BODY),
    Route("POST", "/v1/rerank", "The best set of a list of candidates.", _computed("rerank"),
          list_schemas.RerankRequest, list_schemas.RerankResponse, _BODY),
    Route("POST", "/v1/rerank/batch", "The best sets of several lists.", _computed("rerank_batch"),
          list_schemas.RerankBatchRequest, list_schemas.RerankBatchResponse, _BODY),
    Route("POST", "/v1/outcomes", "Outcomes of slates that were shown.", _outcomes,
          schemas.OutcomesRequest, schemas.OutcomesResponse, (400, 404, 408, 413, 422, 503), writes=True),
    Route("GET", "/v1/items", "Items by words of their title, or by id.", _items,
          schemas.ItemsRequest, schemas.ItemsResponse, _QUEUED),
    Route("GET", "/v1/info", "The artifact that is served, and the limits.", _info, None, schemas.Info),
    Route("POST", "/admin/reload", "Open the folder again.", _reload, None, schemas.Reloaded, (409, 422, 503),
          writes=True),
    Route("GET", "/healthz", "Whether the process lives.", _healthy, None, schemas.Status, (), open=True),
    Route("GET", "/readyz", "Whether a worker is ready.", _ready, None, schemas.Status, (503,), open=True),
    Route("GET", "/metrics", "Metrics for Prometheus.", _metrics, open=True),
    Route("GET", "/docs", "The routes, for people.", _docs, open=True),
    Route("GET", "/docs/openapi.json", "The routes, for programs.", _document, open=True),
)  # fmt: skip


def all_routes() -> list[Route]:
    """The table with a row for every file of the page."""
    files = read_static_files()
    pages = [Route("GET", "/", "The page.", _static(files["index.html"]), open=True)]
    for name, file in files.items():
        pages.append(Route("GET", f"/page/{name}", "A file of the page.", _static(file), open=True, label="/page"))
    return [*ROUTES, *pages]


# --- the application ---


class Application:
    """The routes, and who may use them."""

    def __init__(self, service: Service, key: str | None, hosts: AllowedHosts, read_key: str | None = None) -> None:
        self.service, self._hosts = service, hosts
        self._keys = Keys(key, read_key)
        self.routes = {route.path.encode(): route for route in all_routes()}

    async def respond(self, request: Request) -> Response:
        """The response to one request."""
        route = self.routes.get(request.path)
        try:
            response = await self._admit(request, route)(self.service, request)
        except HttpError as error:
            response = Response(error.body(), error.status, JSON, dict(error.headers))
            error.__traceback__ = None  # its frames hold the body, and futures that hold the error: a cycle
        except Exception as error:
            log().error("request failed", **error_place(error))
            response = Response(http_errors.internal_error().body(), 500)
        label = OTHER if route is None else route.label or route.path
        self.service.metrics.count_response(label, response.status)
        return response

    def _admit(self, request: Request, route: Route | None) -> Respond:
        """Check size, version, host, origin, key, its rights and method, in this order; the function of the route."""
        settings = self.service.settings
        size = len(request.path) + len(request.query)
        size += sum(len(name) + len(value) + 4 for name, value in request.headers)
        if size > settings.head_bytes or len(request.headers) > settings.headers:
            raise http_errors.large_head(settings.head_bytes, settings.headers)
        if request.version not in (b"1.0", b"1.1"):
            raise http_errors.bad_request("its version is another")
        if request.header(b"transfer-encoding") and request.header(b"content-length"):  # a proxy may read it otherwise
            raise http_errors.bad_request("it has both Transfer-Encoding and Content-Length")
        host, origin = request.header(b"host"), request.header(b"origin")
        if not self._hosts.accept(host):
            raise http_errors.unknown_host()
        if origin and _netloc(origin) != host:
            raise http_errors.foreign_origin()
        if route is None or not route.open:
            may_write = self._keys.may_write(request.header(b"authorization"))
            if may_write is None:
                raise http_errors.unauthorized()
            if route is not None and route.writes and not may_write:
                raise http_errors.read_only()
        if route is None:
            raise http_errors.not_found()
        if request.method not in route.methods:
            raise http_errors.wrong_method(", ".join(method.decode() for method in route.methods))
        return route.respond


def _netloc(origin: bytes) -> bytes | None:
    """Host and port of an Origin header; None if it has none, as the origin null."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None
