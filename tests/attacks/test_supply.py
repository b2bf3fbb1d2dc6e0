"""What is installed and shipped: locked with hashes, listed, and started without rights."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import processes

pytestmark = [pytest.mark.nightly, pytest.mark.promise("supply")]
ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = {"dev": ("dev",), "serve": ("serve",)}  # the extras of each lock file


def wanted(extras: tuple[str, ...]) -> list[Requirement]:
    """What the project requires with these extras, those that they name included."""
    found, waiting = [Requirement(text) for text in PROJECT["dependencies"]], [*extras]
    while waiting:
        for one in (Requirement(text) for text in EXTRAS[waiting.pop()]):
            if one.name == PROJECT["name"]:
                waiting += one.extras
            else:
                found.append(one)
    return found


def locked(name: str) -> dict[str, list[Requirement]]:
    """The entries of a lock file by package; every one has a version and hashes."""
    text = (DEPLOY / f"requirements-{name}.lock").read_text(encoding="utf-8")
    found: dict[str, list[Requirement]] = {}
    for entry in re.split(r"\n(?=\w)", text.partition("\n")[2].replace("\\\n", " ")):
        requirement, *hashes = re.split(r"\s+--hash=", entry.strip())
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement
        one = Requirement(requirement)
        assert re.fullmatch(r"==[^*,]+", str(one.specifier)), requirement
        found.setdefault(canonicalize_name(one.name), []).append(one)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_file_follows_the_project(name: str, record_property) -> None:
    """A dependency that is added or changed needs `make lock`."""
    entries = locked(name)
    for one in wanted(LOCKS[name]):
        versions = [str(entry.specifier).removeprefix("==") for entry in entries.get(canonicalize_name(one.name), ())]
        assert versions, f"{one} is not locked: run make lock"
        assert any(one.specifier.contains(version) for version in versions), f"{one}: locked {versions}; run make lock"
    record_property("seen", f"{name}: {len(entries)} packages locked with hashes")


def test_constraints_name_every_direct_dependency_at_the_locked_version() -> None:
    """What `make setup` and the commands of the README install is what the lock files and the image have."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constraints = [Requirement(line) for line in lines if not line.startswith("#")]
    entries = [locked(name) for name in LOCKS]
    for one in constraints:
        versions = {str(entry.specifier) for lock in entries for entry in lock.get(canonicalize_name(one.name), ())}
        assert str(one.specifier) in versions, f"{one}: locked {sorted(versions)}; run make lock"
    direct = {one.name for one in wanted(tuple(EXTRAS))} - {"ray"}  # no lock file has it
    assert {one.name for one in constraints} - {"hatchling"} == {canonicalize_name(name) for name in direct}
    recipes = [ROOT / "Makefile", *(ROOT / ".github" / "workflows").glob("*.yml"), *DEPLOY.glob("*.yaml")]
    for path in recipes:
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r"pip install .*(\.\[|/source\[|dist/)", line):
                assert re.search(r"-c(onstraint)? \S*constraints.txt", line), f"{path.name}: {line.strip()}"


def test_the_image_installs_the_lock_file_and_runs_without_rights() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    installs = [line for line in lines if "pip install" in line]
    assert any("--require-hashes -r requirements-serve.lock" in line for line in installs)
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs)
    users = [at for at, line in enumerate(lines) if line.startswith("USER ")]
    start = next(at for at, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
    assert users
    assert lines[users[-1]].split()[1] not in ("root", "0")
    assert users[-1] < start
    assert re.search(r"^\s+read_only: true$", (DEPLOY / "compose.yaml").read_text(encoding="utf-8"), re.MULTILINE)


def test_actions_are_pinned_by_digest(record_property) -> None:
    used = [
        line.split("uses:")[1].split("#")[0].strip()
        for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "uses:" in line
    ]
    assert used
    for one in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one), one
    record_property("seen", f"{len(used)} uses of actions pinned by digest")


def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", DEPLOY / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bill_of_materials(record_property) -> None:
    """It lists everything that the project requires with the extra, with the versions that are installed."""
    bill = json.loads(json.dumps(sbom().bill(["serve"])))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "setwise"
    listed = {one["name"]: one for one in bill["components"]}
    for one in wanted(("serve",)):
        if one.marker is None or one.marker.evaluate():
            entry = listed[canonicalize_name(one.name)]
            assert entry["version"] == metadata.version(one.name)
            assert entry["purl"] == f"pkg:pypi/{entry['name']}@{entry['version']}"
    assert "llvmlite" in listed, "what a dependency requires"
    assert "torch" not in listed, "no other extra"
    assert [name for name, one in listed.items() if not one.get("licenses")] == []
    record_property("seen", f"bill of materials of {len(listed)} packages")


def interpreter(version: str) -> str | None:
    """A Python of this version: on the path, or where pyenv keeps them."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for command in (sys.executable, f"python{version}", *map(str, kept)):
        code = f"import sys; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
        with contextlib.suppress(OSError):
            if processes.run([command, "-c", code]).returncode == 0:
                return command
    return None


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_wheel_works_without_extras(version: str, tmp_path: Path, large: bool, record_property) -> None:
    """Built, and installed from the package index into an empty environment: import, and one slate."""
    if not large:
        pytest.skip("installs packages from the index: run with --large")
    found = interpreter(version)
    if found is None:
        record_property("seen", f"Python {version} is not on this machine")
        pytest.skip(f"Python {version} is not on this machine")

    def run(*command: str) -> str:
        done = processes.run(command, cwd=tmp_path, limit=1800)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("setwise-*.whl")
    run(found, "-m", "venv", str(tmp_path / "clean"))
    python = str(tmp_path / "clean" / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", str(wheel))
    assert PROJECT["version"] in run(str(tmp_path / "clean" / "bin" / "setwise"), "--version")
    program = """
import numpy as np, setwise as sw
rng = np.random.default_rng(0)
catalog = sw.Catalog(*(rng.normal(size=(30, 4)) for _ in range(3)))
print(len(sw.Recommender(sw.Index.build(catalog, cells=4)).recommend(rng.normal(size=4), k=3).items))
"""
    assert run(python, "-W", "error", "-c", program).split()[-1] == "3"
    record_property("seen", f"wheel without extras on Python {version}")
