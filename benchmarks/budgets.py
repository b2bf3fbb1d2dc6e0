"""Whether requests end within their budget, for small and large k, with one head and with four.

    python benchmarks/budgets.py --data ../shared/data

A request is in time if it ends within 110 % of its budget and 2 ms. The last line measures the machine: loops that only read
the clock for as long as a budget. On a machine that is not idle use ``--processor-time``: every clock, also those that requests
read, is then the processor time of the thread, which other processes do not lengthen except through shared caches. Raw rows go to report/budgets.csv, which is not committed: they are about real users.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import csv
import sys
import time
from pathlib import Path

import numpy as np
from candidates import opened

import setwise as sw

if "--processor-time" in sys.argv:
    time.perf_counter = time.thread_time  # setwise reads no other clock in a request

FIELDS = ("catalogue", "k", "budget_ms", "request", "ms", "retrieve", "rank", "certify", "gap", "proven")
CELLS = 64


def allowed(budget: float) -> float:
    """The most milliseconds that a request with this budget may take."""
    return 1.1 * budget + 2


def measure(recommender: sw.Recommender, people: list, k: int, budget: float) -> list[dict]:
    rows = []
    for number, (user, history) in enumerate(people):
        began = time.perf_counter()
        slate = recommender.recommend(user, k=k, exclude=history, budget_ms=budget)
        ms = 1000 * (time.perf_counter() - began)
        rows.append(
            {"k": k, "budget_ms": budget, "request": number, "ms": ms, "gap": slate.gap}
            | {"proven": slate.proven, **{phase: slate.timings[phase] for phase in ("retrieve", "rank", "certify")}}
        )
    return rows


def table(rows: list[dict]) -> None:
    print(
        f"{'catalogue':>22} {'k':>4} {'budget':>7} {'in time':>8} {'median':>8} {'p99':>8} {'worst':>8} "
        f"{'retrieve':>8} {'rank':>7} {'certify':>8} {'gap %':>7} {'proven':>7}"
    )
    for group in dict.fromkeys((row["catalogue"], row["k"], row["budget_ms"]) for row in rows):
        mine = [row for row in rows if (row["catalogue"], row["k"], row["budget_ms"]) == group]
        ms = np.array([row["ms"] for row in mine])
        phases = [np.median([row[phase] for row in mine]) for phase in ("retrieve", "rank", "certify")]
        gap, proven = (np.mean([row[field] for row in mine]) for field in ("gap", "proven"))
        print(
            f"{group[0]:>22} {group[1]:>4} {group[2]:>7g} {np.mean(ms <= allowed(group[2])):>8.2f} "
            f"{np.median(ms):>8.1f} {np.quantile(ms, 0.99):>8.1f} {ms.max():>8.1f} "
            f"{phases[0]:>8.1f} {phases[1]:>7.1f} {phases[2]:>8.1f} {100 * gap:>7.1f} {proven:>7.2f}"
        )
    for name in dict.fromkeys(row["catalogue"] for row in rows):
        mine = [row for row in rows if row["catalogue"] == name]
        kept = np.mean([row["ms"] <= allowed(row["budget_ms"]) for row in mine])
        print(f"  {name}: {len(mine)} requests, {100 * kept:.1f} % in time")


def idle_loops(budgets: list[float], count: int) -> float:
    """The share of loops over the length of a budget that end in time, though they only read the clock."""
    kept = []
    for budget in budgets * count:
        began = time.perf_counter()
        while time.perf_counter() - began < budget / 1000:
            pass
        kept.append(1000 * (time.perf_counter() - began) <= allowed(budget))
    return float(np.mean(kept))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--requests", type=int, default=50, help="for each catalogue, k and budget")
    parser.add_argument("--ks", type=int, nargs="+", default=[1, 5, 20, 100, 400])
    parser.add_argument("--budgets", type=float, nargs="+", default=[5, 20, 50, 200])
    parser.add_argument("--catalogues", nargs="+", default=["playlists_one_head", "playlists_four_heads"])
    parser.add_argument(
        "--processor-time", action="store_true", help="count the thread's processor time, not the wall clock"
    )
    parser.add_argument("--out", type=Path, default=Path("report/budgets.csv"))
    options = parser.parse_args()
    rows: list[dict] = []
    for name in options.catalogues:
        catalog, users, histories = opened(options.data / "catalogs" / f"{name}.npz")
        recommender = sw.Recommender(sw.Index.build(catalog, cells=CELLS, progress=False))
        seen = [catalog.ids[np.unique(history)] for history in histories[: options.requests]]
        people = list(zip(users, seen, strict=False))
        for k in options.ks:
            measure(recommender, people[:2], k, max(options.budgets))  # arrays in memory before the clock runs
            for budget in options.budgets:
                rows += [{"catalogue": name, **row} for row in measure(recommender, people, k, budget)]
            print(f"  {name}, k = {k}: done", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    table(rows)
    print(f"loops that only read the clock: {100 * idle_loops(options.budgets, 50):.1f} % in time")


if __name__ == "__main__":
    main()
