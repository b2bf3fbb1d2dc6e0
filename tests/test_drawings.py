"""Figures of the documentation, as a browser draws them: nothing is cut off."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_browser import browser

DOCS = Path(__file__).parents[1] / "docs"

# The texts that end outside of the figure, or of a panel that they begin in.
CUT_TEXTS = """() => {
    const boxes = (query) => [...document.querySelectorAll(query)].map((node) => node.getBoundingClientRect());
    const inside = (text, box) =>
        text.left >= box.left && text.right <= box.right && text.top >= box.top && text.bottom <= box.bottom;
    const begins = (text, box) => text.left > box.left && text.left < box.right &&
        (text.top + text.bottom) / 2 > box.top && (text.top + text.bottom) / 2 < box.bottom;
    const figure = boxes("svg")[0], panels = boxes("svg rect");
    return [...document.querySelectorAll("svg text")].filter((node) => {
        const text = node.getBoundingClientRect();
        return !inside(text, figure) || panels.some((panel) => begins(text, panel) && !inside(text, panel));
    }).map((node) => node.textContent);
}"""

# How many colours the outermost pixels have: one, if what is drawn ends before them.
COLOURS_AT_THE_EDGE = """async (address) => {
    const image = new Image();
    image.src = address;
    await image.decode();
    const { width, height } = image;
    const context = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
    context.drawImage(image, 0, 0);
    const edges = [[0, 0, width, 1], [0, height - 1, width, 1], [0, 0, 1, height], [width - 1, 0, 1, height]];
    return new Set(edges.flatMap((edge) => [...new Uint32Array(context.getImageData(...edge).data.buffer)])).size;
}"""


@pytest.fixture(scope="module")
def page() -> Iterator:
    with browser() as opened:
        yield opened.new_page(viewport={"width": 1000, "height": 800})


def cut_texts(page, drawing: str) -> list[str]:
    page.set_content(f"<body style='margin: 0'>{drawing}</body>")
    return page.evaluate(CUT_TEXTS)


def test_texts_of_drawings_are_whole(page) -> None:
    longer = "a text that is longer than its figure, " * 9
    for path in sorted(DOCS.glob("images/*.svg")):
        drawing = path.read_text(encoding="utf-8")
        assert cut_texts(page, drawing) == [], path.name
        assert cut_texts(page, drawing.replace("</svg>", f'<text y="20">{longer}</text></svg>')) == [longer]


def colours_at_the_edge(page, chart: bytes) -> int:
    return page.evaluate(COLOURS_AT_THE_EDGE, "data:image/png;base64," + base64.b64encode(chart).decode())


def test_charts_are_whole(page) -> None:
    for path in sorted(DOCS.glob("evidence/figures/*.png")):
        assert colours_at_the_edge(page, path.read_bytes()) == 1, path.name
    page.set_content("<body style='margin: 0'>of two colours</body>")
    assert colours_at_the_edge(page, page.screenshot(clip={"x": 0, "y": 0, "width": 40, "height": 9})) > 1
