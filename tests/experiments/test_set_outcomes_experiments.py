"""Proteins and portfolios: the experiments count what was measured, on landscapes and scenarios made here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]


def test_the_best_unseen_set_is_measured_and_unseen() -> None:
    landscape = import_module("landscape")
    land = landscape.simulated(0)
    values = np.arange(len(land.sets), dtype=float)
    seen = land.measured[-5:]
    chosen, skipped = land.best_unseen(values, seen, 3)
    expected = [row for row in land.measured[::-1] if row not in seen][:3]
    assert chosen.tolist() == expected
    assert skipped == np.isnan(land.outcome[expected[-1] :]).sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [60, 150])
def test_ridge_in_both_forms_is_the_least_squares_solution(n: int, weighted: bool) -> None:
    landscape = import_module("landscape")
    land = landscape.simulated(1)
    seen = land.measured[:n]
    target = np.log(land.outcome[seen])
    x = land.pair_columns.toarray()
    counts = np.random.default_rng(0).uniform(0.5, 2.0, n) if weighted else np.ones(n)
    mean, root = np.average(target, weights=counts), np.sqrt(counts)
    augmented = np.vstack([root[:, None] * x[seen], np.eye(x.shape[1])])  # the penalty 1 as further rows
    zeros = np.zeros(x.shape[1])
    effect = np.linalg.lstsq(augmented, np.concatenate([root * (target - mean), zeros]), rcond=None)[0]
    found = landscape.ridge_values(land, seen, target, True, 1.0, counts if weighted else None)
    np.testing.assert_allclose(found, mean + x @ effect, atol=1e-8)


def test_a_small_landscape() -> None:
    proteins, landscape = import_module("proteins"), import_module("landscape")
    land = landscape.simulated(2)
    rows = proteins.unseen_sets(land, 120, draw=0)
    assert len(rows) == 10
    assert all(row["best"] in land.outcome for row in rows)
    gaps = [row["search_gap"] for row in rows if row["method"] == "setwise"]
    assert max(abs(gap) for gap in gaps) < 1e-6
    assert proteins.summary(rows).row_count > 0


def test_rounds_of_a_small_landscape() -> None:
    rounds, landscape = import_module("protein_rounds"), import_module("landscape")
    rows = rounds.run(landscape.simulated(2), 0, plate=12)
    assert len({row["best"] for row in rows if row["n"] == 12}) == 1  # all methods start from the same plate
    of = rounds.curves(rows)
    assert set(of) == set(rounds.DESIGNS)
    for mine in of.values():
        assert mine[0].tolist() == sorted(mine[0].tolist())
        assert len(mine[0]) == rounds.ROUNDS
    between = rounds.ahead(of["setwise", "root"], of["random", "plain"])
    assert between == pytest.approx((of["setwise", "root"][0] - of["random", "plain"][0])[1:].mean())
    assert rounds.summary(rows).row_count == len(rounds.DESIGNS)


def small_scenario(portfolios: ModuleType, features: bool) -> object:
    """Two kinds of instances, seen in the features; solvers 0 and 1 fail together, 2 solves what they do not."""
    rng = np.random.default_rng(0)
    kind = rng.random(120) < 0.6
    solved = np.stack([kind, kind, ~kind, rng.random(120) < 0.2], axis=1).astype(float)
    table = np.stack([rng.normal(size=120), rng.normal(size=120)], axis=1)  # features that say nothing
    table[::7, 0] = np.nan
    return portfolios.Scenario(solved, table if features else None, [str(i % 10) for i in range(120)])


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("split", ["random", "family"])
def test_solvers_that_fail_together_are_not_combined(
    monkeypatch: pytest.MonkeyPatch, features: bool, split: str
) -> None:
    portfolios = import_module("portfolios")
    monkeypatch.setattr(portfolios, "TREES", 20)
    rows = portfolios.run(small_scenario(portfolios, features), "small", split, 0)
    rate = {row["method"]: row["rate"] for row in rows if row["k"] == 2}
    assert rate[portfolios.STATIC] == rate[portfolios.BEST] == 1.0
    assert rate[portfolios.OURS] > rate[portfolios.TOP]
    assert portfolios.summary(rows).row_count == 3


def test_families_of_instances() -> None:
    portfolios = import_module("portfolios")
    assert portfolios.family_of("./SAT02/handmade/li/urquhart3_25bis.cnf") == "SAT02/handmade/li"
    assert portfolios.family_of("bibd/bibd.mzn_AND_bibd/19_03_01.dzn") == "bibd"
    assert portfolios.family_of("normalized-aim-100-2-0-unsat-4_ext.xml.mzn_AND_NODATA") == "aim"


def test_the_data_of_both_experiments(shared_data: Path) -> None:
    landscape, portfolios = import_module("landscape"), import_module("portfolios")
    if not (shared_data / landscape.FILE).exists():
        pytest.skip("the data of sets with outcomes are not here")
    land = landscape.gb1(shared_data)
    assert len(land.sets) == 160_000
    assert len(land.measured) > 100_000
    for name in portfolios.SCENARIOS:
        scenario = portfolios.read(shared_data, name)
        assert set(np.unique(scenario.solved)) == {0.0, 1.0}
        assert 5 <= len(set(scenario.family)) < len(scenario.family)
