"""The HTTP routes: one table, from which routing, authentication, metrics labels and the documentation are made.

A route is matched by the bytes of the path as they were sent: nothing is decoded, collapsed or redirected, so a path
has one spelling. Authentication is decided on the matched route. A route needs the API key unless its row says
``open``, and so does a path without a route. Requests that must be computed go through the queue; probes, metrics and
the page do not.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from setwise.service import http_errors, openapi, schemas
from setwise.service.connections import LINGER_S, OTHER, ConnectionLimits, raw_headers
from setwise.service.hosts import AllowedHosts
from setwise.service.http_errors import JSON, HttpError
from setwise.service.logs import error_place, log
from setwise.service.metrics import CONTENT_TYPE, Metrics
from setwise.service.queue import TaskQueue
from setwise.service.reload import Reloader
from setwise.service.settings import Settings
from setwise.service.static_files import StaticFile, read_static_files

FREE_BYTES = 1 << 14  # of each body that do not count in bodies_bytes: small requests are served while large ones wait
_NO_CACHE = {"Cache-Control": "no-cache"}  # ask again every time; the entity tag makes that cheap


@dataclass(frozen=True, eq=False)
class Service:
    """What the routes use."""

    settings: Settings
    reloader: Reloader
    queue: TaskQueue
    metrics: Metrics
    document: bytes
    has_key: bool

    @classmethod
    async def start(cls, folder: Path, settings: Settings, metrics: Metrics, has_key: bool) -> Service:
        """A service for the artifact in ``folder``, with its workers running."""
        reloader = Reloader(folder, settings, metrics)
        queue = await reloader.start()
        metrics.watch(lambda: len(queue), lambda: len(queue.pool.workers), lambda: queue.pool.info.items)
        document = msgspec.json.encode(openapi.document(ROUTES, settings, has_key))
        return cls(settings, reloader, queue, metrics, document, has_key)


@dataclass(frozen=True)
class Response:
    """Status, body and headers of a response."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


class Bodies:
    """Memory for the bodies that are being read: one budget for all connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._left = max(settings.bodies_bytes, settings.body_bytes)

    async def read(self, request: Request) -> bytes:
        """The body of a request, or an error as soon as it is known to be too large or too slow."""
        most, milliseconds = self._settings.body_bytes, self._settings.body_ms
        if int(request.header(b"content-length", b"0")) > most:  # h11 has checked that it is a number
            raise http_errors.large_body(most)
        try:
            async with asyncio.timeout(milliseconds / 1000):
                return await self._read(request, most)
        except TimeoutError:
            raise http_errors.slow_body(milliseconds) from None

    async def _read(self, request: Request, most: int) -> bytes:
        pieces: list[bytes] = []
        size, reserved, more = 0, 0, True
        try:
            while more:
                event = await request.receive()
                if event["type"] == "http.disconnect":
                    raise http_errors.incomplete_body()
                pieces.append(event.get("body", b""))
                size += len(pieces[-1])
                if size > most:
                    raise http_errors.large_body(most)
                needed = max(0, size - FREE_BYTES) - reserved
                if needed > self._left:
                    raise http_errors.bodies_full()
                self._left -= needed
                reserved += needed
                more = event.get("more_body", False)
            return b"".join(pieces)
        finally:
            self._left += reserved


@dataclass(frozen=True, eq=False)
class Request:
    """An HTTP request as the routes see it."""

    scope: Any
    receive: Callable[[], Awaitable[Any]]
    bodies: Bodies

    def header(self, name: bytes, default: bytes = b"") -> bytes:
        """The value of a header."""
        return next((value for key, value in self.scope["headers"] if key == name), default)

    def parameters(self) -> dict[str, str]:
        """The query parameters; the last one of a name counts."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True))

    async def discard_body(self) -> None:
        """Discard the rest of the body for a while, so that the client can read the error."""
        try:
            async with asyncio.timeout(LINGER_S):
                while (event := await self.receive())["type"] == "http.request" and event.get("more_body", False):
                    pass
        except TimeoutError:
            return


# --- what the routes do ---

Respond = Callable[[Service, Request], Awaitable[Response]]


async def _compute(service: Service, request: Request, handler: str, content: schemas.HttpRequest) -> Response:
    """Have a request computed by a worker; it leaves the queue if the client disconnects."""
    task = service.queue.add(handler, content)
    request.scope["state"]["abandon"] = partial(service.queue.abandon, task)
    return Response(await task.body())


