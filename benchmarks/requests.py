"""Time and gap of requests with a budget.

    python benchmarks/requests.py --data ../shared/data

Requests to a ``Recommender`` on the trained playlist catalogues with a budget for everything: how many came within it and
within 10 % more, how long the median and the slowest hundredth took, the mean gap over the whole catalogue, and how
many were proven. The last line measures the machine itself: the delay of a sleep of 5 ms.
``--out`` keeps a row a request; they are about real users and not committed.
"""

from __future__ import annotations

import argparse
import csv
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import time
from pathlib import Path

import numpy as np
from candidates import opened

import setwise as sw

FIELDS = ("catalogue", "items", "cells", "k", "budget_ms", "request", "ms", "value", "upper_bound", "gap", "proven")
CELLS = 64


def measure(
    recommender: sw.Recommender, users: list, histories: np.ndarray, k: int, budget: float, requests: int
) -> list[dict]:
    ids = recommender.index.catalog.ids
    rows = []
    for number in range(requests):
        user, history = users[number % len(users)], ids[np.unique(histories[number % len(users)])]
        start = time.perf_counter()
        slate = recommender.recommend(user, k=k, exclude=history, budget_ms=budget)
        took = 1000 * (time.perf_counter() - start)
        found = {name: getattr(slate, name) for name in ("value", "upper_bound", "gap", "proven")}
        rows.append({"k": k, "budget_ms": budget, "request": number, "ms": took, **found})
    ms, gaps, proven = (np.array([row[name] for row in rows]) for name in ("ms", "gap", "proven"))
    print(
        f"{k:>4} {budget:>7.0f} {requests:>9} {np.mean(ms <= budget):>8.3f} {np.mean(ms <= 1.1 * budget):>11.3f} {np.median(ms):>10.1f} "
        f"{np.quantile(ms, 0.99):>8.1f} {100 * np.mean(gaps):>7.2f} {np.mean(proven):>7.2f}",
        flush=True,
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--budgets", type=float, nargs="+", default=[50, 100, 200])
    parser.add_argument("--catalogues", nargs="+", default=["playlists_one_head", "playlists_four_heads"])
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows")
    options = parser.parse_args()
    rows: list[dict] = []
    for name in options.catalogues:
        catalog, users, histories = opened(options.data / "catalogs" / f"{name}.npz")
        start = time.perf_counter()
        recommender = sw.Recommender(sw.Index.build(catalog, cells=CELLS))
        print(f"{name}: made in {time.perf_counter() - start:.1f} s")
        print(
            f"{'k':>4} {'budget':>7} {'requests':>9} {'within':>8} {'within 110%':>11} {'median ms':>10} {'p99 ms':>8} {'gap %':>7} {'proven':>7}"
        )
        for k in (5, 10):
            for budget in options.budgets:
                found = measure(recommender, users, histories, k, budget, options.requests)
                rows += [{"catalogue": name, "items": len(catalog), "cells": CELLS, **row} for row in found]
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
    sleeps = []
    for _ in range(200):
        start = time.perf_counter()
        time.sleep(0.005)
        sleeps.append(1000 * (time.perf_counter() - start) - 5)
    print(
        f"a sleep of 5 ms came back {np.median(sleeps):.2f} ms late (median), {np.quantile(sleeps, 0.99):.2f} (slowest hundredth)"
    )


if __name__ == "__main__":
    main()
