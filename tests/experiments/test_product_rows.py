"""The rows of the README are those of the pages of evidence."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "evidence"


@pytest.fixture
def rows() -> ModuleType:
    return import_module("product_rows")


def test_the_readme_has_the_rows_of_the_evidence(rows: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text()
    assert all(readme.count(mark) == 1 for mark in rows.MARKS)
    assert rows.filled(readme, DOCS) == readme, "run python experiments/product_rows.py"
    assert len(rows.rows_from(DOCS)) == len(rows.PRODUCTS) <= 6


def test_the_rivals_are_the_best_ones(rows: ModuleType) -> None:
    peers = ("item-kNN", "EASE", "ALS", "SASRec")
    for data, best in zip(rows.DATA, rows.BEST_PEER, strict=True):
        hits = {peer: float(rows.look_up(DOCS, rows.Cell(rows.HITS, (peer,), data))) for peer in peers}
        assert max(hits, key=lambda peer: hits[peer]) == best


def test_rows_follow_the_tables_and_missing_ones_are_left_out(rows: ModuleType, tmp_path: Path) -> None:
    text = "| world | seed | best | setwise | over k-NN + greedy, same model | over pure embedding's top ten |\n| - |\n"
    (tmp_path / "results.md").write_text(f"{text}| set effects | 2 | 9.876 | 5.432 | 1.5 | 1.25 |\n")
    (row,) = rows.rows_from(tmp_path)
    assert row[1] == "5.432 of at most 9.876"
    readme = rows.filled("above\n<!-- results -->\nold\n<!-- /results -->\nbelow\n", tmp_path)
    assert readme.startswith("above\n<!-- results -->\n| what you gain | setwise | instead |\n")
    assert "old" not in readme
    assert readme.endswith("|\n<!-- /results -->\nbelow\n")
