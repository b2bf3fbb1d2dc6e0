from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import page_browser
import page_service
import pytest
import structlog
from page_use import Pages
from services import Here, here, world_recommender

import setwise as sw

pytest.register_assert_rewrite("page_checks")


@pytest.fixture(autouse=True)
def _own_log() -> None:
    """A test that ran the command line leaves a log that writes to its own standard error: reset it."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def recommender() -> sw.Recommender:
    return world_recommender()


@pytest.fixture(scope="session")
def folder(recommender: sw.Recommender, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "world"
    recommender.save(path)
    return path


@pytest.fixture(scope="session")
def service(folder: Path) -> Iterator[Here]:
    """The real service of a world of 300 songs."""
    with here(folder) as one:
        yield one


# --- the page ---


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    """A browser for one file of tests: its event loop would be in the way of tests that start their own."""
    with page_browser.browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def songs() -> sw.Recommender:
    return page_service.with_hostile_titles(240)


@pytest.fixture(scope="session")
def address(songs: sw.Recommender, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page of the songs, for a browser."""
    page_browser.required()
    with page_service.served(songs, tmp_path_factory.mktemp("page")) as url:
        yield url


@pytest.fixture(scope="session")
def odd_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page of songs with pictures, and with odd ids and titles."""
    page_browser.required()
    hosts = page_service.IMAGE_HOSTS
    with page_service.served(page_service.odd_songs(120), tmp_path_factory.mktemp("odd"), hosts) as url:
        yield url


@pytest.fixture
def open_page(chromium) -> Iterator[Pages]:
    """Opens pages; after the test their consoles hold nothing but what was expected."""
    pages = Pages(chromium)
    yield pages
    pages.close()
    assert pages.complaints == []
