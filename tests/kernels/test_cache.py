"""Where machine code is kept: never beside the sources, in a folder for each version that nobody else can write."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import processes
from setwise.kernels.cache import DIGITS, PACKAGE, VERSIONS, code_folder, link_code, remove_old, source_digest

CALL = (
    "import numpy as np; from setwise.kernels import cache, copy; from numba import config; "
    "copy.copy_entries(np.zeros(3), np.ones(3), 3); print(cache.code_folder(), config.CACHE_DIR)"
)


def call(package: Path = PACKAGE, **environment: str) -> str:
    """What a new process chose that calls a compiled function; numba's own setting is as it was."""
    plain = {name: text for name, text in os.environ.items() if name not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}}
    environment = plain | {"PYTHONPATH": str(package.parent), "HOME": "/dev/null"} | environment
    done = processes.run([sys.executable, "-c", CALL], env=environment, check=True)
    folder, _, setting = done.stdout.rstrip("\n").partition(" ")
    assert setting == environment.get("NUMBA_CACHE_DIR", "")
    assert folder == "None" or list(Path(folder).rglob("copy.copy_entries*.nbi"))
    return folder


def name_of(package: Path = PACKAGE) -> str:
    return f"setwise-{source_digest(package)[:DIGITS]}"


@pytest.mark.nightly
def test_where_no_cache_can_be_written_a_private_folder_has_the_code(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    chosen = temporary / f"setwise-code-{os.getuid()}" / name_of()
    assert call(TMPDIR=str(temporary)) == str(chosen)
    assert chosen.parent.stat().st_mode & 0o777 == 0o700
    assert list(chosen.rglob("*.nbi"))


def folder_here(monkeypatch: pytest.MonkeyPatch, home: Path, temporary: Path) -> Path | None:
    """What this process would choose with this home and this temporary folder."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return code_folder.__wrapped__()


def test_a_private_folder_that_others_may_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached code is executed: here each process compiles for itself."""
    nobody, temporary = Path("/dev/null"), tmp_path / "tmp"
    (temporary / f"setwise-code-{os.getuid()}").mkdir(parents=True)
    (temporary / f"setwise-code-{os.getuid()}").chmod(0o777)
    assert folder_here(monkeypatch, nobody, temporary) is None
    elsewhere, link = tmp_path / "elsewhere", temporary / f"setwise-code-{os.getuid()}"
    elsewhere.mkdir(mode=0o700)
    link.rmdir()
    link.symlink_to(elsewhere)
    assert folder_here(monkeypatch, nobody, temporary) is None
    assert not list(elsewhere.iterdir())


def test_the_users_cache_is_preferred(tmp_path: Path) -> None:
    assert call(HOME=str(tmp_path)) == str(tmp_path / ".cache" / "setwise" / name_of())


def planted(home: Path) -> Path:
    """A folder of cached code in the user's cache below ``home``, made before setwise was started."""
    folder = home / ".cache" / "setwise" / name_of() / "copy"
    folder.mkdir(parents=True)
    (folder / "f.nbi").write_text("of somebody else")
    return home / ".cache"


def test_a_users_cache_that_all_may_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with HOME=/tmp: what is in it may be of somebody else, and cached code is executed."""
    private = tmp_path / "tmp" / f"setwise-code-{os.getuid()}"
    private.parent.mkdir()
    caches = planted(tmp_path)
    for path, mode, trusted in (
        (caches / "setwise", 0o777, False),
        (caches / "setwise", 0o1777, False),
        (caches / "setwise", 0o775, True),
        (caches, 0o777, False),
        (caches, 0o1777, True),
    ):
        path.chmod(mode)
        chosen = folder_here(monkeypatch, tmp_path, private.parent)
        assert chosen == (caches / "setwise" if trusted else private) / name_of()
        assert not list(private.rglob("f.nbi")), "nothing is linked either"


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("taken", [".cache", ".cache/setwise"])
def test_a_users_cache_of_another_user_is_not_used(tmp_path: Path, taken: str) -> None:
    private = tmp_path / "tmp" / f"setwise-code-{os.getuid()}"
    private.parent.mkdir()
    planted(tmp_path)
    os.chown(tmp_path / taken, 65534, 65534)
    assert call(HOME=str(tmp_path), TMPDIR=str(private.parent)) == str(private / name_of())
    assert not list(private.rglob("f.nbi"))


@pytest.mark.nightly
def test_a_users_cache_is_made_for_this_user_alone(tmp_path: Path) -> None:
    call(HOME=str(tmp_path), TMPDIR=str(tmp_path))
    assert (tmp_path / ".cache" / "setwise").stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / f"setwise-code-{os.getuid()}").exists(), "it is not needed"


@pytest.mark.nightly
def test_a_given_folder_holds_one_folder_for_each_version(tmp_path: Path) -> None:
    """Cached code of a caller holds its callees, so that an upgrade may not read what was cached before it."""
    package, given = tmp_path / "a" / "setwise", tmp_path / "given"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    first = call(package, NUMBA_CACHE_DIR=str(given))
    assert first == str(given / name_of(package))
    with (package / "kernels" / "copy.py").open("a") as file:
        file.write("# another version\n")
    assert call(package, NUMBA_CACHE_DIR=str(given)) == str(given / name_of(package)) != first
    assert not list(package.rglob("*.nb?")), "nothing is written beside the sources: it would stay there for ever"


def test_the_code_of_the_last_versions_is_kept(tmp_path: Path) -> None:
    others = [tmp_path / "setwise-mine", tmp_path / f"other-{0:016x}"]
    versions = [tmp_path / f"setwise-{number:016x}" for number in range(VERSIONS + 2)]
    for age, folder in enumerate([*versions, *others]):
        folder.mkdir()
        (folder / "f.nbi").touch()
        os.utime(folder, (1e9 - age, 1e9 - age))
    remove_old(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([*versions[:VERSIONS], *others])


def test_code_in_a_folder_that_cannot_be_written_is_used(tmp_path: Path) -> None:
    """As in an image whose file system is read-only: its code is linked, and files of numba's replace links."""
    image, writable = tmp_path / "image", tmp_path / "tmp"
    (image / "copy").mkdir(parents=True)
    for suffix in (".nbi", ".1.nbc"):
        (image / "copy" / f"f{suffix}").write_text("of the image")
    for _ in range(2):
        link_code(image, writable)
    assert sorted(path.name for path in writable.rglob("f*")) == ["f.1.nbc", "f.nbi"]
    assert (writable / "copy" / "f.nbi").read_text() == "of the image"
    own = writable / "copy" / "own"
    own.write_text("of numba")
    own.replace(writable / "copy" / "f.nbi")
    link_code(image, writable)
    assert (writable / "copy" / "f.nbi").read_text() == "of numba"
    assert (image / "copy" / "f.nbi").read_text() == "of the image"


@pytest.mark.nightly
@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount")
def test_a_read_only_folder_of_code_needs_no_compilation(tmp_path: Path) -> None:
    """The same, with a folder that is mounted read-only in a namespace of its own."""
    given, temporary = tmp_path / "given", tmp_path / "tmp"
    temporary.mkdir()
    call(NUMBA_CACHE_DIR=str(given))
    mount = f"mount --bind {given} {given} && mount -o remount,bind,ro {given} && exec {sys.executable} -c '{CALL}'"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "HOME": "/dev/null", "TMPDIR": str(temporary)}
    environment |= {"NUMBA_CACHE_DIR": str(given), "XDG_CACHE_HOME": ""}
    if processes.run(["unshare", "--mount", "true"]).returncode:
        pytest.skip("no namespace of mounts can be made here")
    command = ["unshare", "--mount", "sh", "-c", mount]
    done = processes.run(command, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0].startswith(str(temporary))
    files = list(temporary.rglob("*.nb?"))
    assert files
    assert all(path.is_symlink() for path in files), "nothing was compiled"
