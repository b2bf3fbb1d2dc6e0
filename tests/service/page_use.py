"""The page as a person uses it: wait for an answer, add to the history, read what is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import quote

import setwise as sw

PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 900}
BACKGROUND = {
    "asked": 700,
    "given": 100,
}  # milliseconds that the page asks for a bound in the background, and here gets
PATIENCE = 120_000  # milliseconds to wait for anything: other tests may keep the machine busy


class Pages:
    """Opens pages whose every console message must be expected: none, unless ``expected`` says so."""

    def __init__(self, chromium) -> None:
        self._chromium = chromium
        self._contexts: list = []
        self.complaints: list[str] = []

    def __call__(
        self,
        url: str,
        fragment: str = "",
        expected: str = "",
        waits: bool = True,
        before: Callable | None = None,
        whole: bool = False,
        **options,
    ):
        """The page at ``url``; ``before`` is called with it while it is still blank.

        Searches in the background are cut short, unless the page is asked for as a ``whole``: a test sees many.
        """
        context = self._chromium.new_context(**{"viewport": DESKTOP, **options})
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self._complain(f"{message.type}: {message.text}", expected))
        page.on("pageerror", lambda error: self._complain(str(error), expected))
        if not whole:
            page.route("**/v1/recommend", shortened)
        if before is not None:
            before(page)
        page.goto(url + fragment)
        if waits:
            settled(page)
        return page

    def _complain(self, words: str, expected: str) -> None:
        if not (expected and expected in words):
            self.complaints.append(words)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


def shortened(route) -> None:
    """Send a request on, with less time if it is one for the background."""
    body = route.request.post_data_json
    if body.get("budget_ms") == BACKGROUND["asked"]:
        route.continue_(post_data=json.dumps(body | {"budget_ms": BACKGROUND["given"]}))
    else:
        route.fallback()


def slate_shown(page) -> None:
    """Wait until the page shows the slate of what was asked last."""
    page.wait_for_selector("#answer[aria-busy=false]")


def settled(page) -> None:
    """Wait until the page also shows the last upper bound and the comparison with other methods, or why there is none."""
    page.wait_for_selector("#answer[aria-busy=false][data-bound=final]:not([data-compared=pending])")


def held(page, pattern: str) -> list:
    """The requests to these addresses from now on, which wait until ``continue_()`` is called on them."""
    routes: list = []
    page.route(pattern, lambda route: routes.append(route))
    return routes


def asking(**state) -> str:
    return "#" + "&".join(f"{name}={quote(json.dumps(value))}" for name, value in state.items())


SQUARE = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>'


def answer_pictures(page, broken: str = "") -> list[str]:
    """Answer the requests for pictures of other hosts, with 404 where the address contains ``broken``; their addresses."""
    asked: list[str] = []

    def answer(route) -> None:
        asked.append(route.request.url)
        missing = bool(broken) and broken in asked[-1]
        route.fulfill(status=404 if missing else 200, content_type="image/svg+xml", body="" if missing else SQUARE)

    page.route(re.compile("^https?://[a-z]"), answer)  # the service has a number for a name
    return asked


def suggestions(page):
    return page.locator("#suggestions [role=option]")


def add(page, words: str, place: int = 0) -> str:
    """Type words, choose a suggestion by mouse, and return its title."""
    page.locator("#search").press_sequentially(words)
    option = suggestions(page).nth(place)
    option.wait_for()
    page.wait_for_function(
        "words => [...document.querySelectorAll('[role=option]')].every((o) => o.textContent.toLowerCase().includes(words))",
        arg=words.lower(),
    )
    title = option.locator(".name").inner_text()
    option.click()
    settled(page)
    return title


def titles(page) -> list[str]:
    return page.locator("#items .name").all_inner_texts()


def worth(page) -> float:
    return float(page.locator("#certificate .worth strong").inner_text())


def rows_of(songs: sw.Recommender, names: list[str]) -> list[int]:
    known = list(songs.index.catalog.attributes["title"][:])
    return [known.index(name) for name in names]
