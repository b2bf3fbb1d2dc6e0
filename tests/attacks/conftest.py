"""A saved world of 300 songs for the attacks on the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from services import Here, here, world_recommender


@pytest.fixture(autouse=True)
def _own_log() -> None:
    """A test that ran the command line leaves a log that writes to its own standard error: reset it."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("attacked") / "world"
    world_recommender().save(path)
    return path


@pytest.fixture(scope="module")
def quick(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """A service with a log of slates that spends little on each."""
    with here(folder, log=tmp_path_factory.mktemp("log"), budget_ms=2) as service:
        yield service
