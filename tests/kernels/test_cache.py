"""A changed compiled function is never hidden by the cached machine code of its caller."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from setwise.kernels import cache
from setwise.kernels.cache import PACKAGE, RECORD, clear_stale, clear_stale_package, source_digest

CALLEE = "from numba import njit\n\n@njit(cache=True)\ndef f(x):\n    return x + {}\n"
CALLER = "from numba import njit\nfrom callee import f\n\n@njit(cache=True)\ndef g(x):\n    return 10 * f(x)\n"


def modules(folder: Path) -> Path:
    (folder / "callee.py").write_text(CALLEE.format(1))
    (folder / "caller.py").write_text(CALLER)
    return folder


def run(code: str, folder: Path) -> str:
    environment = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = str(folder)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_the_caller_is_compiled_again(tmp_path: Path) -> None:
    folder = modules(tmp_path)
    clear_stale(folder, [folder])
    code = "from caller import g; print(g(1))"
    assert run(code, folder) == "20"
    assert list(folder.rglob("caller.g*.nbi"))
    (folder / "callee.py").write_text(CALLEE.format(2))
    assert clear_stale(folder, [folder]) >= 2
    assert run(code, folder) == "30"
    assert clear_stale(folder, [folder]) == 0


def test_only_a_change_of_compiled_sources_clears(tmp_path: Path) -> None:
    folder = modules(tmp_path)
    cached = folder / "__pycache__" / "caller.g-4.py311.nbi"
    cached.parent.mkdir()
    cached.write_bytes(b"")
    assert clear_stale(folder, [folder]) == 1, "cached code without a record is of unknown origin"
    cached.write_bytes(b"")
    (folder / "plain.py").write_text("x = 1\n")
    assert clear_stale(folder, [folder]) == 0
    assert cached.exists()
    (folder / "renamed.py").write_bytes((folder / "callee.py").read_bytes())
    assert clear_stale(folder, [folder]) == 1
    assert (folder / RECORD).read_text() == source_digest(folder)


def test_importing_the_package_clears_what_another_version_left(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "setwise", ignore=shutil.ignore_patterns("*.nb?", RECORD))
    stale = tmp_path / "setwise" / "ranking" / "__pycache__" / "swap_kernels.climb-1.py311.nbi"
    stale.parent.mkdir(exist_ok=True)
    stale.write_bytes(b"the types of another version")
    run("import setwise; print(setwise.__file__)", tmp_path)
    assert stale.exists(), "import setwise compiles nothing, so it looks at nothing"
    run("import setwise.kernels", tmp_path)
    assert not stale.exists()
    stale.write_bytes(b"this version's")
    run("import setwise.kernels", tmp_path)
    assert stale.exists()


def test_a_folder_may_be_inside_another(tmp_path: Path) -> None:
    """Its files are found twice. The digest is recorded in the first folder, which is made when it is missing."""
    inner = modules(tmp_path) / "deep" / "__pycache__"
    stale = [tmp_path / "caller.g-4.nbi", tmp_path / "caller.g-4.1.nbc"]
    for path in stale:
        path.write_bytes(b"")
    assert clear_stale(tmp_path, [inner, tmp_path]) == 2
    assert [path.name for path in inner.iterdir()] == [RECORD], "no draft is left"
    assert (inner / RECORD).read_text() == source_digest(tmp_path)
    (inner / "caller.g-4.nbi").write_bytes(b"")
    (tmp_path / "callee.py").write_text(CALLEE.format(2))
    assert clear_stale(tmp_path, [inner, tmp_path]) >= 1
    assert [path.name for path in inner.iterdir()] == [RECORD]


def test_another_process_may_remove_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = modules(tmp_path) / "caller.g-4.nbi"
    cached.write_bytes(b"")
    unlink = Path.unlink

    def second(path: Path, missing_ok: bool = False) -> None:
        unlink(path)  # the other process is first
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", second)
    clear_stale(tmp_path, [tmp_path])
    assert not cached.exists()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of a small package, with cached code of another version in its sources and tests."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    package = tmp_path / "checkout" / "src" / "small"
    package.mkdir(parents=True)
    modules(package)
    (tmp_path / "checkout" / "tests").mkdir()
    for folder in (package, tmp_path / "checkout" / "tests"):
        (folder / "old.nbi").write_bytes(b"")
    monkeypatch.setattr(cache, "PACKAGE", package)
    return tmp_path / "checkout"


def test_a_checkout_has_the_cached_code_of_its_tests_cleared(checkout: Path) -> None:
    clear_stale_package()
    assert not list(checkout.rglob("*.nbi"))
    assert (checkout / "src" / "small" / "__pycache__" / RECORD).is_file()


def test_a_package_without_tests_beside_it_is_cleared(checkout: Path) -> None:
    (checkout / "tests").rename(checkout / "others")
    clear_stale_package()
    assert [path.parent.name for path in checkout.rglob("*.nbi")] == ["others"]


def test_a_shared_cache_folder_is_left_alone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(checkout))
    clear_stale_package()
    assert len(list(checkout.rglob("*.nbi"))) == 2


def test_a_package_that_cannot_be_written_is_no_error(checkout: Path) -> None:
    """A file has the name of the folder for the record."""
    (checkout / "src" / "small" / "__pycache__").write_bytes(b"")
    clear_stale_package()
