"""A changed compiled function is never hidden by the cached machine code of its caller."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setwise.kernels.cache import PACKAGE, RECORD, clear_stale, source_digest

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
