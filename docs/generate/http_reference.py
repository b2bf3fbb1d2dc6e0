"""The reference page of the HTTP service, from its OpenAPI document and its table of settings."""

from __future__ import annotations

from typing import Any

from setwise.service import http, openapi
from setwise.service.settings import Settings, table


def http_reference() -> str:
    """Markdown: every route with its parameters, body and statuses; then every JSON object that they use."""
    document = openapi.document(http.ROUTES, Settings(), True)
    routes = [
        _route(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = document["components"]["schemas"]
    objects = [_object(name, schemas[name]) for name in sorted(schemas)]
    return "\n\n".join(["## Routes", *routes, "## Objects", *objects])


def settings_reference() -> str:
    """Markdown: the table of settings."""
    rows = [
        f"| `{one.option}` | `{one.variable}` | {one.default:,} | {one.least:,} to {one.most:,} | {one.help} |"
        for one in table()
    ]
    return "\n".join(["| Option | Variable | Default | Range | Description |", "|---|---|---|---|---|", *rows])


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [f"### {method.upper()} {path}", operation["summary"]]
    parts.append("Needs the API key, if one is set." if operation.get("security") else "Needs no API key.")
    parameters = [
        f"| `{one['name']}` | {_type(one['schema'])} | {one.get('description', '')} |"
        for one in operation.get("parameters", [])
    ]
    if parameters:
        parts.append("\n".join(["| Query parameter | Type | Description |", "|---|---|---|", *parameters]))
    if "requestBody" in operation:
        parts.append(f"Body: {_type(_schema(operation['requestBody']))}.")
    statuses = [
        f"| {status} | {_type(_schema(answer))} | {answer['description']} |"
        for status, answer in operation["responses"].items()
    ]
    parts.append("\n".join(["| Status | Body | Meaning |", "|---|---|---|", *statuses]))
    return "\n\n".join(parts)


def _schema(part: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a request's or response's body; empty for other content types."""
    return part.get("content", {}).get("application/json", {}).get("schema", {})


def _object(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", []))
    rows = [
        f"| `{field}` | {_type(one)} | {'yes' if field in required else 'no'} | {one.get('description', '')} |"
        for field, one in schema.get("properties", {}).items()
    ]
    parts = [f"### {name}", schema.get("description", "")]
    if rows:
        parts.append("\n".join(["| Field | Type | Required | Meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(filter(None, parts))


def _type(schema: dict[str, Any]) -> str:
    """A JSON schema in words, short enough for a cell of a table."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[key])))
    if "enum" in schema:
        return " or ".join("null" if one is None else f"`{one}`" for one in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "array":
        inner = _type(schema["items"]) if isinstance(schema.get("items"), dict) and schema["items"] else "any value"
        return f"array of {inner}{_range(schema, 'minItems', 'maxItems')}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    if isinstance(kind, list):
        return " or ".join(kind)
    return f"{kind}{_range(schema, 'minimum', 'maximum')}{_range(schema, 'minLength', 'maxLength')}"


def _range(schema: dict[str, Any], least: str, most: str) -> str:
    """The limits of a value, if the schema states any."""
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return ""
    unit = {"maxItems": " items", "maxLength": " characters"}.get(most, "")
    if low is None:
        return f" (at most {high:,}{unit})"
    return f" (at least {low:,}{unit})" if high is None else f" ({low:,} to {high:,}{unit})"
