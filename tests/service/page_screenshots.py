"""Screenshots for docs/how-to/page.md, of the real page: python tests/service/page_screenshots.py

The restaurant is that of `setwise demo`; the songs are simulated, and their covers are drawn here.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from page_browser import browser
from page_service import SLACK, served, with_covers
from page_use import asking
from services import here

import processes

DOCS = Path(__file__).parents[2] / "docs" / "images"
DESKTOP, PHONE = {"width": 1180, "height": 860}, {"width": 360, "height": 780}
BUDGET_MS = 1000
DISHES = asking(history=["dish-4", "dish-11", "dish-29"], k=7)
SONGS = asking(history=["song-1", "song-2", "song-40"], k=7)
FILTERED = SONGS + "&" + asking(where={"year": {"from": 1980}})[1:]
PICTURES = {  # catalogue and query, window, colour scheme, and what is pictured: the whole window or one card
    "page-light.png": ("restaurant", DISHES, DESKTOP, "light", "window"),
    "page-graph.png": ("restaurant", DISHES, DESKTOP, "light", "#attention"),
    "page-methods.png": ("restaurant", DISHES, DESKTOP, "light", "#rivals"),
    "page-songs.png": ("songs", FILTERED, DESKTOP, "light", "window"),
    "page-phone.png": ("songs", SONGS, PHONE, "dark", "window"),
}


@contextmanager
def restaurant(folder: Path) -> Iterator[str]:
    """The address of the page of the demo."""
    processes.run([sys.executable, "-m", "setwise", "demo", "--out", folder / "demo"], check=True)
    with here(folder / "demo", budget_ms=BUDGET_MS, **SLACK) as service:
        yield service.url + "/"


def draw_cover(route) -> None:
    """A cover of two shapes, by the number in its address."""
    number = int(re.search(r"\d+", route.request.url.rpartition("/")[2]).group())
    hue, size = 47 * number % 360, 14 + number % 5 * 4
    shapes = f'<rect width="88" height="88" fill="hsl({hue} 45% 42%)"/><circle cx="{20 + number % 7 * 8}" cy="44" r="{size}" fill="hsl({(hue + 40) % 360} 70% 78%)"/>'
    route.fulfill(
        content_type="image/svg+xml",
        body=f'<svg xmlns="http://www.w3.org/2000/svg" width="88" height="88">{shapes}</svg>',
    )


def main() -> None:
    """Take every picture, and say how large it is."""
    with (
        tempfile.TemporaryDirectory() as folder,
        restaurant(Path(folder)) as dishes,
        served(with_covers(2000), Path(folder), ("covers.example",), budget_ms=BUDGET_MS) as songs,
        browser() as opened,
    ):
        urls = {"restaurant": dishes, "songs": songs}
        for name, (catalogue, query, size, scheme, part) in PICTURES.items():
            page = opened.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce").new_page()
            page.route("https://covers.example/**", draw_cover)
            page.goto(urls[catalogue] + query)
            page.wait_for_selector("#answer[data-compared=shown]", timeout=120_000)
            if "where" in query:
                page.locator("#filters summary").click()
            if size is PHONE:
                page.locator("#slate").evaluate("card => card.scrollIntoView()")
            page.wait_for_function("() => [...document.images].every((img) => img.complete)")
            (page if part == "window" else page.locator(part)).screenshot(path=DOCS / name)
            sys.stdout.write(f"{name}: {(DOCS / name).stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main()
