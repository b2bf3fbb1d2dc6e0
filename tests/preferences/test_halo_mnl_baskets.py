"""The benchmark on real baskets, reduced, and the example."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["Ta-Feng", "Online Retail"])
def test_halo_mnl_predicts_held_out_baskets_better(name: str, shared_data: Path) -> None:
    benchmark = script("benchmarks/halo_mnl_baskets.py")
    found = benchmark.compare(benchmark.READERS[name](shared_data), n_items=20, seed=1, ridges=(10.0,))
    (_, mnl), (fit, halo) = found.mnl, found.halo
    assert fit.converged
    assert halo.nll < mnl.nll - 0.05
    assert halo.accuracy > mnl.accuracy


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    script("examples/02_halo_assortment.py").main()
    printed = capsys.readouterr().out
    assert "Best sellers" in printed
    assert "optimal: True" in printed
