"""Figures of the documentation: every text lies inside of its figure, as a browser draws it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_browser import browser

DOCS = Path(__file__).parents[1] / "docs"
DRAWINGS = sorted(DOCS.glob("images/*.svg"))
CHARTS = sorted(DOCS.glob("evidence/figures/*.png"))

TEXTS_OUTSIDE = """() => {
    const figure = document.querySelector("svg").getBoundingClientRect();
    const inside = (text, box) =>
        text.left >= box.left && text.right <= box.right && text.top >= box.top && text.bottom <= box.bottom;
    const panels = [...document.querySelectorAll("svg rect")].map((rect) => rect.getBoundingClientRect());
    const starts = (text, box) => text.left > box.left && text.left < box.right &&
        (text.top + text.bottom) / 2 > box.top && (text.top + text.bottom) / 2 < box.bottom;
    return [...document.querySelectorAll("svg text")].filter((node) => {
        const text = node.getBoundingClientRect();
        return !inside(text, figure) || panels.some((panel) => starts(text, panel) && !inside(text, panel));
    }).map((node) => node.textContent);
}"""

INK_AT_THE_EDGE = """async (address) => {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { width, height } = image, pixels = context.getImageData(0, 0, width, height).data;
    const colour = (x, y) => pixels.slice(4 * (y * width + x), 4 * (y * width + x) + 4).join();
    const edge = [];
    for (let x = 0; x < width; x++) edge.push(colour(x, 0), colour(x, height - 1));
    for (let y = 0; y < height; y++) edge.push(colour(0, y), colour(width - 1, y));
    return new Set(edge).size > 1;
}"""


@pytest.fixture(scope="module")
def page() -> Iterator:
    with browser() as opened:
        yield opened.new_page(viewport={"width": 1000, "height": 800})


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.name)
def test_texts_of_drawings_are_inside_of_their_figure_and_panel(page, path: Path) -> None:
    page.set_content(f"<body style='margin: 0'>{path.read_text(encoding='utf-8')}</body>")
    assert page.evaluate("document.querySelectorAll('svg text').length") == len(re.findall("<text", path.read_text()))
    assert page.evaluate(TEXTS_OUTSIDE) == []


@pytest.mark.parametrize("path", CHARTS, ids=lambda path: path.name)
def test_charts_are_not_cut(page, path: Path) -> None:
    """The outermost pixels have one colour: what a chart draws ends before them."""
    address = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    assert not page.evaluate(INK_AT_THE_EDGE, address)
