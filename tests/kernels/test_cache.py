"""A changed compiled function is never hidden by the cached machine code of its caller."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from setwise.kernels.cache import PACKAGE, RECORD, clear_stale, compiled_folders, source_digest

CALLEE = "from numba import njit\n\n@njit(cache=True)\ndef f(x):\n    return x + {}\n"
CALLER = "from numba import njit\nfrom callee import f\n\n@njit(cache=True)\ndef g(x):\n    return 10 * f(x)\n"


def modules(folder: Path) -> Path:
    (folder / "callee.py").write_text(CALLEE.format(1))
    (folder / "caller.py").write_text(CALLER)
    return folder


def test_the_caller_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    folder = modules(tmp_path)
    clear_stale([folder])

    def result() -> str:
        code = "from caller import g; print(g(1))"
        environment = os.environ | {"PYTHONPATH": str(folder)}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert result() == "20"
    assert list(folder.rglob("caller.g*.nbi"))
    (folder / "callee.py").write_text(CALLEE.format(2))
    assert clear_stale([folder]) >= 2
    assert result() == "30"
    assert clear_stale([folder]) == 0


def test_only_a_change_of_compiled_sources_clears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    folder = modules(tmp_path)
    cached = folder / "__pycache__" / "caller.g-4.py311.nbi"
    cached.parent.mkdir()
    cached.write_bytes(b"")
    assert clear_stale([folder]) == 1, "cached code without a record is of unknown origin"
    cached.write_bytes(b"")
    (folder / "plain.py").write_text("x = 1\n")
    assert clear_stale([folder]) == 0
    assert cached.exists()
    (folder / "renamed.py").write_bytes((folder / "callee.py").read_bytes())
    assert clear_stale([folder]) == 1


def test_the_cache_folder_of_numba_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = tmp_path / "sources", tmp_path / "cache"
    folder.mkdir()
    modules(folder)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))
    assert clear_stale([folder]) == 0
    assert (cache / RECORD).read_text() == source_digest([folder])
    (cache / "deep").mkdir()
    (cache / "deep" / "f.1.nbc").write_bytes(b"")
    (folder / "callee.py").write_text(CALLEE.format(3))
    assert clear_stale([folder]) == 1


def test_the_package_and_its_tests_are_watched() -> None:
    package, tests = compiled_folders()
    assert package == PACKAGE
    assert Path(__file__).is_relative_to(tests)
    watched = {path.name for path in package.rglob("*.py") if b"numba" in path.read_bytes()}
    assert {"rewards.py", "softmax.py", "heap.py", "options.py", "best_first.py", "swap_kernels.py"} <= watched
