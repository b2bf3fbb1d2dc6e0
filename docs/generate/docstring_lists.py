"""A griffe extension: aligned lists in docstrings become Markdown lists, and functions name all their arguments.

Docstrings of setwise describe fields and arguments in two columns, `name  description`. Markdown would join such rows
to one paragraph. Functions whose keyword arguments come from a list (`recommend`, `read`) have them in `__signature__`,
which the sources do not show.
"""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import Any

import griffe

NAMING = ("setwise.recommend.recommender", "setwise.datasets.dispatch")  # modules with such functions
VAR_KEYWORD, KEYWORD_ONLY = griffe.ParameterKind.var_keyword, griffe.ParameterKind.keyword_only
ROW = re.compile(r"(?P<name>[\w`][\w`.,*=/ -]*?) {2,}(?P<text>\S.*)")


class DocstringLists(griffe.Extension):
    """Rewrites the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe once for each object."""
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)
        if isinstance(obj, griffe.Function) and obj.module.path in NAMING:
            name_arguments(obj)


def name_arguments(function: griffe.Function) -> None:
    """In place of `**arguments`, the keyword arguments that the signature has when setwise is imported."""
    imported = pydoc.locate(function.path)
    if not hasattr(imported, "__signature__"):
        return
    kept = [part for part in function.parameters if part.kind is not VAR_KEYWORD]
    known = {part.name for part in kept}
    added = [
        griffe.Parameter(name, annotation=str(part.annotation), kind=KEYWORD_ONLY, default=repr(part.default))
        for name, part in inspect.signature(imported).parameters.items()
        if name not in known
    ]
    function.parameters = griffe.Parameters(*kept, *added)


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
