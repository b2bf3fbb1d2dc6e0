"""Access: keyboard alone, names, contrast, phone, reduced motion."""

from __future__ import annotations

import pytest
from page_checks import assert_accessible, assert_fits, focused, violations
from page_use import DESKTOP, PHONE, asking, settled, suggestions

pytestmark = pytest.mark.nightly


def test_by_keyboard_alone(open_page, address) -> None:
    page = open_page(address)
    press = page.keyboard.press
    press("Tab")
    assert focused(page) == {"what": "search", "visible": True}
    for words in ("velvet", "harbour", "quiet"):
        page.keyboard.type(words)
        page.wait_for_function(
            "words => document.querySelector('[role=option]')?.textContent.toLowerCase().includes(words)", arg=words
        )
        press("ArrowDown")
        assert page.locator("#search").get_attribute("aria-activedescendant") == "suggestion-0"
        press("Enter")
        settled(page)
    assert page.locator("#chips li").count() == 3
    press("Tab")
    assert focused(page)["what"].startswith("Remove ")
    press("Enter")
    settled(page)
    assert page.locator("#chips li").count() == 2
    assert focused(page)["what"].startswith("Remove ")  # the focus went to its neighbour
    seen = travelled(page, until="at-most")
    assert seen[-4:] == ["clear", "SUMMARY", "k", "at-most"]  # the summary of the filters
    press("Shift+Tab")
    press("Home")
    press("ArrowRight")
    settled(page)
    assert page.locator("#k-text").inner_text() == "2 songs"
    assert travelled(page, until="head")[0] == "at-most"
    press("Tab")
    assert focused(page)["what"].startswith("1. ")
    press("ArrowRight")
    assert focused(page)["what"].startswith("2. ")
    press("Enter")
    assert page.locator("#graph .node").nth(1).get_attribute("aria-pressed") == "true"
    press("Tab")
    press("Enter")  # opens the table
    assert page.locator("#matrix").is_visible()


def travelled(page, until: str) -> list[str]:
    """Press Tab until something has the focus, which can be seen all the way; what was passed."""
    passed: list[str] = []
    while until not in passed:
        page.keyboard.press("Tab")
        here = focused(page)
        assert here is not None, f"the focus was lost after {passed}"
        assert here["visible"], here
        passed.append(here["what"])
        assert len(passed) < 60
    return passed


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_accessible_in_light_and_dark(open_page, address, scheme: str, size: dict) -> None:
    options = {"color_scheme": scheme, "reduced_motion": "reduce", "viewport": size}
    page = open_page(address, **options)
    page.locator("#sample-list button").first.wait_for()
    assert_accessible(page)  # the first view
    page = open_page(address, asking(history=["song-1", "song-2", "song-7"]), **options)
    assert_accessible(page)
    for closed in page.locator("details:not([open]) > summary").all()[::-1]:
        closed.click()
    page.locator("#graph .node").nth(2).focus()
    assert_accessible(page)  # filters, table and help are open
    page.locator("#search").click()
    suggestions(page).first.wait_for()
    page.locator("#search").press("ArrowDown")
    assert_accessible(page)


def test_the_check_of_accessibility_finds_violations(open_page, address) -> None:
    page = open_page(address, asking(k=2))
    assert violations(page) == []
    page.evaluate("() => document.querySelector('#copy').replaceChildren()")
    page.evaluate("() => document.querySelector('.motto').style.setProperty('color', '#e0e4e6')")
    rules = {words.split(":")[0] for words in violations(page)}
    assert rules == {"button-name", "color-contrast"}


def test_on_a_phone(open_page, address) -> None:
    page = open_page(address, asking(history=["song-3", "song-4", "song-5"], k=20), viewport=PHONE)
    page.get_by_text("The same as a table").click()
    assert_fits(page)
    assert page.locator("#graph .title").count() == 0  # numbers alone: titles would not fit
    page.set_viewport_size(DESKTOP)
    page.locator("#graph .title").first.wait_for()
    assert_fits(page)


def test_stillness_where_it_is_wanted(open_page, address) -> None:
    page = open_page(address, reduced_motion="reduce")
    moving = "() => [...document.querySelectorAll('*')].filter((e) => parseFloat(getComputedStyle(e).transitionDuration) > 0 || getComputedStyle(e).animationName !== 'none').length"
    assert page.evaluate(moving) == 0
