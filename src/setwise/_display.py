"""How results and models are shown: tables in notebooks, and short texts in place of whole arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with its caption; fractions are rounded, and every text is escaped."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(_shown(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def short_repr(model: Any) -> str:
    """The fields of a dataclass, arrays by their shapes alone: its ``__repr__``."""
    parts = {field.name: getattr(model, field.name) for field in fields(model) if field.repr}
    texts = (f"{name}={getattr(part, 'shape', None) or repr(part)}" for name, part in parts.items())
    return f"{type(model).__name__}({', '.join(texts)})"


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
