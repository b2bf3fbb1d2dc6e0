"""Fills the generated parts of the documentation while mkdocs builds it.

A page asks for a part by a line `<!-- generated: NAME -->`. Parts are computed from the code, so they cannot differ
from it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")]

from cli_reference import cli_reference
from http_reference import http_reference, settings_reference

PARTS: dict[str, Callable[[], str]] = {"cli": cli_reference, "http": http_reference, "settings": settings_reference}
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its generated parts filled in; mkdocs calls this for every page."""
    return MARK.sub(lambda found: PARTS[found[1]](), markdown)
