"""The graph of contributions, and its table."""

from __future__ import annotations

import numpy as np
import pytest
from page_use import asking, rows_of, settled, titles

import setwise as sw
from setwise.model import objective

pytestmark = pytest.mark.nightly


def test_the_graph_is_hidden_where_there_is_nothing_to_show(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=1))
    assert page.locator("#summary").inner_text() == "No item contributes to another item."
    for part in ("#graph", "#graph-legend", "#as-table", "#head"):
        assert not page.locator(part).is_visible()
    page.get_by_label("Length of the slate").fill("2")
    settled(page)
    for part in ("#graph svg", "#graph-legend", "#as-table", "#head"):
        assert page.locator(part).is_visible()


def test_a_large_graph_shows_the_strongest_ties(open_page, address) -> None:
    page = open_page(address, asking(history=["song-1"], k=20))
    nodes, arrows = page.locator("#graph .node"), page.locator("#graph .arrows path")
    assert nodes.count() == len(titles(page)) == 20
    assert 1 <= arrows.count() <= 30
    page.get_by_text("The same as a table").click()
    assert page.locator("#matrix tbody td").count() == 400  # with every number


def test_the_graph_shows_contributions(open_page, address, songs) -> None:
    page = open_page(address, asking(history=["song-1", "song-2"], k=6))
    names = titles(page)
    nodes = page.locator("#graph .node")
    assert nodes.count() == len(names)
    assert page.locator("#graph .arrows path").count() > 0
    nodes.nth(1).click()
    assert nodes.nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator("#summary").inner_text().startswith(f"{names[1]} receives ")
    page.get_by_text("The same as a table").click()
    heads = page.locator("#matrix tbody th").all_inner_texts()
    assert heads == [f"{place}. {name}" for place, name in enumerate(names, 1)]

    catalog, rows = songs.index.catalog, rows_of(songs, names)
    weights = sw.attention(catalog, rows)
    user = songs.recommend(history=["song-1", "song-2"], k=1, certify=False).user
    lent = (weights * objective.scores(catalog, user, np.array(rows), None)[0][:, None, :]).sum(axis=0)
    assert first_row(page) == pytest.approx(lent[0].tolist(), abs=6e-3)
    strongest = max(abs(lent[i, j]) for i in range(len(rows)) for j in range(len(rows)) if i != j)
    assert widest(page) == {"width": 5.0, "kind": "positive" if strongest in lent else "negative"}

    page.get_by_label("Show").select_option(label="Attention of head 2")
    shares = weights[1, 0].tolist()
    assert first_row(page) == pytest.approx([*shares, 1 - sum(shares)], abs=6e-3)  # the rest is the sink's
    assert page.locator("#graph .arrows .negative").count() == 0  # attention is not negative


def first_row(page) -> list[float]:
    cells = page.locator("#matrix tbody tr").first.locator("td").all_inner_texts()
    return [float(cell.replace("−", "-")) for cell in cells]


def widest(page) -> dict:
    return page.locator("#graph .arrows path").last.evaluate(
        "arrow => ({ width: Number(arrow.getAttribute('stroke-width')), kind: arrow.classList[0] })"
    )
