"""Filters on the page: choices and ranges become the request's ``where``, stay in the link, and are undone by Back."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from page_checks import assert_accessible, assert_fits, focused
from page_use import PHONE, answer_pictures, asking, rows_of, settled, titles

import setwise as sw

pytestmark = pytest.mark.nightly


def open_filters(page):
    page.locator("#filters summary").click()
    return page.locator("#filter-fields")


def shown(page, songs: sw.Recommender, name: str) -> list:
    """The attribute of the items of the slate."""
    column = songs.index.catalog.attributes[name]
    return [column[row] for row in rows_of(songs, titles(page))]


def where_of(page) -> dict:
    return json.loads(parse_qs(urlsplit(page.url).fragment).get("where", ["{}"])[0])


def conditions(page) -> list[str]:
    return page.locator("#conditions li span").all_inner_texts()


def test_choices(open_page, address, songs) -> None:
    page = open_page(address, asking(history=["song-1"], k=6))
    before = titles(page)
    genres = sorted(set(songs.index.catalog.attributes["genre"][:]))
    fields = open_filters(page)
    group = fields.get_by_role("group", name="genre")
    assert group.locator("label").all_inner_texts() == genres
    group.get_by_label(genres[0], exact=True).check()
    settled(page)
    assert set(shown(page, songs, "genre")) == {genres[0]}
    group.get_by_label(genres[1], exact=True).check()
    settled(page)
    assert set(shown(page, songs, "genre")) <= {genres[0], genres[1]}
    assert where_of(page) == {"genre": [genres[0], genres[1]]}
    assert conditions(page) == [f"genre: {genres[0]} or {genres[1]}"]
    assert page.locator("#filters summary").inner_text() == "Filters (1)"
    for method in page.locator(".method").all():  # they answer the same query
        names = [words.removesuffix(" (not in the slate)") for words in method.locator("li").all_text_contents()]
        found = {songs.index.catalog.attributes["genre"][row] for row in rows_of(songs, names)}
        assert found <= {genres[0], genres[1]}
    now = titles(page)
    page.reload()
    settled(page)
    assert titles(page) == now
    assert conditions(page) == [f"genre: {genres[0]} or {genres[1]}"]

    page.go_back()
    page.get_by_text(f"genre: {genres[0]}", exact=True).wait_for()
    settled(page)
    assert set(shown(page, songs, "genre")) == {genres[0]}
    assert not open_filters(page).get_by_label(genres[1], exact=True).is_checked()
    page.get_by_label(f"Remove the filter genre: {genres[0]}").click()
    settled(page)
    assert titles(page) == before
    assert where_of(page) == {}
    assert not fields.get_by_label(genres[0], exact=True).is_checked()


def test_a_range(open_page, address, songs) -> None:
    page = open_page(address, asking(history=["song-1"], k=6))
    years = songs.index.catalog.attributes["year"]
    fields = open_filters(page)
    low, high = fields.get_by_label("year from"), fields.get_by_label("year to")
    assert [low.get_attribute("placeholder"), high.get_attribute("placeholder")] == [str(min(years)), str(max(years))]
    low.fill("1990")
    low.press("Tab")
    settled(page)
    assert focused(page)["visible"]
    assert min(shown(page, songs, "year")) >= 1990
    high.fill("1999")
    high.press("Enter")
    settled(page)
    assert all(1990 <= year <= 1999 for year in shown(page, songs, "year"))
    assert conditions(page) == ["year: from 1990 to 1999"]
    assert where_of(page) == {"year": {"from": 1990, "to": 1999}}
    page.go_back()
    page.get_by_text("year: from 1990", exact=True).wait_for()
    settled(page)
    assert high.input_value() == ""
    low.fill("")
    low.press("Enter")
    settled(page)
    assert conditions(page) == []
    assert where_of(page) == {}


def test_a_filter_that_nothing_meets(open_page, address) -> None:
    page = open_page(
        address, asking(where={"year": {"from": 3000}}), expected="the server responded with a status of 4"
    )
    answer = page.request.post(address + "v1/recommend", data={"history": [], "where": {"year": {"from": 3000}}})
    assert answer.status == 422
    assert page.get_by_role("alert").locator("p").inner_text() == answer.json()["error"]["message"]
    page.get_by_label("Remove the filter year: from 3000").click()
    settled(page)
    assert len(titles(page)) == 10


def test_filters_in_a_link_that_the_catalogue_does_not_have(open_page, address, songs) -> None:
    genre = songs.index.catalog.attributes["genre"][0]
    wanted = {"genre": [genre, "no such genre", 7], "colour": "red", "year": "many", "__proto__": [1], "artist": "None"}
    page = open_page(address, asking(history=["song-1"], k=3, where=wanted | {"artist": 5}))
    assert conditions(page) == [f"genre: {genre}"]
    note = "ignored: genre no such genre, genre 7, colour, year, __proto__, artist 5."
    assert note in page.locator("#status").inner_text()
    assert set(shown(page, songs, "genre")) == {genre}
    page.evaluate("location.hash = 'where=[1]&k=2'")  # not an object of conditions
    page.wait_for_selector("#conditions:empty", state="attached")
    settled(page)
    assert len(titles(page)) == 2


def test_an_attribute_with_many_values_is_filtered_by_a_link(open_page, address, songs) -> None:
    artist = songs.index.catalog.attributes["artist"][5]
    page = open_page(address, asking(k=3, where={"artist": artist}))
    assert set(shown(page, songs, "artist")) == {artist}
    assert conditions(page) == [f"artist: {artist}"]


def test_yes_and_no(open_page, odd_address) -> None:
    page = open_page(odd_address, asking(k=5), before=answer_pictures)
    live = open_filters(page).get_by_role("group", name="live")
    live.get_by_label("no").check()
    settled(page)
    assert where_of(page) == {"live": [False]}
    items = page.request.post(
        odd_address + "v1/recommend", data={"history": [], "k": 5, "where": {"live": [False]}}
    ).json()["items"]
    assert [item["attributes"]["live"] for item in items] == [False] * 5
    assert page.locator("#filter-fields legend").all_inner_texts() == ["artist", "genre", "year", "Price", "live"]


def test_filters_are_accessible_and_fit(open_page, address) -> None:
    for scheme in ("light", "dark"):
        page = open_page(address, asking(history=["song-1"], k=4), color_scheme=scheme, reduced_motion="reduce")
        page.locator("#filters summary").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")  # the first choice
        settled(page)
        assert page.locator("#conditions li").count() == 1
        assert focused(page)["visible"]
        assert_accessible(page)
        page.set_viewport_size(PHONE)
        assert_fits(page)
        assert_accessible(page)
