"""Shared by all tests: sizes of the counts, and the folder of the public samples."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from counts import LARGE, SMALL

SOURCE = Path(__file__).parents[1] / "src" / "setwise"
FRACTION = 20  # of the full counts run without --large


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--large", action="store_true", help=f"run full counts instead of one in {FRACTION}")


def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis draws fewer examples for tests that set no number of their own, unless --large is given."""
    examples = LARGE if config.getoption("--large") else SMALL
    derandomize = bool(os.environ.get("CI"))
    settings.register_profile("setwise", deadline=None, derandomize=derandomize, max_examples=examples)
    settings.load_profile("setwise")
    if not hasattr(config, "workerinput"):  # once, before worker processes start
        remove_stale_machine_code()


def remove_stale_machine_code() -> None:
    """Delete all cached machine code if a compiled source file has changed since it was cached.

    The cache of a function is valid as long as its own file is unchanged, although it contains code of the functions
    that it calls in other files. Without this a changed kernel is hidden by the cached code of its callers.
    """
    compiled = [path for path in sorted(SOURCE.rglob("*.py")) if b"njit" in path.read_bytes()]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in compiled)).hexdigest()
    stamp = SOURCE / "__pycache__" / "machine_code.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    for cached in SOURCE.rglob("*.nb[ic]"):
        cached.unlink(missing_ok=True)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(digest)


@pytest.fixture(scope="session")
def large(request: pytest.FixtureRequest) -> bool:
    """Whether full counts were asked for."""
    return bool(request.config.getoption("--large"))


@pytest.fixture(scope="session")
def count(large: bool) -> Callable[[int], int]:
    """count(n): n with --large, else a twentieth of it and at least one."""
    return (lambda n: n) if large else (lambda n: max(1, n // FRACTION))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the public samples (../shared/data or $SETWISE_DATA); tests that need it are skipped without it."""
    folder = Path(os.environ.get("SETWISE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no public samples at {folder}; set SETWISE_DATA to their folder")
    return folder
