"""The private folder of a copy: nothing remains of services that were killed, and nothing in use is removed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import processes
from setwise.service.artifact_copy import private_folder, sweep

HOLD = """
import sys
from setwise.service.artifact_copy import private_folder
with private_folder("front") as folder:
    (folder / "arrays").write_bytes(bytes(1000))
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty temporary folder, of this process and of those that it starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@contextmanager
def held() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a private folder until it is killed, or its input ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with processes.started([sys.executable, "-c", HOLD], **pipes) as process:
        assert process.stdout
        yield process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_is_removed(temporary: Path) -> None:
    with held() as (living, used):
        with held() as (_, left):
            assert (left / "arrays").is_file()
        with private_folder("mine") as mine:
            sweep()
            assert mine.is_dir()
        assert not left.parent.exists()
        assert (used / "arrays").is_file()
        living.communicate("", timeout=processes.LIMIT)
    assert not list(temporary.iterdir()), "one that ends removes its own"


def test_other_folders_are_left_alone(temporary: Path) -> None:
    """Folders without a lock, and links, whoever made them."""
    (temporary / "setwise-copy-begun").mkdir()
    (temporary / "elsewhere").mkdir()
    (temporary / "elsewhere" / "lock").touch()
    (temporary / "setwise-copy-link").symlink_to(temporary / "elsewhere")
    sweep()
    assert sorted(path.name for path in temporary.iterdir()) == ["elsewhere", "setwise-copy-begun", "setwise-copy-link"]
    assert (temporary / "elsewhere" / "lock").exists()
