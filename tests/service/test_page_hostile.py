"""Hostile and odd texts on the page: markup, other directions of text, long titles, ids that look like something else."""

from __future__ import annotations

import page_service
import pytest
from page_checks import assert_accessible, assert_fits
from page_use import PHONE, add, answer_pictures, asking, settled, suggestions, titles

import setwise as sw

pytestmark = pytest.mark.nightly

ISOLATED = "\u2068{}\u2069"


def test_hostile_titles_stay_text(open_page, address) -> None:
    page = open_page(address, asking(history=["song-3"], k=12))
    for words in ("onerror", "Brien"):
        add(page, words)
    assert page.locator("#chips li span").all_inner_texts() == list(page_service.HOSTILE.values())
    page.get_by_label(f"Remove {page_service.HOSTILE[4]}").click()
    settled(page)
    assert page.locator("#chips li").count() == 2
    assert page.evaluate("window.hurt") is None
    assert page.locator("#answer img, #answer script, .ask img, .ask script").count() == 0


def test_odd_ids_go_through_the_link_and_back(open_page, odd_address) -> None:
    ids = list(page_service.ODD_IDS.values())
    page = open_page(odd_address, asking(history=ids, k=4), before=answer_pictures)
    assert page.locator("#chips li").count() == len(ids)
    assert "ignored" not in page.locator("#status").inner_text()
    page.reload()
    settled(page)
    assert page.locator("#chips li").count() == len(ids)
    page.locator("#items .remove").first.click()
    settled(page)
    assert page.evaluate("window.hurt") is None
    page.get_by_role("button", name="Clear the history").click()
    settled(page)
    assert page.locator("#chips li").count() == 0


def test_unknown_ids_with_commas_are_ignored_as_others_are(open_page, odd_address) -> None:
    known = page_service.ODD_IDS[6]
    for list_, other in (("include", "exclude"), ("exclude", "include"), ("history", "exclude")):
        page = open_page(odd_address, asking(**{list_: ["Q,99", known], other: ["[1]"]}, k=4), before=answer_pictures)
        settled(page)
        assert (
            "ignored: Q,99, [1]" in page.locator("#status").inner_text()
            or "ignored: [1], Q,99" in page.locator("#status").inner_text()
        )
        assert page.locator("#chips li, #include li, #exclude li").count() == 1
        page.close()


def test_titles_of_any_length_and_direction(open_page, odd_address) -> None:
    ids = list(page_service.ODD_IDS.values())
    page = open_page(odd_address, asking(include=ids, k=8), before=answer_pictures, viewport=PHONE)
    shown = titles(page)
    chips = page.locator("#include li span").all_inner_texts()
    assert set(chips) < set(shown)
    assert chips[0] == page_service.ODD_TITLES[0]
    assert chips[1] == ISOLATED.format(page_service.ODD_TITLES[1])
    assert chips[2] == "elttil a"  # without the marks that turn the line around
    assert [len(chips[3]) <= 120, len(chips[4])] == [True, 120]
    assert chips[5] == "x" * 119 + "…"  # a title of blanks: the id
    assert page.evaluate("window.hurt") is None
    assert_fits(page)
    page.get_by_text("The same as a table").click()
    page.locator("#graph .node").first.click()
    assert_fits(page)
    assert_accessible(page)
    page.locator("#search").fill("w" * 200)
    suggestions(page).first.wait_for()
    assert_fits(page)


def test_a_catalogue_with_one_item_left(open_page, tmp_path) -> None:
    """An index without items cannot be made: the smallest has one."""
    songs = page_service.with_hostile_titles(40)
    songs.index.remove(songs.index.catalog.ids[1:].tolist())
    with page_service.served(sw.Recommender(songs.index, encoder=songs.encoder), tmp_path) as url:
        page = open_page(url, expected="the server responded with a status of 422")
        assert len(titles(page)) == 1
        assert_accessible(page)
        page.locator("#items .remove").click()
        page.get_by_role("alert").wait_for()
