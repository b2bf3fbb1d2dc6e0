"""The benchmark on real baskets, reduced, and the example."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from experiments.cut_samples import cut_lines

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
LINES = 200_000  # of the baskets are read without --large


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "file"), [("Ta-Feng", "ta_feng"), ("Online Retail", "online_retail")])
def test_halo_mnl_predicts_held_out_baskets_better(
    name: str, file: str, shared_data: Path, tmp_path: Path, large: bool
) -> None:
    benchmark, path = script("benchmarks/halo_mnl_baskets.py"), f"sequences/{file}.csv.gz"
    if not large:
        cut_lines(shared_data / path, tmp_path / path, LINES)
    baskets = benchmark.READERS[name](shared_data if large else tmp_path)
    found = benchmark.compare(baskets, n_items=20, seed=1, ridges=(10.0,))
    (_, mnl), (fit, halo) = found.mnl, found.halo
    assert fit.converged
    assert halo.nll < mnl.nll - 0.05
    assert halo.accuracy > mnl.accuracy


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    script("examples/02_halo_assortment.py").main()
    printed = capsys.readouterr().out
    assert "Best sellers" in printed
    assert "optimal: True" in printed
