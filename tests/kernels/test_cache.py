"""A changed compiled function is never hidden by the cached machine code of its caller."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from setwise.kernels import cache
from setwise.kernels.cache import DIGITS, PACKAGE, RECORD, clear_stale, clear_stale_package, link_code, source_digest

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


def without_room(folder: Path) -> Path:
    """A copy of the package in ``folder`` beside whose sources no machine code can be kept, even by root."""
    shutil.copytree(PACKAGE, folder / "setwise", ignore=shutil.ignore_patterns("__pycache__"))
    for source in (folder / "setwise").rglob("*.py"):
        (source.parent / "__pycache__").touch()
    return folder


CHOICE = (
    "import numpy as np; from setwise.kernels import copy, CODE_FOLDER; print(CODE_FOLDER); from numba import config; "
)
CALL = CHOICE + "copy.copy_entries(np.zeros(3), np.ones(3), 3); print(config.CACHE_DIR)"


def call(package: Path, **environment: str) -> list[str]:
    """What a new process prints that calls a compiled function: the folder that was chosen, and the one numba has."""
    plain = {name: text for name, text in os.environ.items() if name not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}}
    environment = plain | {"PYTHONPATH": str(package), "HOME": "/dev/null"} | environment
    done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def name_of(package: Path) -> str:
    return f"setwise-{source_digest(package / 'setwise')[:DIGITS]}"


def test_where_no_cache_can_be_written_a_private_folder_has_the_code(tmp_path: Path) -> None:
    package, temporary = without_room(tmp_path / "a"), tmp_path / "tmp"
    temporary.mkdir()
    chosen = temporary / f"setwise-code-{os.getuid()}" / name_of(package)
    assert call(package, TMPDIR=str(temporary)) == [str(chosen)] * 2
    assert chosen.parent.stat().st_mode & 0o777 == 0o700
    assert list(chosen.rglob("*.nbi"))


def test_a_private_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    """Cached code is executed: here each process compiles for itself."""
    package, temporary = without_room(tmp_path / "a"), tmp_path / "tmp"
    (temporary / f"setwise-code-{os.getuid()}").mkdir(parents=True)
    (temporary / f"setwise-code-{os.getuid()}").chmod(0o777)
    assert call(package, TMPDIR=str(temporary))[0] == "None"
    elsewhere, link = tmp_path / "elsewhere", temporary / f"setwise-code-{os.getuid()}"
    elsewhere.mkdir(mode=0o700)
    link.rmdir()
    link.symlink_to(elsewhere)
    assert call(package, TMPDIR=str(temporary))[0] == "None"
    assert not list(elsewhere.iterdir())


def test_the_users_cache_is_preferred(tmp_path: Path) -> None:
    package = without_room(tmp_path / "a")
    assert call(package, HOME=str(tmp_path))[0] == str(tmp_path / ".cache" / "setwise" / name_of(package))


def planted(home: Path, package: Path) -> Path:
    """A folder of cached code in the user's cache below ``home``, made before setwise was started."""
    folder = home / ".cache" / "setwise" / name_of(package) / "copy"
    folder.mkdir(parents=True)
    (folder / "f.nbi").write_text("of somebody else")
    return home / ".cache"


def test_a_users_cache_that_all_may_write_is_not_used(tmp_path: Path) -> None:
    """As with HOME=/tmp: what is in it may be of somebody else, and cached code is executed."""
    package, private = without_room(tmp_path / "a"), tmp_path / "tmp" / f"setwise-code-{os.getuid()}"
    private.parent.mkdir()
    caches = planted(tmp_path, package)
    for path, mode, trusted in (
        (caches / "setwise", 0o777, False),
        (caches / "setwise", 0o1777, False),
        (caches / "setwise", 0o775, True),
        (caches, 0o777, False),
        (caches, 0o1777, True),
    ):
        path.chmod(mode)
        chosen = call(package, HOME=str(tmp_path), TMPDIR=str(private.parent))[0]
        assert chosen == str((caches / "setwise" if trusted else private) / name_of(package))
        assert not list(private.rglob("f.nbi")), "nothing is linked either"


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("taken", [".cache", ".cache/setwise"])
def test_a_users_cache_of_another_user_is_not_used(tmp_path: Path, taken: str) -> None:
    package, private = without_room(tmp_path / "a"), tmp_path / "tmp" / f"setwise-code-{os.getuid()}"
    private.parent.mkdir()
    planted(tmp_path, package)
    os.chown(tmp_path / taken, 65534, 65534)
    assert call(package, HOME=str(tmp_path), TMPDIR=str(private.parent))[0] == str(private / name_of(package))
    assert not list(private.rglob("f.nbi"))


def test_a_users_cache_is_made_for_this_user_alone(tmp_path: Path) -> None:
    package = without_room(tmp_path / "a")
    call(package, HOME=str(tmp_path), TMPDIR=str(tmp_path))
    assert (tmp_path / ".cache" / "setwise").stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / f"setwise-code-{os.getuid()}").exists(), "it is not needed"


def test_a_given_folder_holds_one_folder_for_each_version(tmp_path: Path) -> None:
    """Cached code of a caller holds its callees, so that an upgrade may not read what was cached before it."""
    package, given = without_room(tmp_path / "a"), tmp_path / "given"
    first = call(package, NUMBA_CACHE_DIR=str(given))
    assert first == [str(given / name_of(package))] * 2
    with (package / "setwise" / "kernels" / "copy.py").open("a") as file:
        file.write("# another version\n")
    assert call(package, NUMBA_CACHE_DIR=str(given)) == [str(given / name_of(package))] * 2 != first


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


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount")
def test_a_read_only_folder_of_code_needs_no_compilation(tmp_path: Path) -> None:
    """The same, with a folder that is mounted read-only in a namespace of its own."""
    package, given, temporary = without_room(tmp_path / "a"), tmp_path / "given", tmp_path / "tmp"
    temporary.mkdir()
    call(package, NUMBA_CACHE_DIR=str(given))
    mount = f"mount --bind {given} {given} && mount -o remount,bind,ro {given} && exec {sys.executable} -c '{CALL}'"
    environment = os.environ | {"PYTHONPATH": str(package), "HOME": "/dev/null", "TMPDIR": str(temporary)}
    environment |= {"NUMBA_CACHE_DIR": str(given), "XDG_CACHE_HOME": ""}
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no namespace of mounts can be made here")
    command = ["unshare", "--mount", "sh", "-c", mount]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0].startswith(str(temporary))
    files = list(temporary.rglob("*.nb?"))
    assert files
    assert all(path.is_symlink() for path in files), "nothing was compiled"
