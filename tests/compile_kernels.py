"""Compile the kernels that most tests use, in three processes, before the test processes start.

Without this every test process would compile the same functions at the same time.

    python tests/compile_kernels.py      # what `make test` calls; a second call finds everything compiled
"""

from __future__ import annotations

import subprocess
import sys

SEARCHES = """
import numpy as np, setwise as sw
from setwise.ranking import warm_up
warm_up()
rewards = ([sw.Logistic(), sw.Linear()], [0, 1, 0, 1, 0, 1])
points = np.random.default_rng(0).normal(size=(6, 2, 3))
for reward in (sw.Logistic(), rewards):
    instance = sw.Instance.from_catalog(sw.Catalog(points, points, points, reward=reward), points[0], np.arange(6))
    for ranker in ("exhaustive", "swap", "exact", "lp_search"):
        sw.rank(instance, 2, ranker)
    sw.upper_bound(instance, 2)
"""
CATALOGUE = """
import numpy as np, setwise as sw
for heads in (1, 2):
    points = np.random.default_rng(0).normal(size=(500, heads, 3))
    for backend in ("scan", "tree"):
        index = sw.Index.build(sw.Catalog(points, points, points), cells=4, backend=backend, progress=False)
        index.candidates(points[0], 2)
    from setwise.bounds.catalog.cells import CellBounds
    from setwise.bounds.catalog.whole_catalog import compile_search
    compile_search(CellBounds.build(index.catalog), index.catalog.user(points[0]))
"""
DOUBLE = """
import numpy as np, setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import whole_catalog_bound
points = np.random.default_rng(0).normal(size=(500, 1, 3))
whole_catalog_bound(CellBounds.build(sw.Catalog(points, points, points, dtype=np.float64)), points[0], 3)
from setwise.recommend.compilation import compile_requests
compile_requests(progress=False)  # what every service loads before it starts; the rest of it is compiled by now
"""


def main() -> int:
    """Run the programs; the status is that of the first that failed."""
    running = [subprocess.Popen([sys.executable, "-c", code]) for code in (SEARCHES, CATALOGUE, DOUBLE)]
    return next((status for status in [each.wait() for each in running] if status), 0)


if __name__ == "__main__":
    sys.exit(main())
