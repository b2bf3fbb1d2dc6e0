"""The files of the page, read once and served from memory by exact name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".png": "image/png",
}


@dataclass(frozen=True)
class StaticFile:
    """A file of the page: its bytes, content type and entity tag."""

    content: bytes
    content_type: str
    tag: str


def read_static_files() -> dict[str, StaticFile]:
    """Every file of the page by its name."""
    files = {}
    for entry in resources.files("setwise.service").joinpath("static").iterdir():
        content_type = _TYPES.get("." + entry.name.rpartition(".")[2])
        if content_type is not None:
            content = entry.read_bytes()
            files[entry.name] = StaticFile(content, content_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return files
