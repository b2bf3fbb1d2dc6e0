"""The rules of the source tree: direction of imports, exports, sizes, commit subjects."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import processes
import setwise as sw
from setwise import errors

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "setwise"

# Packages from the bottom up. A package may import itself and every package of an earlier line.
LAYERS = [
    {"errors", "_types", "_standard_error"},
    {"_validation", "_progress", "_display"},
    {"storage", "kernels"},
    {"model"},
    {"verification"},
    {"retrieval"},
    {"bounds"},
    {"ranking"},
    {"preferences", "datasets"},
    {"recommend"},
    {"training", "interop"},
    {"service"},
    {"cli"},
]
BELOW: dict[str, set[str]] = {
    package: set().union(*LAYERS[:level]) | {package} for level, packages in enumerate(LAYERS) for package in packages
}
BELOW["verification"] -= {"kernels"}  # verification shares no compiled code with the code that it checks

# Libraries and packages that ``import setwise`` must not load.
NOT_AT_IMPORT = [
    "numba", "scipy", "torch", "triton", "gensim", "sklearn", "typer", "rich", "litestar", "starlette", "uvicorn", "msgspec",
    "polars", "pyarrow", "pandas", "faiss",
    "setwise.datasets", "setwise.training", "setwise.service", "setwise.cli", "setwise.interop",
]  # fmt: skip

FIRST_COMMIT = "2f04ed5"  # subjects are checked from the commit after this one on


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def relative_name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in source_files()}


def imported_modules(path: Path) -> set[str]:
    """Every module that a file imports, at any level and under TYPE_CHECKING; files of setwise by their full name."""
    found = set()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}: relative imports are not used"
            full = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in full.values()}
    return found


def import_circles() -> list[str]:
    """The strongly connected components of the import graph of files, each as one text."""
    graph = {name: (imported_modules(path) & MODULES.keys()) - {name} for name, path in MODULES.items()}

    def reachable(start: str) -> set[str]:
        seen, stack = set(), [start]
        while stack:
            new = graph[stack.pop()] - seen
            seen |= new
            stack += new
        return seen

    reach = {name: reachable(name) for name in graph}
    circles = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return [" <-> ".join(sorted(circle)) for circle in circles if circle]


# --- imports ---


def test_direction_of_imports() -> None:
    offenders = []
    for path in source_files():
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        allowed = BELOW.get(package, {other for packages in LAYERS for other in packages})  # __init__ and __main__: all
        modules = (module for module in imported_modules(path) if module.startswith("setwise."))
        offenders += [f"{relative_name(path)}: {module}" for module in modules if module.split(".")[1] not in allowed]
    assert not offenders, "\n".join(["a package imports itself and what is below it (LAYERS)", *offenders])


def test_no_import_circle() -> None:
    circles = import_circles()
    assert not circles, "\n".join(circles)


def run_python(code: str) -> str:
    """The output of a new interpreter that treats warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", code]
    return processes.run(command, check=True).stdout.strip()


def test_importing_setwise_loads_nothing_heavy() -> None:
    assert run_python(f"import sys, setwise; print([name for name in {NOT_AT_IMPORT} if name in sys.modules])") == "[]"


def test_library_and_command_line_need_no_posix() -> None:
    """Import and help work without the modules and functions that only POSIX systems have."""
    code = """
import os, sys
from typer.testing import CliRunner  # the test's own tool, imported before POSIX modules are hidden
for name in ("fcntl", "resource", "grp"):
    sys.modules[name] = None
for name in ("sched_getaffinity", "fork", "register_at_fork"):
    vars(os).pop(name, None)
import setwise, setwise.cli
result = CliRunner().invoke(setwise.cli.app, ["--help"])
print(result.exit_code)
"""
    assert run_python(code) == "0"


# --- files ---


def test_files_are_short() -> None:
    lengths = {relative_name(path): path.read_text(encoding="utf-8").count("\n") for path in source_files()}
    offenders = {name: lines for name, lines in lengths.items() if lines > 400}
    assert not offenders, f"split these files by subject: {offenders}"


def test_functions_are_short() -> None:
    offenders = [
        f"{relative_name(path)}:{node.lineno}: {node.name}"
        for path in source_files()
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if (node.end_lineno or node.lineno) - _after_docstring(node) >= 60
    ]
    assert not offenders, "\n".join(["a function has at most 60 lines after its docstring", *offenders])


def _after_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    return (first.end_lineno or first.lineno) if ast.get_docstring(node) else first.lineno


def test_no_pickle_eval_or_exec() -> None:
    # network.eval() is torch's evaluation mode
    forbidden_calls = re.compile(r"pickle|allow_pickle=True|(?<!network\.)\beval\(|\bexec\(")
    texts = {relative_name(path): path.read_text(encoding="utf-8") for path in source_files()}
    offenders = [name for name, text in texts.items() if forbidden_calls.search(text.replace("unpickled", ""))]
    assert not offenders


# --- names and errors ---


def test_exported_names() -> None:
    assert sw.__all__ == sorted(sw.__all__, key=str)
    assert set(sw.__all__) == {
        "Catalog", "Constant", "Exp", "Explanation", "Index", "Instance", "LeakyReLU", "Linear", "Logistic", "PiecewiseLinear", "Positions", "Ranking",
        "ReLU", "Recommender", "SetwiseError", "SimpleTransformer", "Sink", "Slate", "Softplus", "Tanh", "User", "attention", "fit_diversity", "item_rewards", "rank", "rank_many", "read", "rerank", "rewards", "set_value", "upper_bound",
    }  # fmt: skip
    for name in sw.__all__:
        assert getattr(sw, name).__doc__


def test_every_error_is_in_the_tree() -> None:
    assert errors.__doc__
    for name, thing in vars(errors).items():
        if isinstance(thing, type) and issubclass(thing, Exception) and thing.__module__ == "setwise.errors":
            assert name in errors.__doc__
            assert issubclass(thing, (sw.SetwiseError, Warning))
    assert str(errors.SetwiseError()) == ""
    assert "pip install 'setwise[choice]'" in str(errors.MissingDependency("scipy", "fit", "choice"))


def test_processes_of_tests_end() -> None:
    """A wait inside of `with Popen` that failed let the suite hang for ever: processes.py ends what it starts."""
    starts = re.compile(r"\bsubprocess\.(run|call|check_\w+|Popen)\(|\bPopen\(|\bos\.system\(")
    tests = ROOT / "tests"
    outside = {tests / "processes.py", tests / "service" / "page_browser.py"}  # the latter runs before pytest
    files = sorted(set(tests.rglob("*.py")) - outside - {Path(__file__)})
    assert [path.name for path in files if starts.search(path.read_text())] == []


# --- history ---


def git(*arguments: str) -> CompletedProcess[str]:
    try:
        return processes.run(["git", *arguments], cwd=ROOT)
    except FileNotFoundError:
        pytest.skip("git is not installed")


def test_commit_subjects_are_short() -> None:
    if git("merge-base", "--is-ancestor", FIRST_COMMIT, "HEAD").returncode:
        pytest.skip("the git history is not available")
    subjects = git("log", "--no-merges", "--format=%s", f"{FIRST_COMMIT}..HEAD").stdout.splitlines()
    assert subjects
    assert [subject for subject in subjects if len(subject) > 72] == []
