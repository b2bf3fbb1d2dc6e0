"""Machine code that is damaged, unreadable or cannot be written: functions are compiled, and nothing fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import processes
from setwise.kernels import code_files

CALL = (
    "import numpy as np; from setwise.kernels import code_files, copy; "
    "code_files.say = print; target = np.zeros(3); "
    "copy.copy_entries(target, np.ones(3), 3); print(target.sum(), sum(copy.copy_entries.stats.cache_hits.values()))"
)


def call(folder: Path, command: str = CALL) -> list[str]:
    """The lines that a new process prints that calls a compiled function, whose code is kept in ``folder``."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    done = processes.run([sys.executable, "-c", command], env=environment, check=True)
    return done.stdout.splitlines()


def files(folder: Path, suffix: str) -> list[Path]:
    return list(folder.rglob(f"copy.copy_entries*{suffix}"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def claim_memory(path: Path) -> None:
    """A pickle of as many bytes as no machine has."""
    path.write_bytes(b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b"...")


def be_a_folder(path: Path) -> None:
    """In the place of a file that may not be read, which root always may."""
    path.unlink()
    path.mkdir()


pytestmark = pytest.mark.nightly
COMPILED, LOADED = "3.0 0", "3.0 1"


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", [cut, empty, claim_memory])
def test_damaged_code_is_compiled_and_written_again(
    tmp_path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    assert [call(tmp_path), call(tmp_path)] == [[COMPILED], [LOADED]]
    for path in files(tmp_path, suffix):
        damage(path)
    assert [call(tmp_path), call(tmp_path)] == [[COMPILED], [LOADED]]


def test_code_that_cannot_be_read_is_compiled(tmp_path: Path) -> None:
    call(tmp_path)
    for path in files(tmp_path, ".nbi"):
        be_a_folder(path)
    assert call(tmp_path) == [code_files.NOT_KEPT, COMPILED]


def test_a_disk_without_room_is_said_once(tmp_path: Path) -> None:
    """No file may have a byte here."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
    again = "; copy.copy_entries(np.zeros(3, np.float32), np.ones(3, np.float32), 3)"
    assert call(tmp_path, limit + CALL + again) == [code_files.NOT_KEPT, COMPILED]


def test_functions_of_other_packages_are_left_as_they_are(tmp_path: Path) -> None:
    """They are kept beside their own sources."""
    (tmp_path / "other.py").write_text("from numba import njit\n\n@njit(cache=True)\ndef f(x):\n    return x + 1\n")
    environment = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from setwise.kernels import options; import other; "
    command = [sys.executable, "-c", code + "print(other.f(1))"]
    assert processes.run(command, env=environment, check=True).stdout == "2\n"
    (index,) = tmp_path.rglob("other.f*.nbi")
    empty(index)
    assert "EOFError" in processes.run(command, env=environment).stderr
