"""What goes wrong: errors of the service, its key, other hosts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_checks import assert_accessible
from page_use import asking, settled, titles

import setwise as sw

pytestmark = pytest.mark.nightly

PAGE = Path(sw.__file__).parent / "service" / "static"
KEY = "a-key-of-sixteen-letters"


def test_the_services_sentence_is_shown_as_it_is(open_page, address, songs) -> None:
    artists = list(songs.index.catalog.attributes["artist"][:])
    same = [f"song-{row}" for row, artist in enumerate(artists) if artist == artists[8]][:2]
    page = open_page(
        address, asking(history=["song-1"], include=same, at_most=1), expected="the server responded with a status of 4"
    )
    answer = page.request.post(
        address + "v1/recommend", data={"history": ["song-1"], "include": same, "at_most": {"artist": 1}}
    )
    assert page.get_by_role("alert").locator("p").inner_text() == answer.json()["error"]["message"]
    assert not page.locator(".card").first.is_visible()
    page.get_by_label("At most per artist").fill("2")
    settled(page)
    page.get_by_role("alert").wait_for(state="hidden")
    assert titles(page)


def test_a_busy_service_is_asked_again(open_page, address) -> None:
    page = open_page(address, expected="503")
    left = [2]

    def busy(route) -> None:
        left[0] -= 1
        if left[0] < 0:
            route.continue_()
        else:
            body = {"error": {"code": "busy", "message": "All is full."}}
            route.fulfill(status=503, headers={"Retry-After": "1"}, json=body)

    page.route("**/v1/recommend", busy)
    page.get_by_label("Length of the slate").fill("3")
    page.get_by_text("The service is busy. Trying again in 1 second.").wait_for()
    settled(page)
    assert left[0] < 0
    assert 1 <= len(titles(page)) <= 3


def test_a_key_is_asked_for_and_kept(open_page, address) -> None:
    page = open_page("about:blank", waits=False, expected="401")

    def guarded(route) -> None:
        if route.request.headers.get("authorization") == f"Bearer {KEY}":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": {"code": "unauthorized", "message": "The API key must be right."}})

    page.route("**/v1/**", guarded)
    page.goto(address)
    dialog = page.get_by_role("dialog", name="The service requires a key")
    dialog.get_by_text("The API key must be right.").wait_for()
    assert_accessible(page)
    page.keyboard.type("ключ")  # no header can hold it
    page.keyboard.press("Enter")
    assert page.evaluate("document.getElementById('key').validity.patternMismatch")
    assert dialog.is_visible()
    page.get_by_label("API key").fill(" wrong ")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('key').value === ''")  # asked again
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    settled(page)
    assert titles(page)
    page.reload()
    settled(page)
    assert not dialog.is_visible()
    page.evaluate("sessionStorage.clear()")
    page.get_by_label("Length of the slate").fill("3")
    dialog.wait_for()
    page.keyboard.press("Escape")
    assert page.get_by_role("alert").locator("p").inner_text() == "The API key must be right."


def test_nothing_comes_from_elsewhere(chromium, address) -> None:
    context = chromium.new_context()
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    settled(page)
    assert all(url.startswith(address) for url in asked)
    assert len(asked) > len(list(PAGE.glob("*.js")))
    context.close()


def test_the_source_makes_no_markup_of_data() -> None:
    for file in PAGE.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", file.read_text()
        ), file.name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", file.read_text()), file.name
        assert file.read_text().startswith("// "), "a file states its subject"
        assert file.read_text().count("\n") <= 400
    html = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|style=|\son\w+=|<script(?! type=\"module\" src=)", html)
