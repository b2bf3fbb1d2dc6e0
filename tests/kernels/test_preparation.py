"""Parts of the compiled code are compiled by one process each, whoever asks, and nothing is left running."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from processes import LIMIT, alive, started, until
from processes import run as run_process
from setwise.kernels import code_files

PART = """
import os, time
from pathlib import Path
import numpy as np
from setwise.kernels import copy

def use():
    Path(os.environ["USES"], str(os.getpid())).touch()
    time.sleep(float(os.environ.get("PAUSE", "0")))
    copy.copy_entries(np.zeros(3), np.ones(3), 3)

def fail():
    Path(os.environ["USES"], str(os.getpid())).touch()
    if len(os.listdir(os.environ["USES"])) == 1:
        raise ValueError
"""
IMPORTS = """
import os, sys, time
from setwise.kernels import preparation
from setwise.kernels.parts import Part
part = Part("small", "copies", "small_part:use", 1)
"""


@pytest.fixture
def uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file for each process that has used the part; the machine code is in a new folder."""
    (tmp_path / "small_part.py").write_text(PART)
    (tmp_path / "uses").mkdir()
    monkeypatch.setenv("USES", str(tmp_path / "uses"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return tmp_path / "uses"


def run(code: str) -> str:
    return run_process([sys.executable, "-c", IMPORTS + code], check=True).stdout.strip()


def used(folder: Path) -> list[int]:
    """The processes in ``folder``, as soon as there is one."""
    until(lambda: os.listdir(folder))
    return [int(name) for name in os.listdir(folder)]


def test_a_part_is_compiled_elsewhere_and_loaded_here(uses: Path) -> None:
    require = "assert not preparation.is_ready([part]); preparation.require([part], False); "
    code = require + "assert preparation.is_ready([part]) and preparation.is_compiled(part); print(os.getpid())"
    own = run(code)
    assert own in os.listdir(uses)
    assert len(os.listdir(uses)) == 2
    run(code)
    assert len(os.listdir(uses)) == 3, "the next process only loads it"


@pytest.mark.nightly
def test_begin_does_not_wait(uses: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAUSE", "0.5")
    code = "preparation.begin([part]); early = preparation.is_ready([part]); preparation.require([part]); "
    assert run(code + "print(early, preparation.is_ready([part]))") == "False True"
    assert len(os.listdir(uses)) == 2
    assert run("preparation.begin([part]); print(preparation.is_ready([part]))") == "True", "it is compiled"


@pytest.mark.nightly
def test_a_program_that_ends_lets_go_on_what_it_began(uses: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that are shorter than the compilation would never have it."""
    monkeypatch.setenv("PAUSE", "3")
    code = "preparation.begin([part])\nwhile not os.listdir(os.environ['USES']): time.sleep(0.02)"
    with started([sys.executable, "-c", IMPORTS + code]) as program:  # ends what it has started at its end
        assert program.wait(LIMIT) == 0
        (compiling,) = used(uses)
        until(lambda: not alive(compiling))
    assert [*uses.parent.rglob("*.nbi")], "it was not ended"


@pytest.mark.nightly
def test_two_programs_compile_once(uses: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAUSE", "0.5")
    command = [sys.executable, "-c", IMPORTS + "preparation.require([part], False)"]
    with started(command) as one, started(command) as other:
        assert [one.wait(LIMIT), other.wait(LIMIT)] == [0, 0]
    assert len(os.listdir(uses)) == 3, "one has compiled, and both have loaded"


@pytest.mark.nightly
def test_a_killed_program_leaves_nothing_and_another_goes_on(uses: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAUSE", "3600")
    with started([sys.executable, "-c", IMPORTS + "preparation.require([part], False)"]) as program:
        (compiling,) = used(uses)
        program.kill()
        program.wait(LIMIT)
        until(lambda: not alive(compiling))
    monkeypatch.setenv("PAUSE", "0")
    assert run("preparation.require([part], False); print(preparation.is_compiled(part))") == "True"


def test_where_the_other_process_fails_this_one_compiles(uses: Path) -> None:
    code = "part = Part('small', 'copies', 'small_part:fail', 1); preparation.require([part], False); "
    assert run(code + "print(preparation.is_ready([part]), preparation.is_compiled(part))") == "True False"
    assert len(os.listdir(uses)) == 2


@pytest.mark.nightly
def test_where_no_code_can_be_kept_this_process_compiles(uses: Path, tmp_path: Path) -> None:
    code = "preparation.code_folder = lambda: None; preparation.begin([part]); print(preparation.is_ready([part]))"
    done = run_process([sys.executable, "-c", IMPORTS + code], check=True)
    assert (done.stdout, done.stderr) == ("True\n", f"setwise: {code_files.NO_FOLDER}\n")
    assert len(os.listdir(uses)) == 1


@pytest.mark.nightly
def test_another_version_of_a_source_is_another_mark(uses: Path) -> None:
    """numba compiles again when the time of a source file has changed, so that the mark must not say it is compiled."""
    run("preparation.require([part], False)")
    code = "preparation.compiled_sources = lambda folder: []; print(preparation.is_compiled(part))"
    assert run(code) == "False"
