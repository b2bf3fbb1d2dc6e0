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
    folder = resources.files("setwise.service").joinpath("static")
    known = {entry.name: _TYPES.get("." + entry.name.rpartition(".")[2]) for entry in folder.iterdir()}
    return {name: _read(folder.joinpath(name).read_bytes(), kind) for name, kind in known.items() if kind is not None}


def _read(content: bytes, kind: str) -> File:
    return File(content, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
