"""Upper bounds over whole catalogues: the gap of a slate and the time of the bound.

    python benchmarks/whole_catalog.py --data ../shared/data

Trained catalogues, held-out users: the best set that the ranker finds among Phase One's candidates, and the bound on every set
of the catalogue after budgets of time; with --learned also those that learned_catalogs.py trains. Then the simulated world at growing numbers of items. One thread. A row holds the user's
value, the bound, the gap (bound − value) / bound for the value known before the certificate and for the best known after it
(the search may meet a better set), and the time. Raw rows go to report/whole_catalog.csv, which is not committed: some are
about real users.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from candidates import opened

import setwise as sw
from setwise.bounds.catalog.cells import CellBounds
from setwise.bounds.catalog.whole_catalog import whole_catalog_bound
from setwise.datasets.synthetic import World
from setwise.model.eligibility import Eligibility

FIELDS = (
    "catalogue", "n", "cells", "build_s", "bytes", "k", "user", "budget_ms", "known", "value", "upper_bound", "gap_known",
    "gap", "proven", "nodes", "opened", "ms", "cpu_ms",
)  # fmt: skip


def rows_of(
    name: str,
    catalog: sw.Catalog,
    people: list[tuple[sw.User, np.ndarray]],
    ks: list[int],
    budgets: list[float],
    cells: int | None,
) -> Iterator[dict]:
    start = time.perf_counter()
    bounds = CellBounds.build(catalog, cells=cells)
    build = time.perf_counter() - start
    size = sum(array.nbytes for array in bounds.to_arrays().values())
    index = sw.Index.build(catalog, cells=64, progress=False)
    whole_catalog_bound(bounds, people[0][0], 2, budget_ms=20)  # compiled, or loaded, before the clock runs
    for k in ks:
        for number, (user, history) in enumerate(people):
            candidates = index.candidates(user, per_cell=k, exclude=history)
            known = sw.rank(sw.Instance.from_catalog(catalog, user, candidates), k, "swap").value
            for budget in budgets:
                cpu = time.thread_time()
                found = whole_catalog_bound(
                    bounds, user, k, known, eligible=Eligibility.of(bounds.catalog, exclude=history), budget_ms=budget
                )
                cpu = 1000 * (time.thread_time() - cpu)
                yield dict(zip(FIELDS, (
                    name, len(catalog), bounds.partition.n_cells, build, size, k, number, budget, known, found.value,
                    found.upper_bound, 1 - known / found.upper_bound, found.gap, found.proven, found.nodes, found.opened,
                    found.ms, cpu,
                ), strict=True))  # fmt: skip


def table(rows: list[dict]) -> None:
    print(
        f"{'catalogue':>22} {'n':>8} {'k':>3} {'budget':>7} {'gap, known':>11} {'gap':>7} {'median':>7} {'worst':>7} {'proven':>7} {'nodes':>7} {'opened':>7} {'ms':>7} {'cpu ms':>7}"
    )
    for group in dict.fromkeys((row["catalogue"], row["n"], row["k"], row["budget_ms"]) for row in rows):
        mine = [row for row in rows if (row["catalogue"], row["n"], row["k"], row["budget_ms"]) == group]
        means = [
            float(np.mean([row[field] for row in mine]))
            for field in ("gap_known", "gap", "proven", "nodes", "opened", "ms", "cpu_ms")
        ]
        worst, median = max(row["gap"] for row in mine), float(np.median([row["gap"] for row in mine]))
        print(
            f"{group[0]:>22} {group[1]:>8} {group[2]:>3} {group[3]:>7g} {means[0]:>11.4f} {means[1]:>7.4f} {median:>7.4f} {worst:>7.4f} {means[2]:>7.2f} {means[3]:>7.0f} {means[4]:>7.0f} {means[5]:>7.1f} {means[6]:>7.1f}"
        )
    for name, n, cells, build, size in dict.fromkeys(
        (row["catalogue"], row["n"], row["cells"], row["build_s"], row["bytes"]) for row in rows
    ):
        print(f"  offline: {name}, {n} items: {cells} cells in {build:.1f} s, {size / 1e6:.2f} MB beside the catalogue")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--cells", type=int, help="fine cells; the default rule without")
    parser.add_argument("--ks", type=int, nargs="*", default=[5, 10])
    parser.add_argument("--budgets", type=float, nargs="*", default=[10, 100])
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000], help="items of the simulated world"
    )
    parser.add_argument("--trained", nargs="*", default=["playlists_one_head", "playlists_four_heads"])
    parser.add_argument("--learned", type=Path, help="a folder that learned_catalogs.py wrote: its catalogues too")
    parser.add_argument("--out", type=Path, default=Path("report/whole_catalog.csv"))
    options = parser.parse_args()
    rows: list[dict] = []
    learned = sorted(options.learned.glob("*.npz")) if options.learned else []
    for path in [*(options.data / "catalogs" / f"{name}.npz" for name in options.trained), *learned]:
        name = path.stem
        catalog, users, histories = opened(path)
        people = [(users[number], np.unique(histories[number])) for number in range(options.users)]
        rows += rows_of(name, catalog, people, options.ks, options.budgets, options.cells)
        print(f"  {name}: done", flush=True)
    for n in options.sizes:
        world = World.make(n, n_users=min(20, options.users))
        people = [(world.user(history), np.unique(history)) for history in world.histories]
        rows += rows_of("simulated", world.catalog, people, options.ks, options.budgets, options.cells)
        print(f"  simulated, {n} items: done", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    table(rows)


if __name__ == "__main__":
    main()
