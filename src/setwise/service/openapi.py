"""The OpenAPI document, made from the table of routes and the types of their requests and responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

import setwise
from setwise.service import schemas
from setwise.service.field_notes import EXAMPLES, NOTES
from setwise.service.http_errors import REASONS
from setwise.service.settings import Settings

_REF = "#/components/schemas/{name}"
_ALWAYS = (400, 403, 421, 431)  # errors that every route can return


class Row(Protocol):
    """What the document needs of a route."""

    method: str
    path: str
    summary: str
    request: type[Any] | None
    response: type[Any] | None
    errors: tuple[int, ...]
    open: bool


def document(routes: Sequence[Any], settings: Settings, has_key: bool) -> dict[str, Any]:
    """The OpenAPI document of the routes that have a response type."""
    api: list[Row] = [route for route in routes if route.response is not None]
    types = [schemas.ErrorResponse, *(part for row in api for part in (row.request, row.response) if part is not None)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    parameters = components.pop(schemas.ItemsRequest.__name__)["properties"]
    _add_limits(components, settings)
    for name, notes in NOTES.items():
        for field, note in notes.items():
            schema = components[name]["properties"][field]
            components[name]["properties"][field] = {**schema, "description": note}
    paths: dict[str, Any] = {}
    for row in api:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, settings, has_key, parameters)
    content: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "setwise", "version": setwise.__version__, "description": "Recommend the best set."},
        "paths": paths,
        "components": {"schemas": components},
    }
    if has_key:
        content["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return content


def _add_limits(components: dict[str, Any], settings: Settings) -> None:
    """Add the limits that are settings, which the types do not know."""
    request = components["RecommendRequest"]["properties"]
    request["k"] |= {"minimum": 1, "maximum": settings.k}
    for name, most in (("history", settings.history), ("exclude", settings.exclude)):
        for choice in request[name]["anyOf"]:
            if choice.get("type") == "array":
                choice["maxItems"] = most
    request["ranker"] = {"enum": [*schemas.INTERACTIVE, None], "default": None}
    components["RerankRequest"]["properties"]["k"] |= {"minimum": 1, "maximum": settings.k}
    components["RerankBatchRequest"]["properties"]["k"] |= {"minimum": 1, "maximum": settings.k}
    components["BatchRequest"]["properties"]["requests"] |= {"minItems": 1, "maxItems": settings.batch}
    either = [{"$ref": _REF.format(name=schema.__name__)} for schema in (schemas.SlateResponse, schemas.ErrorResponse)]
    components["BatchResponse"]["properties"]["answers"]["items"] = {"anyOf": either}
    components["RecommendRequest"]["oneOf"] = [
        {"required": [name], "properties": {name: {"type": kind}}}
        for name, kind in (("history", "array"), ("user", "object"), ("vector", "array"), ("features", "object"))
    ]
    absent = {name: {"type": "null"} for name in ("history", "user", "vector", "features")}
    alone = {"required": ["scores"], "properties": absent | {"scores": {"type": ["array", "object"]}}}
    components["RecommendRequest"]["oneOf"].append(alone)


def _operation(row: Row, settings: Settings, has_key: bool, parameters: dict[str, Any]) -> dict[str, Any]:
    codes = {*row.errors, *_ALWAYS}
    operation: dict[str, Any] = {"summary": row.summary, "responses": {"200": _content("Success.", row.response)}}
    if has_key and not row.open:
        operation["security"] = [{"key": []}]
        codes |= {401}
    operation["responses"] |= {str(code): _content(REASONS[code], schemas.ErrorResponse) for code in sorted(codes)}
    if row.request is not None and row.method == "GET":
        operation["parameters"] = [
            {"name": name, "in": "query", "description": schema.pop("description", ""), "schema": schema}
            for name, schema in ((name, dict(schema)) for name, schema in parameters.items())
        ]
    elif row.request is not None:
        operation["requestBody"] = _content("", row.request) | {"required": True}
        del operation["requestBody"]["description"]
        operation["requestBody"]["content"]["application/json"]["example"] = EXAMPLES[row.request.__name__]
    return operation


def _content(description: str, of: type[Any] | None) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name=of.__name__ if of is not None else "")}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
