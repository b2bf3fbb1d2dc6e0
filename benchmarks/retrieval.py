"""Time to find the best items of every cell: all retrieval backends side by side, one thread, in one run.

    python benchmarks/retrieval.py                    10^5 to 3·10^6 items, about six minutes
    python benchmarks/retrieval.py --sizes 100000     one size
    python benchmarks/retrieval.py --large            10^7 items as well (needs 16 GB)

Two kinds of vectors: ``trained``, as a trained model has them (few directions matter, queries, keys and values come from one
latent vector, so that cells hold similar values), and ``isotropic``, where nothing can be pruned. Times are medians over users,
the backends taking turns; ``of numpy`` is the ratio to the numpy backend serving one user in
the same run. ``matrix`` is what numpy needs for each of 32 users at once in one matrix product, the best of every cell not
yet sought: compare it with ``ms of 32``. The probe is the bandwidth that memory has: one dot product of all vectors with
themselves. Raw rows go to benchmarks/rows/retrieval.csv; the tables are derived from them.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

import setwise as sw
from setwise.retrieval.backends.protocol import BACKENDS, Hits
from setwise.retrieval.clusters import clusters

D, K = 64, 10
SIZES = (100_000, 300_000, 1_000_000, 3_000_000)
FAST = ("numpy", "scan", "tree", "faiss")  # the others are references: 10^5 items at most
FIELDS = (
    "data",
    "n",
    "cells",
    "backend",
    "build_s",
    "megabytes",
    "recall",
    "ms_1",
    "ms_32",
    "of_numpy_1",
    "of_numpy_32",
    "matrix_ms_32",
    "probe_ms",
)


def trained(n: int, rng: np.random.Generator) -> tuple[sw.Catalog, np.ndarray]:
    """Latent vectors in groups; values in D dimensions with a decaying spectrum, queries and keys in eight."""
    latent = 24
    group = rng.normal(size=(500, latent))
    to_value = rng.normal(size=(latent, D)) * np.linspace(1.5, 0.3, latent)[:, None]
    to_query, to_key = 0.4 * rng.normal(size=(2, latent, 8))
    query, key, value = (np.empty((n, width), np.float32) for width in (8, 8, D))
    for start in range(0, n, 1 << 18):  # piece by piece: ten million items in float64 would not fit
        rows = slice(start, min(n, start + (1 << 18)))
        x = group[rng.integers(500, size=rows.stop - start)]
        x = x + 0.5 * rng.normal(size=x.shape)
        query[rows], key[rows] = x @ to_query, x @ to_key
        value[rows] = x @ to_value + 0.15 * rng.normal(size=(len(x), D))
    catalog = sw.Catalog(query, key, value)
    return catalog, catalog.value[rng.integers(n, size=(32, 5)), 0].mean(axis=1)


def isotropic(n: int, rng: np.random.Generator) -> tuple[sw.Catalog, np.ndarray]:
    catalog = sw.Catalog(*(rng.standard_normal((n, width), np.float32) for width in (8, 8, D)))
    return catalog, rng.normal(size=(32, D)).astype(np.float32)


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def recall(hits: Hits, truth: Hits, size: np.ndarray) -> float:
    """The share of each cell's true best that was found, by score: a tie counts, up to rounding of ‖v‖‖u‖, the size (B, 1, 1)."""
    last = np.min(np.where(truth.rows >= 0, truth.scores, np.inf), axis=2, keepdims=True)
    found = hits.scores >= last - 1e-6 * size
    return float(found.sum() / (truth.rows >= 0).sum())


