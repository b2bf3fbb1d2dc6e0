"""Does a request keep its budget, and what does its time buy.

    python benchmarks/requests.py --data ../shared/data

Requests to a ``Recommender`` on the trained playlist catalogues with a budget for everything: how many came within it and
within 10 % more, how long the median and the slowest hundredth took, the mean gap over the whole catalogue, and how
many were proven. A last line pins what the machine itself did meanwhile: how late a plain sleep of 5 ms came back.
"""

from __future__ import annotations

import argparse
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import time
from pathlib import Path

import numpy as np
from candidates import opened

import setwise as sw


def measure(
    recommender: sw.Recommender, users: list, histories: np.ndarray, k: int, budget: float, requests: int
) -> None:
    ids = recommender.index.catalog.ids
    took, gaps, proven = [], [], []
    for number in range(requests):
        user, history = users[number % len(users)], ids[np.unique(histories[number % len(users)])]
        start = time.perf_counter()
        slate = recommender.recommend(user, k=k, exclude=history, budget_ms=budget)
        took.append(1000 * (time.perf_counter() - start))
        gaps.append(slate.gap)
        proven.append(slate.proven)
    late = np.array(took)
    print(
        f"{k:>4} {budget:>7.0f} {requests:>9} {np.mean(late <= budget):>8.3f} {np.mean(late <= 1.1 * budget):>11.3f} {np.median(late):>10.1f} "
        f"{np.quantile(late, 0.99):>8.1f} {100 * np.mean(gaps):>7.2f} {np.mean(proven):>7.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--budgets", type=float, nargs="+", default=[50, 100, 200])
    parser.add_argument("--catalogues", nargs="+", default=["playlists_one_head", "playlists_four_heads"])
    options = parser.parse_args()
    for name in options.catalogues:
        catalog, users, histories = opened(options.data / "catalogs" / f"{name}.npz")
        start = time.perf_counter()
        recommender = sw.Recommender(sw.Index.build(catalog, cells=64))
        print(f"{name}: made in {time.perf_counter() - start:.1f} s")
        print(
            f"{'k':>4} {'budget':>7} {'requests':>9} {'within':>8} {'within 110%':>11} {'median ms':>10} {'p99 ms':>8} {'gap %':>7} {'proven':>7}"
        )
        for k in (5, 10):
            for budget in options.budgets:
                measure(recommender, users, histories, k, budget, options.requests)
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
