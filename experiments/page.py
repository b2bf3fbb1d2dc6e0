"""The parts of a report: sections of paragraphs, tables and charts, written as Markdown and as one HTML page.

The page needs no network: it contains the script that draws the charts. Text may use four elements of Markdown:
`code`, **bold**, *emphasis* and links, which become plain text on the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
import vl_convert

VEGA_LITE = "6.4"
PNG_SCALE = 1.0

TEMPLATE = Path(__file__).with_name("page.html")


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification; ``name`` is that of its PNG."""

    name: str
    caption: str
    spec: dict[str, Any]

    def png(self) -> bytes:
        """The chart as a PNG image, drawn without a browser."""
        return bytes(vl_convert.vegalite_to_png(self.spec, vl_version=VEGA_LITE, scale=PNG_SCALE))


Block = str | Grid | Chart


@dataclass
class Section:
    """A title, its sources, its content, and its most important figures."""

    name: str
    title: str
    about: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    headlines: list[tuple[str, str, str]] = field(default_factory=list)  # what, the paper's, ours

    @property
    def charts(self) -> list[Chart]:
        """Its charts."""
        return [block for block in self.blocks if isinstance(block, Chart)]


def number(value: float, digits: int = 2, sign: str = "") -> str:
    """The value with this many digits, without a minus before zero; ``sign`` is "+" for a gain."""
    rounded = round(float(value), digits) + 0.0
    return f"{rounded:{sign if rounded else ''}.{digits}f}"


def percent(value: float) -> str:
    """A gain or loss."""
    return number(value, 2, "+") + " %"


# --- Markdown ---


def markdown(title: str, opening: Sequence[str], sections: Sequence[Section]) -> str:
    """All sections as one text."""
    parts = [f"# {title}", *opening]
    for section in sections:
        parts += [f"## {section.title}", *("\n".join(f"* {line}" for line in each) for each in _lists(section) if each)]
        parts += [_as_markdown(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _lists(section: Section) -> tuple[list[str], list[str]]:
    return section.about, [f"**{line}**" for line in section.missing]


def _as_markdown(block: Block) -> str:
    if isinstance(block, Chart):
        return f"![{block.caption}](figures/{block.name}.png)"
    return block if isinstance(block, str) else table(block)


def table(grid: Grid) -> str:
    """A table as Markdown."""
    lines = [grid.headings, ["---"] * len(grid.headings), *grid.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# --- HTML ---


def page(title: str, opening: Sequence[str], sections: Sequence[Section]) -> str:
    """All sections as one page without external resources."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["inline"] = _inline_markdown
    specs = {chart.name: chart.spec for section in sections for chart in section.charts}
    # A browser ends a script at the first "</", even inside a string.
    scripts = {
        "specs": markupsafe.Markup(json.dumps(specs, allow_nan=False).replace("</", "<\\/")),
        "bundle": markupsafe.Markup(
            vl_convert.javascript_bundle(vl_version=VEGA_LITE).replace("</script", "<\\/script")
        ),
    }
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(title=title, opening=opening, sections=sections, kind_of=_kind_of, **scripts)


def _kind_of(block: Block) -> str:
    """The name by which the template chooses how to write a block."""
    return "chart" if isinstance(block, Chart) else "text" if isinstance(block, str) else "table"


def _inline_markdown(text: str) -> markupsafe.Markup:
    """Code, bold, emphasis and link texts as HTML; everything else is escaped."""
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text)))
    escaped = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)
    escaped = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escaped)
    return markupsafe.Markup(re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", escaped))
