"""The grid of Figure 3: its cells, its catalogues, margins by hand, and a run in miniature by one and two processes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import setwise as sw

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]


@pytest.fixture
def grid() -> ModuleType:
    return import_module("figure_3_grid")


@pytest.fixture
def page() -> ModuleType:
    return import_module("grid_page")


@pytest.fixture(scope="module")
def miniature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays as those of shared/data/catalogs, one head."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (folder / "catalogs").mkdir()
    arrays = {name: rng.normal(size=(200, 1, 3)).astype(np.float32) for name in ("query", "key", "value")}
    users = rng.normal(size=(3, 1, 3)).astype(np.float32)
    path = folder / "catalogs" / "playlists_one_head.npz"
    np.savez(path, **arrays, user_heads=users, scale=0.5, bias=-1.0, history=rng.integers(200, size=(3, 15)))
    return folder


def test_cells_are_those_of_the_issue(grid: ModuleType) -> None:
    every = list(grid.cells(grid.READY_MADE))
    assert len(every) == len(set(every))
    strong = [cell for cell in every if cell[0] == "playlists_one_head"]
    assert {m for _, _, m, _, _ in strong} == {20, 40, 80, 160, 320, 640}
    assert {k for _, k, _, _, _ in every} == {5, 10}
    assert {factor for *_, factor in every} == {0.25, 0.5, 1.0, 2.0, 4.0}
    assert grid.USERS >= 60


def test_offsets_move_the_bias_and_factors_the_logits(grid: ModuleType, miniature: Path) -> None:
    made = grid.Grid(miniature, grid.Recipe.quick(0), None, 3)
    plain, moved = made.catalog("playlists_one_head", 0.0, 1.0), made.catalog("playlists_one_head", -2.0, 4.0)
    np.testing.assert_allclose(moved.query, 4 * plain.query)
    np.testing.assert_array_equal(moved.value, plain.value)
    (reward,) = moved.rewards
    assert (reward.scale, reward.bias) == (0.5, -3.0)


def test_a_row_is_what_the_ranker_finds(grid: ModuleType, miniature: Path) -> None:
    made = grid.Grid(miniature, grid.Recipe.quick(0), None, 4)
    cell = ("playlists_one_head", 5, 40, -2.0, 1.0)
    rows = {(row["retrieval"], row["ranker"]): row["value"] for row in made.rows(cell, [1])}
    candidates = made.retrieved(cell, 1)
    assert len(candidates["phase one"]) == len(candidates["k-nn"])
    user = made.trained("playlists_one_head").users[1]
    near = sw.Instance.from_catalog(made.catalog("playlists_one_head", -2.0, 1.0), user, candidates["phase one"])
    assert rows["phase one", "greedy"] == sw.rank(near, 5, "greedy").value
    assert rows["phase one", "beam, first"] == sw.rank(near, 5, "beam", solutions=4, order="first").value
    assert rows["phase one", "beam, last"] == pytest.approx(rows["phase one", "greedy"]), "it never improves on greedy"
    assert rows["both", "best known"] == max(rows.values())
    assert rows["phase one", "best known"] == max(value for (where, _), value in rows.items() if where == "phase one")
    assert len(rows) == 7 + 5 + 2


def handmade(values: dict[tuple[str, str], list[float]]) -> list[dict]:
    about = {"catalogue": "c", "k": 5, "candidates": 20, "offset": 0.0, "sharpness": 1.0}
    return [
        about | {"user": user, "retrieval": retrieval, "ranker": ranker, "value": value}
        for (retrieval, ranker), each in values.items()
        for user, value in enumerate(each)
    ]


def test_margins_by_hand(page: ModuleType) -> None:
    (one,) = page.measured(handmade({("both", "best known"): [4.0, 2.0], ("phase one", "greedy"): [3.0, 1.0]}))
    assert one.base_rate == pytest.approx(3 / 5)
    assert one.share("greedy") == pytest.approx(2 / 3)
    gained, error = one.margin(("both", "best known"), ("phase one", "greedy"))
    assert gained == pytest.approx(50)
    left = np.array([4.0, 2.0]) - 1.5 * np.array([3.0, 1.0])
    assert error == pytest.approx(100 * left.std(ddof=1) / np.sqrt(2) / 2)


def test_margins_that_reach_the_papers(page: ModuleType) -> None:
    every = {method: [1.0, 3.0] for methods in page.MARGINS.values() for method in methods}
    every |= {("phase one", "paper"): [1.25, 3.75], ("both", "best known"): [1.5, 4.5], ("k-nn", "paper"): [1.2, 3.6]}
    every |= {
        ("phase one", "best known"): [1.3, 3.9],
        ("phase one", "top-k"): [1.0, 1.0],
        ("phase one", "greedy"): [1.0, 1.0],
    }
    (one,) = page.measured(handmade(every))
    text = page.reached([one]).removeprefix(page.REACHED)
    assert [line.split(" | ")[2:] for line in text.splitlines()] == [
        [f"{what}", "1 of 1", "0.60", "20", "+25.0", "+30.0", "+20.56 |"]
        for what in ("Phase Two over beam by total", "Phase Two over (j,1,…,1)", "Phase Two over (1,…,1,j)")
    ]
    assert page.line(one)[7] == "+4.2 ± 0.0 of +25.0"


def test_cells_that_were_not_measured_are_listed(page: ModuleType) -> None:
    cells = page.measured(handmade({("both", "best known"): [4.0, 2.0], ("phase one", "greedy"): [3.0, 1.0]}))
    there = cells[0].cell
    assert page.missing(cells, [there]) == ""
    text = page.missing(
        cells, [there, ("playlists_four_heads", 10, 40, -2.0, 1.0), ("playlists_four_heads", 10, 160, 0.0, 4.0)]
    )
    last = "| playlists four heads | 10 | 40 candidates, offset -2; 160 candidates, offset 0, sharpness 4 |\n"
    assert text == page.LEFT + last


@pytest.mark.parametrize("jobs", [1, 2])
def test_in_miniature(grid: ModuleType, miniature: Path, tmp_path: Path, jobs: int) -> None:
    out = tmp_path / "rows.csv"
    command = ["--quick", "--data", str(miniature), "--catalogues", "playlists_one_head", "--k", "5"]
    rows = grid.main([*command, "--jobs", str(jobs), "--out", str(out)])
    assert len(rows) == 2 * 5 * 3 * 14  # numbers of candidates, offsets, users, methods
    again = grid.main([*command, "--out", str(out)])
    assert len(again) == len(rows), "nothing is run twice"
    grid.main(["--out", str(out), "--page", str(tmp_path / "grid.md")])
    text = (tmp_path / "grid.md").read_text()
    assert text.count("\n| 5 | ") == 10
    assert "3 users in every cell" in text
    assert (tmp_path / "figures" / "figure_3_grid_playlists_one_head.png").stat().st_size > 1000
