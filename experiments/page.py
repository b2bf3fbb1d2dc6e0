"""The parts of a report: sections of paragraphs, tables and charts, written as Markdown and as one HTML page.

The page needs no network: it contains the script that draws the charts. Text may use four elements of Markdown:
`code`, **bold**, *emphasis* and links, which become plain text on the page.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import vl_convert

VEGA_LITE = "6.4"
PNG_SCALE = 1.0

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; }
body { max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
.about { color: #555; font-size: .85rem; } code { font-size: .85em; background: #f4f4f4; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; margin: .8rem 0; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #e4e4e4; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid #888; white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; } figcaption { color: #555; font-size: .85rem; } .missing { color: #a00; }
nav a { display: inline-block; margin-right: .8rem; }
"""


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
    links = "".join(f'<a href="#{each.name}">{html.escape(each.title)}</a> ' for each in sections)
    body = "".join(f"<p>{_marked(text)}</p>" for text in opening) + f"<nav>{links}</nav>"
    body += "".join(_section(section) for section in sections)
    specs = {chart.name: chart.spec for section in sections for chart in section.charts}
    # A browser ends a script at the first "</", even inside a string.
    inlined = json.dumps(specs, allow_nan=False).replace("</", "<\\/")
    bundle = vl_convert.javascript_bundle(vl_version=VEGA_LITE).replace("</script", "<\\/script")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><style>{STYLE}</style></head>
<body><h1>{html.escape(title)}</h1>{body}
<script>{bundle}</script>
<script>for (const [name, spec] of Object.entries({inlined}))
  vegaEmbed("#chart-" + name, spec, {{actions: false, renderer: "svg"}});</script></body></html>
"""


def _section(section: Section) -> str:
    about = "".join(f"<li>{_marked(line)}</li>" for line in section.about)
    missing = "".join(f'<p class="missing">{_marked(line)}</p>' for line in section.missing)
    blocks = "".join(_as_html(block) for block in section.blocks)
    title = f'<h2 id="{section.name}">{html.escape(section.title)}</h2>'
    return f'<section>{title}<ul class="about">{about}</ul>{missing}{blocks}</section>'


def _as_html(block: Block) -> str:
    if isinstance(block, Chart):
        caption = f"<figcaption>{_marked(block.caption)}</figcaption>"
        return f'<figure><div class="wide"><div id="chart-{block.name}"></div></div>{caption}</figure>'
    if isinstance(block, str):
        return f"<p>{_marked(block)}</p>"
    head = "".join(f"<th>{_marked(one)}</th>" for one in block.headings)
    rows = "".join("<tr>" + "".join(f"<td>{_marked(one)}</td>" for one in row) + "</tr>" for row in block.rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _marked(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", text)
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
