"""The page /docs: every route with its parameters, an example for a terminal, and its answers.

It is made from the OpenAPI document, so that the two cannot differ.
"""

from __future__ import annotations

import json
import shlex
from html import escape
from typing import Any

_HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    '<meta name="viewport" content="width=device-width"><title>setwise: the HTTP API</title>'
    "<h1>setwise: the HTTP API</h1>"
)
_TAIL = (
    '<p>For programs: <a href="/docs/openapi.json">OpenAPI document</a>. '
    '<a href="/metrics">Metrics</a>. <a href="/">The page</a>.</p></html>'
)
_IDS = (
    "<p>In the examples replace <code>id-1</code> and the like by ids of your catalogue: "
    '<a href="/v1/items?limit=5">some of them</a>, or others with <code>/v1/items?q=WORDS</code>. '
    "Attributes and limits of this service are in <code>/v1/info</code>.</p>"
)


def page(document: dict[str, Any], others: dict[str, str]) -> str:
    """The page of this document; ``others`` are routes without JSON, with their descriptions."""
    parts = [
        _route(method.upper(), path, operation, document)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    rows = [[f"<code>{escape(path)}</code>", escape(summary)] for path, summary in others.items()]
    return "".join([_HEAD, _IDS, *parts, "<h2>Others</h2>", _table(["route", "description"], rows), _TAIL])


def _route(method: str, path: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    parts = [f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation['summary'])}</p>"]
    if operation.get("security"):
        parts.append("<p>Needs the header <code>Authorization: Bearer KEY</code>.</p>")
    fields, sample = _fields(operation, document), _sample(method, path, operation)
    if fields:
        parts.append(_table(["field", "type", "default", "meaning"], fields))
    if sample:
        parts.append(f"<pre>{escape(sample)}</pre>")
    answers = [[code, escape(answer["description"])] for code, answer in operation["responses"].items()]
    parts.append(_table(["status", "meaning"], answers))
    return "".join(parts)


def _fields(operation: dict[str, Any], document: dict[str, Any]) -> list[list[str]]:
    """The rows of the table of fields: of the query string, or of the body and of the objects in it."""
    if "parameters" in operation:
        parameters = {
            parameter["name"]: {**parameter["schema"], "description": parameter["description"]}
            for parameter in operation["parameters"]
        }
        return [_field(name, schema) for name, schema in parameters.items()]
    if "requestBody" not in operation:
        return []
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    properties = _resolved(schema, document)["properties"]
    rows = [_field(name, schema) for name, schema in properties.items()]
    for name, schema in properties.items():  # the fields of a list's objects, such as outcomes
        inner = _resolved(schema.get("items", {}), document)
        if name != "requests" and "properties" in inner:
            rows += [_field(f"{name}[].{field}", schema) for field, schema in inner["properties"].items()]
    return rows


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def _field(name: str, schema: dict[str, Any]) -> list[str]:
    default = json.dumps(schema["default"]) if schema.get("default") is not None else ""
    return [
        f"<code>{escape(name)}</code>",
        escape(_type(schema)),
        escape(default),
        escape(schema.get("description", "")),
    ]


def _type(schema: dict[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(type_ for type_ in map(_type, schema[key]) if type_ != "null"))
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"] if value is not None)
    kind = str(schema.get("type", "any value"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    ends = [str(schema[end]) for end in ("minimum", "maximum") if end in schema]
    return f"{kind} ({' to '.join(ends)})" if ends else kind


def _sample(method: str, path: str, operation: dict[str, Any]) -> str:
    """A command for a terminal; empty for routes without parameters."""
    address = f"127.0.0.1:8080{path}"
    key = "-H 'Authorization: Bearer KEY' " if operation.get("security") else ""
    if "requestBody" in operation:
        body = json.dumps(operation["requestBody"]["content"]["application/json"]["example"])
        return f"curl {key}-d {shlex.quote(body)} {address}"
    if "parameters" in operation:
        return f"curl {key}'{address}?q=WORDS&limit=5'"
    return f"curl {key}{'-X POST ' if method == 'POST' else ''}{address}"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    head = "".join(f"<th scope=col>{heading}</th>" for heading in heads)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
