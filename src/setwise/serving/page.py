"""The files of the page, held in memory: served by exact name, and nothing else of the disk is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources

_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


@dataclass(frozen=True)
class File:
    """A file of the page."""

    content: bytes
    type: str
    tag: str


def files() -> dict[str, File]:
    """Every file of the page by its name."""
    found: dict[str, File] = {}
    for entry in resources.files("setwise.serving").joinpath("page").iterdir():
        kind = _TYPES.get("." + entry.name.rpartition(".")[2])
        if kind is not None:
            content = entry.read_bytes()
            found[entry.name] = File(content, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found
