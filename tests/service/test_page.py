"""One visit of the page, with its slate against the reference objective."""

from __future__ import annotations

import re

import pytest
from page_use import add, rows_of, settled, titles, worth

import setwise as sw


def reference_value(songs: sw.Recommender, history: list[str], shown: list[str]) -> float:
    """The reference value of a slate for a history, both given by titles."""
    catalog = songs.index.catalog
    user = songs.recommend(history=catalog.ids[rows_of(songs, history)].tolist(), k=1, certify=False).user
    return sw.set_value(catalog, user, rows_of(songs, shown))


def test_from_a_title_to_a_certificate(open_page, address, songs) -> None:
    page = open_page(address)
    assert page.locator("#empty").inner_text().startswith("Add a song to begin.")
    assert len(titles(page)) == 10  # a user without a history gets a slate at once
    history = [add(page, "velvet"), add(page, "harbour"), add(page, "quiet", place=1)]
    assert page.locator("#chips li span").all_inner_texts() == history
    assert not set(history) & set(titles(page))
    assert worth(page) == pytest.approx(reference_value(songs, history, titles(page)), abs=6e-4)

    page.get_by_label("Length of the slate").fill("5")
    settled(page)
    assert page.locator("#k-text").inner_text() == "5 songs"
    assert 1 <= len(titles(page)) <= 5
    assert worth(page) == pytest.approx(reference_value(songs, history, titles(page)), abs=6e-4)

    methods = {one.get_attribute("data-ranker"): one for one in page.locator(".method").all()}
    assert list(methods) == ["top-k", "knn", "mmr", "dpp", "greedy", "beam", "swap"]
    for one in methods.values():
        shown = [words.removesuffix(" (not in the slate)") for words in one.locator("li").all_text_contents()]
        stated = float(one.locator(".worth strong").inner_text())
        assert stated == pytest.approx(reference_value(songs, history, shown), abs=6e-4)
        assert stated <= worth(page) + 1e-3
        assert re.fullmatch(r"[\d.]+ m?s", one.locator(".time").inner_text())

    meter = page.get_by_role("meter")
    value, bound = (float(meter.get_attribute(f"aria-value{end}")) for end in ("now", "max"))
    assert value == pytest.approx(worth(page), abs=6e-4)
    assert bound >= value
    verdict = page.locator(".verdict").inner_text()
    if bound > value + 1e-9:
        assert f"{bound:.3f}" in verdict
        assert f"{100 * value / bound:.0f} %" in verdict
    else:
        assert verdict.startswith("Proven optimal:")
