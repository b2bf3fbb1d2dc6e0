"""A griffe extension: aligned lists in docstrings become Markdown lists.

Docstrings of setwise describe fields and arguments in two columns, `name  description`. Markdown would join such rows
to one paragraph.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROW = re.compile(r"(?P<name>[\w`][\w`.,*=/ -]*?) {2,}(?P<text>\S.*)")


class DocstringLists(griffe.Extension):
    """Rewrites the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe once for each object."""
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text: str) -> str:
    """The text with `name  description` rows as list items; indented lines after a row continue it."""
    lines: list[str] = []
    in_list = False
    for line in text.splitlines():
        row = ROW.fullmatch(line)
        if row:
            if not in_list and lines and lines[-1]:
                lines.append("")
            lines.append(f"* `{row['name'].strip('`')}`: {row['text']}")
        elif in_list and re.match(r"\s{5,}\S", line):
            lines[-1] += f" {line.strip()}"
            continue
        elif in_list and line:
            lines += ["", line]
        elif line != "::":  # in reStructuredText, an indented block of code follows
            lines.append(line)
        in_list = bool(row)
    return "\n".join(lines)
