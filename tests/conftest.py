"""Shared by all tests: the real data when it is there, and how large the large counts are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("setwise", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("setwise")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--large", action="store_true", help="run the full counts of every 'Done when', not a twentieth")


@pytest.fixture
def count(request: pytest.FixtureRequest):
    """count(n): n with --large, else a twentieth of it."""
    return (lambda n: n) if request.config.getoption("--large") else (lambda n: max(1, n // 20))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data (../shared/data, or $SETWISE_DATA); the test is skipped where there is none."""
    folder = Path(os.environ.get("SETWISE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"real data not found at {folder}; set SETWISE_DATA to its folder")
    return folder
