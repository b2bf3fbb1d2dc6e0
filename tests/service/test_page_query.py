"""What is asked: history, samples, items to keep or to leave out; in the address, and undone by Back."""

from __future__ import annotations

import pytest
from page_checks import assert_accessible, focused
from page_use import asking, rows_of, settled, suggestions, titles

pytestmark = pytest.mark.nightly


def test_suggestions_close_and_the_last_song_goes_by_backspace(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1", "song-2"]))
    box = page.locator("#search")
    box.click()
    suggestions(page).first.wait_for()  # the first items, before anything is typed
    assert box.get_attribute("aria-expanded") == "true"
    box.press("ArrowUp")
    assert box.get_attribute("aria-activedescendant") == "suggestion-7"
    box.press("Escape")
    assert box.get_attribute("aria-expanded") == "false"
    box.fill("no such song anywhere")
    page.get_by_text("No match.").wait_for()
    box.press("Escape")
    assert box.input_value() == ""
    box.press("Backspace")
    settled(page)
    assert page.locator("#chips li").count() == 1


def test_any_text_attribute_is_searched_and_shown(open_page, address, songs) -> None:
    page = open_page(address)
    attributes = songs.index.catalog.attributes
    page.get_by_label("Find a song by title, artist or genre").press_sequentially(f"velvet {attributes['genre'][0]}")
    page.wait_for_function(  # what was found for fewer letters is shown before
        "genre => document.querySelector('#search-hint').textContent.endsWith('found')"
        " && [...document.querySelectorAll('#suggestions .byline')].every((one) => one.textContent.includes(genre))",
        arg=attributes["genre"][0],
    )
    for words in suggestions(page).locator(".byline").all_inner_texts():
        artist, genre, year = words.split(" · ")
        assert genre == attributes["genre"][0]
        assert artist in list(attributes["artist"][:])
        assert year.isdigit()


def test_a_sample_to_start_from(open_page, address, songs) -> None:
    page = open_page(address)
    samples = page.locator("#sample-list button")
    samples.first.wait_for()
    assert samples.count() == 3
    assert_accessible(page)
    name, wanted = samples.nth(1).locator("span").all_inner_texts()
    samples.nth(1).press("Enter")
    settled(page)
    chosen = page.locator("#chips li span").all_inner_texts()
    assert ", ".join(chosen) == wanted
    columns = songs.index.catalog.attributes
    assert any(all(columns[key][row] == name for row in rows_of(songs, chosen)) for key in ("artist", "genre"))
    assert not page.locator("#samples").is_visible()
    assert focused(page)["what"] == "search"
    page.go_back()
    samples.first.wait_for()


def test_keep_one_and_leave_one_out(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=5))
    shown = titles(page)
    first, last = shown[0], shown[4]
    page.get_by_label(f"Keep {last} in the slate", exact=True).click()
    settled(page)
    assert page.get_by_label(f"Keep {last} in the slate", exact=True).get_attribute("aria-pressed") == "true"
    page.get_by_label(f"Leave {first} out of the slate", exact=True).click()
    settled(page)
    for _ in range(2):  # and again after a reload, from the address
        assert last in titles(page)
        assert not {first, *page.locator("#chips li span").all_inner_texts()} & set(titles(page))
        assert page.locator("#include li span").all_inner_texts() == [last]
        assert page.locator("#exclude li span").all_inner_texts() == [first]
        assert all(last in words for words in page.locator(".method ol").all_text_contents())
        page.reload()
        settled(page)
    assert_accessible(page)
    page.get_by_label(f"No longer keep {last}").click()
    page.get_by_label(f"Allow again {first}").click()
    settled(page)
    assert not page.locator("#kept, #removed").first.is_visible()
    assert page.locator(".chips li").count() == 1
    assert focused(page)["what"] == "search"


def test_what_is_kept_fits_in_the_slate(open_page, address) -> None:
    page = open_page(address, asking(include=["song-2", "song-9", "song-30"], k=1))
    assert page.locator("#k-text").inner_text() == "3 songs"
    assert len(titles(page)) == 3
    page.locator("#items .add").first.click()  # in the history, so no longer kept
    settled(page)
    assert page.locator("#include li").count() == 2


def test_back_undoes_a_change(open_page, address) -> None:
    page = open_page(address, asking(k=4))
    before = titles(page)
    page.get_by_label("Length of the slate").fill("6")
    settled(page)
    page.locator("#items .remove").first.click()
    settled(page)
    assert page.locator("#exclude li").count() == 1
    page.go_back()
    page.wait_for_selector("#removed", state="hidden")
    settled(page)
    assert page.locator("#k-text").inner_text() == "6 songs"
    page.go_back()
    page.get_by_text("4 songs", exact=True).wait_for()
    settled(page)
    assert titles(page) == before
    page.go_forward()
    page.get_by_text("6 songs", exact=True).wait_for()


def test_the_address_keeps_what_was_asked(open_page, address) -> None:
    page = open_page(address, asking(history=["song-9", "song-1"], k=4, at_most=1))
    assert page.locator("#k-text").inner_text() == "4 songs"
    assert page.locator("#at-most-text").inner_text() == "1"
    page.locator("#items .add").nth(1).press("Enter")
    settled(page)
    assert focused(page)["what"] == f"Add {titles(page)[1]} to the history"  # the focus stays at its place
    chips, shown = page.locator("#chips li span").all_inner_texts(), titles(page)
    assert len(chips) == 3
    page.reload()
    settled(page)
    assert page.locator("#chips li span").all_inner_texts() == chips
    assert titles(page) == shown
    page.evaluate("location.hash = 'history=nonsense&k=1000&at_most=x'")  # unreadable parts are ignored
    page.wait_for_selector("#chips:empty", state="attached")
    settled(page)
    assert page.locator("#k-text").inner_text() == "20 songs"


def test_unknown_ids_in_a_link_are_ignored_with_a_note(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1", "song-none"], include=[7], exclude=["song-lost"]))
    assert titles(page)
    assert page.locator(".chips li").count() == 1
    assert "Not in the catalogue, so ignored: song-none, 7, song-lost." in page.locator("#status").inner_text()
    assert "none" not in page.url
    page.evaluate("location.hash = `history=${JSON.stringify([...Array(15).keys()].map((i) => `lost-${i}`))}`")
    page.get_by_text(
        "ignored: lost-0, lost-1, lost-2, lost-3, lost-4, lost-5, lost-6, lost-7, lost-8, lost-9 and 5 more."
    ).wait_for()
    settled(page)
    page.get_by_label("Length of the slate").fill("3")
    settled(page)
    assert "ignored" not in page.locator("#status").inner_text()


def test_the_link_is_copied(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=3), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("copy the address of this page instead").wait_for()
