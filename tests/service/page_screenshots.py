"""Screenshots for docs/how-to/page.md, of the real page: python tests/service/page_screenshots.py"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from page_browser import browser
from page_service import served
from services import world_recommender

DOCS = Path(__file__).parents[2] / "docs" / "images"
ASKED = "#history=%5B%22song-1%22%2C%22song-2%22%2C%22song-40%22%5D&k=7"
DESKTOP, PHONE = {"width": 1180, "height": 860}, {"width": 360, "height": 780}
PICTURES = {  # window, colour scheme, and what is pictured: the whole window or one card
    "page-light.png": (DESKTOP, "light", "window"),
    "page-graph.png": (DESKTOP, "light", "#attention"),
    "page-methods.png": (DESKTOP, "light", "#rivals"),
    "page-phone.png": (PHONE, "dark", "window"),
}


def main() -> None:
    """Take every picture, and say how large it is."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served(world_recommender(2000, cells=16), Path(folder)) as url,
        browser() as opened,
    ):
        for name, (size, scheme, part) in PICTURES.items():
            page = opened.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce").new_page()
            page.goto(url + ASKED)
            page.wait_for_selector("#answer[data-compared=shown]")
            if size is PHONE:
                page.locator("#slate").evaluate("card => card.scrollIntoView()")
            (page if part == "window" else page.locator(part)).screenshot(path=DOCS / name)
            sys.stdout.write(f"{name}: {(DOCS / name).stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main()
