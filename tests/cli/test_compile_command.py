"""``setwise compile`` through its command line."""

from __future__ import annotations

import sys

import processes
from saved_songs import run, said


def test_compile_states_its_time() -> None:
    out = processes.run([sys.executable, "-m", "setwise", "compile"], check=True)
    assert "The inner loops are compiled" in out.stdout


REQUEST = """
import sys
import numpy as np
import setwise as sw
from setwise.recommend.compilation import compile_requests, load_requests

def compiled():
    of_modules = [vars(module).values() for name, module in [*sys.modules.items()] if name.startswith("setwise.")]
    functions = [one for values in of_modules for one in values if hasattr(one, "signatures")]
    return {(one.__name__, signature) for one in functions for signature in one.signatures}

compile_requests(progress=False)
load_requests()
before = compiled()
points = np.random.default_rng(1).normal(size=(200, 2, 2)).astype(np.float32)
recommender = sw.Recommender(sw.Index.build(sw.Catalog(points, points, points), cells=8, progress=False))
for budget_ms in (100, 1500):
    recommender.explain(recommender.recommend(points[3], k=5, budget_ms=budget_ms))
print(len({name for name, _ in before}), [str(one) for one in compiled() - before])
"""


def test_a_long_request_compiles_nothing_more() -> None:
    out = processes.run([sys.executable, "-c", REQUEST], check=True)
    functions, new = out.stdout.split(maxsplit=1)
    assert int(functions) > 15
    assert new.strip() == "[]"


def test_help_says_when_to_use_it() -> None:
    assert "after installation" in said(run("compile", "--help"))