def measure(kind: Callable, n: int, cells: int, names: list[str], repeats: int) -> list[dict]:
    rng = np.random.default_rng(0)
    catalog, users = kind(n, rng)
    cell_of = clusters(catalog, cells).cell_of
    vectors = catalog.value.reshape(n, -1)
    indexes, rows = {}, {}
    for name in names:
        start = time.perf_counter()
        indexes[name] = BACKENDS[name].load().build(vectors, cell_of, cells)
        rows[name] = {
            "data": kind.__name__,
            "n": n,
            "cells": cells,
            "backend": name,
            "build_s": time.perf_counter() - start,
        }
        rows[name]["megabytes"] = sum(array.nbytes for array in indexes[name].arrays().values()) / 1e6
        print(f"  {kind.__name__} {n:,}: built {name} in {rows[name]['build_s']:.1f} s", flush=True)
    flat = vectors.reshape(-1)
    probe = min(milliseconds(lambda: flat @ flat) for _ in range(5))
    scores = np.empty((32, n), np.float32)
    matrix = min(milliseconds(lambda: np.matmul(users, vectors.T, out=scores)) for _ in range(3)) / 32
    size = (np.linalg.norm(vectors, axis=1).max() * np.linalg.norm(users, axis=1))[:, None, None]
    truth = indexes["numpy"].search(users, K)
    alone: dict[str, list[float]] = {name: [] for name in names}
    together: dict[str, list[float]] = {name: [] for name in names}
    for name, index in indexes.items():
        rows[name]["recall"] = recall(index.search(users, K), truth, size)  # also the warm-up
        index.search(users[:1], K)
    for turn in range(repeats):
        for name, index in indexes.items():
            alone[name].append(milliseconds(lambda: index.search(users[turn % 32][None], K)))  # noqa: B023
    for _ in range(max(2, repeats // 8)):
        for name in set(names) & set(FAST):
            together[name].append(milliseconds(lambda: indexes[name].search(users, K)) / 32)  # noqa: B023
    for name, row in rows.items():
        row["ms_1"], row["probe_ms"], row["matrix_ms_32"] = statistics.median(alone[name]), probe, matrix
        row["ms_32"] = statistics.median(together[name]) if together[name] else float("nan")
        row["of_numpy_1"] = row["ms_1"] / statistics.median(alone["numpy"])
        row["of_numpy_32"] = row["ms_32"] / statistics.median(alone["numpy"])
    return list(rows.values())


def index_of_a_million() -> None:
    """Time and peak memory of Index.build, the catalogue itself not counted."""
    catalog, _ = trained(1_000_000, np.random.default_rng(0))
    sw.Index.build(catalog.taken(np.arange(2000)))  # compile first
    tracemalloc.start()
    took = milliseconds(lambda: sw.Index.build(catalog, cells=256, progress=False)) / 1000
    peak = tracemalloc.get_traced_memory()[1] / catalog.value.nbytes
    tracemalloc.stop()
    print(f"\nIndex.build of 10^6 items: {took:.1f} s, peak memory {peak:.2f} times the value matrix")


def table(rows: list[dict]) -> None:
    print(f"\n{'data':>10} {'n':>10} {'cells':>6} {'backend':>9} {'build s':>8} {'MB':>7} {'recall':>7} {'ms':>8} {'of numpy':>9} {'ms of 32':>9} {'of numpy':>9} {'matrix':>7} {'probe':>6}")  # fmt: skip
    for row in rows:
        print(
            f"{row['data']:>10} {row['n']:>10,} {row['cells']:>6} {row['backend']:>9} {row['build_s']:8.1f} {row['megabytes']:7.0f} {row['recall']:7.4f} "
            f"{row['ms_1']:8.2f} {row['of_numpy_1']:9.3f} {row['ms_32']:9.2f} {row['of_numpy_32']:9.3f} {row['matrix_ms_32']:7.2f} {row['probe_ms']:6.1f}"
        )


def exponents(rows: list[dict]) -> None:
    """The slope of log time against log n, from the smallest size and from the next, where vectors have left the cache."""
    for data in ("trained", "isotropic"):
        for name in FAST:
            points = [(row["n"], row["ms_1"]) for row in rows if row["data"] == data and row["backend"] == name]
            for some in (points, points[1:]):
                if len(some) > 1:
                    n, ms = np.log(np.array(some)).T
                    slope = np.polyfit(n, ms, 1)[0]
                    print(f"growth of {name} on {data}: time ~ n^{slope:.2f} from {some[0][0]:,} to {some[-1][0]:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--large", action="store_true", help="10^7 items as well, with 1,024 cells")
    parser.add_argument("--cells", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=16)
    parser.add_argument("--data", nargs="+", choices=("trained", "isotropic"), default=["trained", "isotropic"])
    parser.add_argument("--searches-only", action="store_true", help="do not measure Index.build, which has no rows")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "rows" / "retrieval.csv")
    options = parser.parse_args()
    rows: list[dict] = []
    for size in options.sizes + ([10_000_000] if options.large else []):
        for kind in (globals()[name] for name in options.data):
            able = FAST[:3] if size >= 10_000_000 else FAST if size > 100_000 else tuple(BACKENDS)
            names = [name for name in BACKENDS if BACKENDS[name].available and name in able]
            rows += measure(kind, size, 1024 if size >= 10_000_000 else options.cells, names, options.repeats)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    table(rows)
    exponents(rows)
    if max(options.sizes) >= 1_000_000 and not options.searches_only:
        index_of_a_million()


if __name__ == "__main__":
    main()
