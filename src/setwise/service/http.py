"""The routes. What must be computed goes through the queue; probes, metrics and the page never do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import HTTPException

from setwise.service import openapi, page
from setwise.service.bodies import whole
from setwise.service.handlers import Find, Many, One, Why
from setwise.service.http_errors import JSON, Refusal, accident, not_ready
from setwise.service.logs import log, where_it_failed
from setwise.service.metrics import CONTENT_TYPE, Metrics
from setwise.service.middleware import Door
from setwise.service.queue import Admission, Tell
from setwise.service.reload import Reloads
from setwise.service.schemas import Reloaded, State, ask, batch
from setwise.service.settings import Settings

LONGEST_QUERY, MOST_FOUND, FOUND = 200, 100, 20
_NO_CACHE = {"Cache-Control": "no-cache"}  # ask again every time; a tag makes that cheap


@dataclass(frozen=True, eq=False)
class Front:
    """What the routes stand before."""

    settings: Settings
    reloads: Reloads
    admission: Admission
    metrics: Metrics
    files: dict[str, page.File]
    document: bytes


Asked = Request[Any, Any, Any]
Said = Response[bytes]


def _front(request: Asked) -> Front:
    front: Front = request.app.state["front"]
    return front


async def _body(front: Front, request: Asked) -> bytes:
    """The body; nothing of it is read while the queue is full."""
    front.admission.refuse_when_full()
    return await whole(request.scope, request.receive, front.settings)


def _json(body: bytes) -> Said:
    return Response(body, media_type=JSON)


# --- slates ---


@post("/v1/recommend", status_code=200)
async def recommend(request: Asked) -> Said:
    """The best slate for a user, for requests that do not go straight."""
    front = _front(request)
    asked = ask(await _body(front, request), front.settings)
    return _json(await front.admission.submit(One(asked)))


def _straight(front: Front, body: bytes, tell: Tell) -> None:
    """The same for those that do: the body is here."""
    front.admission.refuse_when_full()
    front.admission.enter(One(ask(body, front.settings)), tell)


@post("/v1/recommend/batch", status_code=200)
async def recommend_batch(request: Asked) -> Said:
    """Many slates at once."""
    front = _front(request)
    asked = batch(await _body(front, request), front.settings)
    return _json(await front.admission.submit(Many(asked)))


@post("/v1/explain", status_code=200)
async def explain(request: Asked) -> Said:
    """A slate, and who lends whom what in it."""
    front = _front(request)
    asked = ask(await _body(front, request), front.settings, explained=True)
    return _json(await front.admission.submit(Why(asked)))


# --- what there is ---


@get("/v1/items")
async def items(request: Asked) -> Said:
    """Items by words of their title, or by id."""
    given = request.query_params
    query, ids, limit = given.get("q", ""), given.get("ids"), given.get("limit", str(FOUND))
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= MOST_FOUND):
        raise Refusal(422, "invalid", f"limit must be a whole number from 1 to {MOST_FOUND}, got {limit!r}; change it.")
    if len(query) > LONGEST_QUERY:
        raise Refusal(
            422, "invalid", f"q must have at most {LONGEST_QUERY} characters, got {len(query)}; use fewer words."
        )
    find = Find(query, int(limit), None if ids is None else ids.split(",")[:MOST_FOUND])
    return _json(await _front(request).admission.submit(find))


@get("/v1/info")
async def information(request: Asked) -> Said:
    """What is served."""
    return _json(msgspec.json.encode(_front(request).admission.crew.info))


@post("/admin/reload", status_code=200)
async def reload(request: Asked) -> Said:
    """Serve what the folder holds now; on any doubt, what is served stays."""
    old, new = await _front(request).reloads.reload()
    return _json(msgspec.json.encode(Reloaded(new.version, old.version)))


# --- probes ---


@get("/healthz")
async def healthy() -> Said:
    """The process lives."""
    return _json(msgspec.json.encode(State("alive")))


@get("/readyz")
async def ready(request: Asked) -> Said:
    """Somebody is there to compute."""
    if not _front(request).admission.crew.workers:
        raise not_ready()
    return _json(msgspec.json.encode(State("ready")))


@get("/metrics")
async def metrics(request: Asked) -> Said:
    """What Prometheus asks."""
    return Response(_front(request).metrics.text(), media_type=CONTENT_TYPE)


# --- pages ---


@get("/")
async def home(request: Asked) -> Said:
    """The page."""
    return _file(request, "index.html")


@get("/page/{name:str}")
async def page_file(request: Asked) -> Said:
    """A file of the page, by its exact name."""
    return _file(request, request.path_params["name"])


def _file(request: Asked, name: str) -> Said:
    file = _front(request).files.get(name)
    if file is None:
        raise Refusal(404, "not_found", "The address must be one that /docs lists, got another; look there.")
    headers = {"ETag": file.tag, **_NO_CACHE}
    if request.headers.get("if-none-match") == file.tag:
        return Response(b"", status_code=304, headers=headers)
    return Response(file.content, media_type=file.type, headers=headers)


@get("/docs")
async def docs() -> Said:
    """The routes, for people."""
    return Response(openapi.listing().encode(), media_type="text/html", headers=_NO_CACHE)


@get("/docs/openapi.json")
async def document(request: Asked) -> Said:
    """The routes, for programs."""
    return _json(_front(request).document)


# --- what goes wrong ---

_COMMON = {
    404: ("not_found", "The address must be one that /docs lists, got another; look there."),
    405: ("method", "The method must be one that /docs lists for this address, got another; look there."),
}


def _refused(_: Asked, refusal: Refusal) -> Said:
    return Response(refusal.body(), status_code=refusal.status, media_type=JSON, headers=dict(refusal.headers))


def _by_litestar(request: Asked, error: HTTPException) -> Said:
    code, message = _COMMON.get(error.status_code, ("refused", "The request cannot be read; see /docs."))
    return _refused(request, Refusal(error.status_code, code, message))


def _by_accident(request: Asked, error: Exception) -> Said:
    log().error("request failed", **where_it_failed(error))
    return _refused(request, accident())


_HANDLERS = [
    recommend, recommend_batch, explain, items, information, reload, healthy, ready, metrics, home, page_file, docs,
    document,
]  # fmt: skip


def application(front: Front, key: str | None) -> Door:
    """The whole service as an ASGI application."""
    routes = Litestar(
        route_handlers=_HANDLERS,
        openapi_config=None,
        logging_config=None,
        exception_handlers={Refusal: _refused, HTTPException: _by_litestar, Exception: _by_accident},
    )
    routes.state["front"] = front
    return Door(routes, partial(_straight, front), front.settings.body_bytes, key, front.metrics)


async def front(folder: Path, settings: Settings, metrics: Metrics, guarded: bool) -> Front:
    """Everything the routes need, with its processes running."""
    reloads = Reloads(folder, settings, metrics)
    admission = await reloads.start()
    metrics.watch(lambda: admission.waiting, lambda: admission.crew.info.items)
    document = msgspec.json.encode(openapi.document(settings, guarded))
    return Front(settings, reloads, admission, metrics, page.files(), document)
