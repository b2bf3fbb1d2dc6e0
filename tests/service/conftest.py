from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from services import Here, here, world_recommender

import setwise as sw


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
