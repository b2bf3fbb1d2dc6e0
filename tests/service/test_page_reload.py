"""A page that stays open while the service gets another artifact: nothing of two models is shown together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import page_browser
import pytest
from page_service import SLACK
from page_use import asking, held, settled, slate_shown, titles, worth
from services import Here, here, world_recommender

import setwise as sw

pytestmark = pytest.mark.nightly

KEY = "a-key-of-sixteen-letters"
QUERY = asking(history=["song-1", "song-2"], k=10)


def plain_songs(n_items: int) -> sw.Recommender:
    """The songs with rewards close to 0, without attention and artists: the best slate is known at once."""
    known = world_recommender(n_items)
    catalog = known.index.catalog
    others = {name: list(column[:]) for name, column in catalog.attributes.items() if name != "artist"}
    still = sw.Catalog(
        catalog.query,
        catalog.key,
        np.zeros_like(catalog.value),
        reward=sw.Logistic(bias=-4.0),
        base=catalog.base,
        ids=catalog.ids[:],
        attributes=others,
    )
    return sw.Recommender(sw.Index.build(still, cells=8), encoder=known.encoder)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Here]:
    page_browser.required()
    world_recommender(1200).save(tmp_path / "songs")
    with here(tmp_path / "songs", KEY, **SLACK) as one:
        yield one


def opened(open_page, service: Here, query: str = QUERY):
    keep = f"sessionStorage.setItem('setwise-key', '{KEY}')"
    return open_page(f"{service.url}/", query, expected="422", before=lambda page: page.add_init_script(keep))


def reload(service: Here, folder: Path, shown: sw.Recommender | None = None) -> None:
    (shown or plain_songs(1200)).save(folder / "songs")
    assert service.client.post("/admin/reload").status_code == 200


def assert_shows_the_new_model(page, service: Here) -> None:
    info = service.client.get("/v1/info").json()
    page.wait_for_function(
        "version => document.getElementById('about').textContent.includes(version)", arg=info["version"]
    )
    settled(page)
    slate = service.client.post("/v1/recommend", json={"history": ["song-1", "song-2"], "k": 10}).json()
    assert worth(page) == pytest.approx(slate["value"], abs=6e-4)
    assert page.locator(".verdict").inner_text().startswith("Proven optimal: no feasible slate of these 1,200 items")
    stated = float(page.locator(".method[data-ranker=swap] .worth strong").inner_text())
    assert stated == pytest.approx(worth(page), abs=6e-4)
    assert len(titles(page)) == 10


def test_more_time_of_another_model(open_page, service, tmp_path: Path) -> None:
    """A slate of the old model, with the bound of the new one, was shown as proven optimal."""
    page = opened(open_page, service)
    assert page.locator(".verdict").inner_text().startswith("Not proven optimal.")
    reload(service, tmp_path)
    page.get_by_role("button", name="Think longer").click()
    assert_shows_the_new_model(page, service)


def test_two_other_models_one_after_the_other(open_page, service, tmp_path: Path) -> None:
    """After the second reload the slate of the third model was shown as one of the second, which had 900 items."""
    page = opened(open_page, service)
    page.get_by_label("Length of the slate").fill("9")
    settled(page)
    reload(service, tmp_path, world_recommender(900, seed=1))
    page.get_by_role("button", name="Think longer").click()
    page.locator("#about", has_text="900 songs").wait_for()
    settled(page)
    reload(service, tmp_path, world_recommender(700, seed=2))
    page.get_by_role("button", name="Think longer").click()
    page.locator("#about", has_text="700 songs").wait_for()
    settled(page)
    reload(service, tmp_path)
    page.go_back()
    assert_shows_the_new_model(page, service)


def test_a_comparison_by_another_model(open_page, service, tmp_path: Path) -> None:
    page = opened(open_page, service)
    comparisons = held(page, "**/v1/explain")
    page.get_by_label("Length of the slate").fill("9")
    slate_shown(page)
    page.get_by_label("Length of the slate").fill("10")
    while len(comparisons) < 2:
        page.wait_for_timeout(50)
    reload(service, tmp_path)
    page.unroute("**/v1/explain")
    comparisons[-1].continue_()
    assert_shows_the_new_model(page, service)


def test_a_filter_that_the_new_model_does_not_have(open_page, service, tmp_path: Path) -> None:
    page = opened(open_page, service, asking(history=["song-1", "song-2"], k=10, where={"artist": ["Ada Alder"]}))
    reload(service, tmp_path)
    page.get_by_label("Length of the slate").fill("9")
    page.get_by_role("alert").wait_for()
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("alert").wait_for(state="hidden")
    settled(page)
    assert "Not in the catalogue, so ignored: artist." in page.locator("#status").inner_text()
    assert len(titles(page)) == 9
