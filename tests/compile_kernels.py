"""Compile the kernels before the test processes start, which would all compile the same ones at the same time.

    python tests/compile_kernels.py      # what `make test` calls; a second call finds everything compiled

The parts are those that setwise compiles after an installation. Beside them come the functions that only tests and
experiments call, or call with other types than requests do.
"""

from __future__ import annotations

import numpy as np

import setwise as sw
from setwise.recommend.compilation import compile_requests


def compile_others() -> None:
    """Rewards of two kinds, and rankers that no request uses by default."""
    rewards = ([sw.Logistic(), sw.Linear()], [0, 1, 0, 1, 0, 1])
    points = np.random.default_rng(0).normal(size=(6, 2, 3))
    for reward in (sw.Logistic(), rewards):
        instance = sw.Instance.from_catalog(sw.Catalog(points, points, points, reward=reward), points[0], np.arange(6))
        for ranker in ("exhaustive", "swap", "exact"):
            sw.rank(instance, 2, ranker)
        sw.upper_bound(instance, 2)


if __name__ == "__main__":
    compile_requests()
    compile_others()
