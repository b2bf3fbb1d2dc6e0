"""The description of the service, made from the types it decodes and encodes; and a page that lists it."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

import setwise
from setwise.service import schemas
from setwise.service.settings import Settings

_REF = "#/components/schemas/{name}"
Route = tuple[str, str, str, type[Any] | None, type[Any], tuple[int, ...]]

ROUTES: tuple[Route, ...] = (  # method, path, what it is, body, answer, refusals
    ("post", "/v1/recommend", "The best slate for a user.", schemas.Ask, schemas.Answer, (400, 422, 504)),
    ("post", "/v1/recommend/batch", "Many slates at once.", schemas.Batch, schemas.Answers, (400, 422, 504)),
    ("post", "/v1/explain", "A slate, and who lends whom what.", schemas.Ask, schemas.Explained, (400, 422, 504)),
    ("get", "/v1/items", "Items by words of their title, or by id.", None, schemas.Items, (422, 504)),
    ("get", "/v1/info", "What is served.", None, schemas.Info, ()),
    ("post", "/admin/reload", "Serve what the folder holds now.", None, schemas.Reloaded, (409, 422)),
    ("get", "/healthz", "Whether the process lives.", None, schemas.State, ()),
    ("get", "/readyz", "Whether it takes requests.", None, schemas.State, (503,)),
)
_WAITING = ("/v1/recommend", "/v1/recommend/batch", "/v1/explain", "/v1/items")  # those that go through the queue
_REASONS = {
    400: "The body is not JSON of this form.",
    401: "The API key is missing or wrong.",
    403: "Another site's page sent this.",
    408: "The body came too slowly.",
    409: "A reload is under way.",
    413: "The body is too large.",
    422: "Something in the request cannot be.",
    503: "The queue is full, or nobody is there to compute: see Retry-After.",
    504: "The deadline passed while the request waited.",
}
_QUERY = (
    ("q", {"type": "string", "maxLength": 200}, "Words, in any order and case."),
    ("limit", {"type": "integer", "minimum": 1, "maximum": 100}, "How many to return at most (20)."),
    ("ids", {"type": "string"}, "Ids between commas, instead of words; unknown ones are left out."),
)


def document(settings: Settings, guarded: bool) -> dict[str, Any]:
    """The OpenAPI document."""
    types = [schemas.Failed, *(part for route in ROUTES for part in route[3:5] if part is not None)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    _narrow(components, settings)
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route[1], {})[route[0]] = _operation(route, guarded)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "setwise", "version": setwise.__version__, "description": "Recommend the best set."},
        "paths": paths,
        "components": {"schemas": components},
    }
    if guarded:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return found


def _narrow(components: dict[str, Any], settings: Settings) -> None:
    """The limits that are settings, not types."""
    ask = components["Ask"]["properties"]
    ask["k"] |= {"minimum": 1, "maximum": settings.k}
    for name, most in (("history", settings.history), ("exclude", settings.exclude)):
        for choice in ask[name]["anyOf"]:
            if choice.get("type") == "array":
                choice["maxItems"] = most
    ask["ranker"] = {"enum": [*schemas.RANKERS, None], "default": None}
    components["Batch"]["properties"]["requests"] |= {"minItems": 1, "maxItems": settings.batch}
    either = [{"$ref": _REF.format(name=one.__name__)} for one in (schemas.Answer, schemas.Failed)]
    components["Answers"]["properties"]["answers"]["items"] = {"anyOf": either}
    components["Ask"]["oneOf"] = [
        {"required": [name], "properties": {name: {"type": kind}}}
        for name, kind in (("history", "array"), ("user", "object"), ("vector", "array"))
    ]


def _operation(route: Route, guarded: bool) -> dict[str, Any]:
    _, path, summary, body, answer, refusals = route
    codes = {*refusals, 403}
    codes |= {408, 413} if body else set()
    codes |= {503} if path in _WAITING else set()
    operation: dict[str, Any] = {"summary": summary, "responses": {"200": _content("What was asked for.", answer)}}
    if guarded and path.startswith(("/v1/", "/admin/")):
        operation["security"] = [{"key": []}]
        codes |= {401}
    operation["responses"] |= {str(code): _content(_REASONS[code], schemas.Failed) for code in sorted(codes)}
    if body is not None:
        operation["requestBody"] = _content("", body) | {"required": True}
        del operation["requestBody"]["description"]
    if path == "/v1/items":
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": schema, "description": text} for name, schema, text in _QUERY
        ]
    return operation


def _content(description: str, of: type[Any]) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name=of.__name__)}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def listing() -> str:
    """A plain page of the routes: the document itself is for programs."""
    rows = "".join(
        f"<tr><td><code>{method.upper()} {escape(path)}</code></td><td>{escape(summary)}</td></tr>"
        for method, path, summary, *_ in ROUTES
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width"><title>setwise: the service</title>'
        f"<h1>setwise: the service</h1><table><tr><th>route</th><th>what it is</th></tr>{rows}</table>"
        '<p>In full, for programs and people: <a href="/docs/openapi.json">OpenAPI</a>. '
        '<a href="/metrics">Metrics</a>. <a href="/">The page</a>.</p></html>'
    )
