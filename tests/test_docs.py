"""The documentation matches the code: links, snippets, the paper map, generated tables, and the site itself."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

import processes
import setwise

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# --- the paper map ---


def paper_map_rows() -> list[list[str]]:
    """The table of the paper map: paper, what it is, code, test, state."""
    lines = (DOCS / "explanation" / "paper-map.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def code_spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def defined_names(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_paper_map_states_what_became_of_each_result() -> None:
    states = re.compile(r"as printed|repaired \([\d, ]+\)|(one|three|nine) readings?|other data|ours")
    errata = (DOCS / "explanation" / "errata.md").read_text()
    rows = paper_map_rows()
    assert [row for row in rows if not states.fullmatch(row[4])] == []
    assert [row for row in rows for number in re.findall(r"\d+", row[4]) if f"\n**{number}. " not in errata] == []


def test_paper_map_names_existing_code_and_tests() -> None:
    missing = []
    for _, _, code, test, _ in paper_map_rows():
        assert code_spans(code)
        assert code_spans(test)
        for name in code_spans(code) + code_spans(test):
            path, _, symbol = name.partition("::")
            file = ROOT / ("" if path.startswith(("experiments/", "tests/")) else "src/setwise") / path
            if not file.exists() or (symbol and symbol not in defined_names(file)):
                missing.append(name)
    assert missing == []


def test_paper_map_has_every_result_of_the_paper() -> None:
    rows = " ".join(row[0] for row in paper_map_rows())
    for wanted in (
        "Pure Embedding", "Observation g, h", "Model 1", "Model 2", "Halo MNL", "variety and substitution", "attention graph",
        "lower bound (a)", "lower bound (b)", "hardness of k", "MDK", "cluster", "rank partition", "Phase One preprocess",
        "Phase One query", "phase one", "simplification", "enumeration", "discretisation", "linearisation", "LP rounding", "phase two",
        "Theorem 1", "Main Algorithm", "Table 1", "Table 2", "Figure 1", "Figure 2", "Figure 3", "Figure 4",
    ):  # fmt: skip
        assert wanted in rows, wanted


# --- pages ---


def test_links_lead_to_existing_files() -> None:
    """Pages link to files of the repository only."""
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())]
    broken = [(page_name(page), link) for page, link in links if not (page.parent / link).exists()]
    assert links
    assert broken == []


def test_every_page_is_reached_from_the_index() -> None:
    """By links of pages, whatever the navigation of the site."""
    waiting, reached = [DOCS / "index.md"], set[Path]()
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = re.findall(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)", page.read_text())
            waiting += [(page.parent / target).resolve() for target in targets]
    assert sorted(page_name(page) for page in {*DOCS.rglob("*.md")} - reached) == []


FILE_NAME = re.compile(r"`((?:src/setwise|tests|experiments|benchmarks|examples|docs|model|kernels|retrieval|ranking|bounds|verification|recommend|training|datasets|preferences|storage|service|cli)/[\w/.-]+\.(?:py|md|csv|gz))`")  # fmt: skip


def test_named_files_exist() -> None:
    missing = [
        f"{page_name(page)}: {name}"
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for name in FILE_NAME.findall(page.read_text().replace("NAME.py", "__init__.py"))
        if not (ROOT / name).exists() and not (ROOT / "src" / "setwise" / name).exists()
    ]
    assert missing == []


WRAPPED = [page for page in PAGES if page.name not in ("results.md", "SECURITY.md")]  # results.md is generated


def test_prose_wraps_at_120_characters() -> None:
    code = re.compile(r"^```.*?^```|^\|.*?$|^    .*?$", flags=re.DOTALL | re.MULTILINE)
    lines = [(page_name(page), line) for page in WRAPPED for line in code.sub("", page.read_text()).splitlines()]
    assert [(name, line) for name, line in lines if len(line) > 120] == []


def test_readme_names_both_commands_and_ci_runs_the_second() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme
    assert "make test" in (ROOT / ".ci" / "run").read_text()


WITH_COMMANDS = ("whole-sets.md", "impressions.md")  # tests/service/test_tutorials.py runs their commands as well
TRAINING, SLOW = ("learning.md",), pytest.mark.nightly  # pages whose snippets train for half a minute
SNIPPETS = [page for page in PAGES if "```python" in page.read_text() and page.name not in WITH_COMMANDS]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=SLOW if page.name in TRAINING else (), id=page_name(page)) for page in SNIPPETS]
)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    for library in re.findall(r"^(?:from|import) (\w+)", "\n".join(snippets), re.MULTILINE):
        pytest.importorskip(library, reason=f"{library} is not installed")
    for snippet in snippets:
        exec(compile(snippet, page.name, "exec"), namespace)


def test_performance_tables_match_the_benchmark_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "generate"))
    tables = importlib.import_module("performance_tables")
    page = tables.PAGE.read_text(encoding="utf-8")
    assert set(tables.TABLES) == set(re.findall(r"<!-- table: (\w+) -->", page))
    assert tables.with_current_tables(page) == page, "run python docs/generate/performance_tables.py"


def test_aligned_rows_of_docstrings_become_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("griffe", reason="mkdocs is not installed: pip install -e '.[docs]'")
    monkeypatch.syspath_prepend(str(DOCS / "generate"))
    with_lists = importlib.import_module("docstring_lists").with_lists
    text = "A set.\n\nrows    which items\n        they are\nvalue   F(S)\n\nMore.\n\n    code  stays"
    assert with_lists(text) == "A set.\n\n* `rows`: which items they are\n* `value`: F(S)\n\nMore.\n\n    code  stays"
    assert with_lists("One. Two.") == "One. Two."


# --- the site ---


@pytest.mark.nightly
def test_site_builds_strictly_without_remote_assets(tmp_path: Path) -> None:
    """A broken link, a page outside the navigation or an unknown API name is a warning, and strict mode fails on it."""
    if any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")):
        pytest.skip("mkdocs is not installed: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = processes.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0, built.stderr
    pages = {str(path.relative_to(tmp_path / "site")): path.read_text() for path in tmp_path.glob("site/**/*.html")}
    for name, text in pages.items():
        assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(?:https?:)?//", text), name
        assert "generated:" not in text, name
    assert "setwise recommend" in pages["reference/cli.html"]
    assert "--budget-ms" in pages["reference/cli.html"]
    assert "POST /v1/recommend" in pages["reference/http.html"]
    assert "SETWISE_DEADLINE_MS" in pages["reference/http.html"]
    assert 'id="setwise.Recommender.recommend"' in pages["reference/python.html"]


# --- files around the code ---


def test_workflows_pin_actions_by_digest() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for action in re.findall(r"uses: (\S+)", path.read_text()):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), f"{path.name}: {action}"


def test_version_is_the_same_everywhere() -> None:
    project = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert project
    assert citation
    assert project[1] == citation[1] == setwise.__version__
