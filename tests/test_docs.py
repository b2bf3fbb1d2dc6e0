"""Documentation that drifts from the code fails here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def map_rows() -> list[list[str]]:
    """The table of docs/paper-map.md: paper, what it is, code, test, state."""
    lines = (ROOT / "docs" / "paper-map.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("row", map_rows(), ids=lambda row: row[0])
def test_the_paper_map_names_what_exists(row: list[str]) -> None:
    _, _, code, test, state = row
    assert state == "done"
    assert named(code)
    assert named(test)
    for name in named(code):
        path, _, symbol = name.partition("::")
        source = ROOT / ("" if path.startswith("experiments/") else "src/setwise") / path
        assert source.exists(), f"{name} does not exist"
        assert not symbol or symbol in symbols(source), f"{source} has no {symbol}"
    for name in named(test):
        path, _, symbol = name.partition("::")
        assert (ROOT / path).exists(), f"{name} does not exist"
        assert not symbol or symbol in symbols(ROOT / path), f"{path} has no {symbol}"


def symbols(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_every_row_of_the_papers_map_is_there() -> None:
    rows = " ".join(row[0] for row in map_rows())
    for wanted in (
        "Pure Embedding", "Observation g, h", "Model 1", "Model 2", "Halo MNL", "variety and substitution", "attention graph",
        "lower bound (a)", "lower bound (b)", "hardness of k", "MDK", "cluster", "rank partition", "Phase One preprocess",
        "Phase One query", "phase one", "simplification", "enumeration", "discretisation", "linearisation", "LP rounding", "phase two",
        "Theorem 1", "Table 1", "Table 2", "Figure 3", "Figure 4",
    ):  # fmt: skip
        assert wanted in rows, wanted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert not target.startswith("http"), "the project stands alone"
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_names_both_commands_and_ci_runs_the_second() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda page: page.name
)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(snippet, page.name, "exec"), namespace)