def _computed(handler: str, decode: Callable[[bytes, Settings], schemas.HttpRequest]) -> Respond:
    """A route whose body is decoded and computed by a handler; nothing is read while the queue is full."""

    async def respond(service: Service, request: Request) -> Response:
        service.queue.shed_when_full()
        body = await request.bodies.read(request)
        return await _compute(service, request, handler, decode(body, service.settings))

    return respond


async def _items(service: Service, request: Request) -> Response:
    return await _compute(service, request, "items", schemas.decode_items(request.parameters()))


async def _info(service: Service, _: Request) -> Response:
    return Response(msgspec.json.encode(service.queue.pool.info))


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
    return Response(service.metrics.text(), content_type=CONTENT_TYPE)


async def _docs(_: Service, __: Request) -> Response:
    return Response(openapi.page(ROUTES).encode(), content_type="text/html; charset=utf-8", headers=_NO_CACHE)


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
    label: str = ""  # in the metrics, if not the path


_QUEUED = (422, 503, 504)
_BODY = (400, 408, 413, *_QUEUED)
ROUTES: tuple[Route, ...] = (
    Route("POST", "/v1/recommend", "The best slate for a user.", _computed("recommend", schemas.decode_recommend),
          schemas.RecommendRequest, schemas.SlateResponse, _BODY),
    Route("POST", "/v1/recommend/batch", "Many slates at once.", _computed("batch", schemas.decode_batch),
          schemas.BatchRequest, schemas.BatchResponse, _BODY),
    Route("POST", "/v1/explain", "A slate and its explanation.", _computed("explain", schemas.decode_explain),
          schemas.RecommendRequest, schemas.ExplainResponse, _BODY),
    Route("GET", "/v1/items", "Items by words of their title, or by id.", _items,
          schemas.ItemsRequest, schemas.ItemsResponse, _QUEUED),
    Route("GET", "/v1/info", "The artifact that is served, and the limits.", _info, None, schemas.Info),
    Route("POST", "/admin/reload", "Open the folder again.", _reload, None, schemas.Reloaded, (409, 422, 503)),
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
    """The service as an ASGI application."""

    def __init__(self, service: Service, key: str | None, hosts: AllowedHosts) -> None:
        self.service, self._hosts = service, hosts
        self._authorization = None if key is None else f"Bearer {key}".encode()
        self._bodies = Bodies(service.settings)
        self.routes = {route.path.encode(): route for route in all_routes()}
        self.limits = ConnectionLimits(service.settings, service.metrics)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        request = Request(scope, receive, self._bodies)
        route = self.routes.get(scope["raw_path"])
        try:
            response = await self._admit(request, route)(self.service, request)
        except HttpError as error:
            response = Response(error.body(), error.status, JSON, dict(error.headers))
        except Exception as error:
            log().error("request failed", **error_place(error))
            response = Response(http_errors.internal_error().body(), 500)
        label = OTHER if route is None else route.label or route.path
        self.service.metrics.count_response(label, response.status)
        headers = raw_headers(response.body, response.content_type, response.headers)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        rest = response.headers.get("Connection") == "close"  # closing over unread bytes would discard the response
        await send({"type": "http.response.body", "body": response.body, "more_body": rest})
        if rest:
            await request.discard_body()
            await send({"type": "http.response.body", "body": b""})

    def _admit(self, request: Request, route: Route | None) -> Respond:
        """Check size, version, host, origin, key and method, in this order; the function of the matched route."""
        scope, settings = request.scope, self.service.settings
        size = len(scope["raw_path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > settings.head_bytes or len(scope["headers"]) > settings.headers:
            raise http_errors.large_head(settings.head_bytes, settings.headers)
        if scope["http_version"] not in ("1.0", "1.1"):
            raise http_errors.bad_request("its version is another")
        host, origin = request.header(b"host"), request.header(b"origin")
        if not self._hosts.accept(host):
            raise http_errors.unknown_host()
        if origin and _netloc(origin) != host:
            raise http_errors.foreign_origin()
        if not (route is not None and route.open) and not self._has_key(request):
            raise http_errors.unauthorized()
        if route is None:
            raise http_errors.not_found()
        if scope["method"] != route.method:
            raise http_errors.wrong_method(route.method)
        return route.respond

    def _has_key(self, request: Request) -> bool:
        return self._authorization is None or hmac.compare_digest(request.header(b"authorization"), self._authorization)


def _netloc(origin: bytes) -> bytes | None:
    """Host and port of an Origin header; None if it has none, as the origin null."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None
