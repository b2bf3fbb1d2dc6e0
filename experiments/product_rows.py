"""The rows of the README: what a user gains, each number read from a table of ``docs/evidence``.

    python experiments/product_rows.py        fills the marked block of the README again, after an edit of those pages

``report.py --docs`` does the same. A row whose tables are missing is left out. At most six rows: the README is the
place for what decides whether to try setwise, the pages have everything else, with what did not reproduce.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from page import Grid, table

MARKS = ("<!-- results -->", "<!-- /results -->")
HEADINGS = ("what you gain", "setwise", "instead")
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Cell:
    """A cell of a table: in the row that has all of ``row`` among its cells, under the heading ``column``."""

    page: str
    row: tuple[str, ...]
    column: str


@dataclass(frozen=True)
class Product:
    """One row; {name} stands for a number of ``cells``."""

    what: str
    setwise: str
    instead: str
    cells: dict[str, Cell]


HITS, ALL = "recommender.md", "results.md"
DATA = ("MPD", "Polimi", "Online Retail", "Beauty")
BEST_PEER = ("item-kNN", "item-kNN", "item-kNN", "SASRec")
SONGS, LOOP, PROTEIN = ("playlists_one_head", "10"), ("set effects",), ("10,000", "plain")
PRODUCTS = (
    Product(
        "hits of ten on held-out sessions of four public data sets",
        "{s0}, {s1}, {s2}, {s3}",
        "the best of item-kNN, EASE, ALS and SASRec: {p0}, {p1}, {p2}, {p3}; such data show no set effects, so the "
        "gain is that of the trained scores",
        {f"s{at}": Cell(HITS, ("**setwise**",), data) for at, data in enumerate(DATA)}
        | {f"p{at}": Cell(HITS, (peer,), data) for at, (data, peer) in enumerate(zip(DATA, BEST_PEER, strict=True))},
    ),
    Product(
        "true hits of ten where items help and hinder each other, learned from logged slates (simulated)",
        "{setwise} of at most {best}",
        "greedy with the same model: setwise has {greedy} times its hits; without attention: {plain} times",
        {
            "setwise": Cell(ALL, LOOP, "setwise"),
            "best": Cell(ALL, LOOP, "best"),
            "greedy": Cell(ALL, LOOP, "over k-NN + greedy, same model"),
            "plain": Cell(ALL, LOOP, "over pure embedding's top ten"),
        },
    ),
    Product(
        "fitness of the best protein proposed from 10,000 measured ones (GB1, wild type 1)",
        "{setwise}",
        "additive regression {additive}, pairwise {pairwise}; pairwise with the link of setwise {link}, within the "
        "error: here the link counts most",
        {
            name: Cell(ALL, (*PROTEIN, model), "best unseen set")
            for name, model in (
                ("setwise", "setwise"),
                ("additive", "additive"),
                ("pairwise", "pairwise"),
                ("link", "pairwise with link"),
            )
        },
    ),
    Product(
        "share of the best known value, 10 of 33,528 songs",
        "{setwise}",
        "greedy {greedy}, top-k {top}",
        {
            name: Cell(ALL, (*SONGS, method), "mean share")
            for name, method in (("setwise", "recommender"), ("greedy", "greedy"), ("top", "top-k"))
        },
    ),
    Product(
        "proven after 200 ms: how much better any other slate of 5, 10 of these songs may be",
        "{five}, {ten}",
        "no bound; with four attention heads {five_of_four}, {ten_of_four}, as bounds are looser there",
        {
            name: Cell(ALL, (f"playlists_{heads}", "33,528", k, "200 ms"), "mean gap")
            for name, heads, k in (
                ("five", "one_head", "5"),
                ("ten", "one_head", "10"),
                ("five_of_four", "four_heads", "5"),
                ("ten_of_four", "four_heads", "10"),
            )
        },
    ),
    Product(
        "time of a request for 10 items of 100,000, 3,000,000, without a bound",
        "{small} ms, {large} ms",
        "vector search alone {search_small} ms, {search_large} ms: the rest is the search of sets",
        {
            name: Cell(ALL, ("bootstrapped", "tree", n, "10", "1", "256"), column)
            for name, n, column in (
                ("small", "100,000", "whole request ms"),
                ("large", "3,000,000", "whole request ms"),
                ("search_small", "100,000", "retrieve ms"),
                ("search_large", "3,000,000", "retrieve ms"),
            )
        },
    ),
)


def filled(readme: str, docs: Path) -> str:
    """The text of the README with the rows of the pages in ``docs`` between its marks."""
    before, _, rest = readme.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return f"{before}{MARKS[0]}\n{table(Grid(HEADINGS, rows_from(docs)))}\n{MARKS[1]}{after}"


def rows_from(docs: Path) -> list[list[str]]:
    """The rows whose cells the pages have."""
    rows = []
    for product in PRODUCTS:
        numbers = {name: look_up(docs, cell) for name, cell in product.cells.items()}
        if None not in numbers.values():
            rows.append([text.format(**numbers) for text in (product.what, product.setwise, product.instead)])
    return rows


def look_up(docs: Path, cell: Cell) -> str | None:
    """The number in this cell, without its comment in brackets; None where no table has it."""
    path = docs / cell.page
    for headings, row in _cells_of(path.read_text(encoding="utf-8")) if path.exists() else ():
        if cell.column in headings and all(wanted in row for wanted in cell.row):
            return row[headings.index(cell.column)].strip("*").partition(" (")[0]
    return None


def _cells_of(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The rows of all tables, each with the headings of its table."""
    headings: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if not line.startswith("|"):
            headings = []
        elif not headings:
            headings = cells
        else:
            yield headings, cells


def main() -> None:
    """Fill the README again."""
    path = ROOT / "README.md"
    draft = path.with_name("README.md.draft")
    draft.write_text(filled(path.read_text(encoding="utf-8"), ROOT / "docs" / "evidence"), encoding="utf-8")
    os.replace(draft, path)


if __name__ == "__main__":
    main()
