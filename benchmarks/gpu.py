"""Time of the gpu backend: one pass over all cells, and whole requests, beside the time of reading the memory once.

    python benchmarks/gpu.py                                   10^6, 10^7 and 10^8 items: one GPU of 80 GB, 80 GB of RAM
    python benchmarks/gpu.py --sizes 20000 --cells 64          a trial, also without a GPU
    python benchmarks/gpu.py --certified 1000000               certified requests too, at this size

Items are like those of a trained model: a latent vector per item near that of its cell, values in 64 dimensions with a
decaying spectrum, queries and keys in eight. Cells are those of the generator, so building has no k-means. Every pass finds
the ten best of each cell. Rows of the result:

``floor``        reading as many bytes as all vectors have in bfloat16, and reading the int8 codes (note)
``pass``         the search on the device, by its own clock; ``search`` is the same with checks and copies, by the host's
``brute force``  matrix product in float32 and top ten of all items (not of every cell), piece by piece, by the device's clock
``scan``         the default backend, one thread of the processor, 10^6 items
``recommend``    whole requests, k = 10: one at a time, or ``recommend_many`` of so many users with all cores

``recall`` is against float32 brute force of every cell, by score, for 100 users. Raw rows go to benchmarks/rows/gpu.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import setwise as sw
from setwise.retrieval.backends.protocol import BACKENDS, scaled
from setwise.retrieval.device_layout import BLOCK, DeviceLayout, quantised_users
from setwise.retrieval.partition import Partition

D, LATENT, WIDTH, K = 64, 24, 8, 10
FIELDS = ("n", "cells", "what", "users", "ms", "ms_90", "users_per_second", "recall", "note")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Row = dict[str, Any]


def made(n: int, cells: int) -> tuple[sw.Catalog, Partition, np.ndarray]:
    """A catalogue, its partition and 256 users, drawn on the device piece by piece."""
    draw = torch.Generator(DEVICE).manual_seed(0)
    normal = lambda *shape: torch.randn(shape, generator=draw, device=DEVICE)  # noqa: E731
    centre = normal(cells, LATENT)
    to_value = normal(LATENT, D) * torch.linspace(1.5, 0.3, LATENT, device=DEVICE)[:, None]
    to_query, to_key = 0.4 * normal(LATENT, WIDTH), 0.4 * normal(LATENT, WIDTH)
    query, key, value = (np.empty((n, width), np.float32) for width in (WIDTH, WIDTH, D))
    cell_of, radius = np.empty(n, np.int32), torch.zeros((2, cells), device=DEVICE)
    for first in range(0, n, 1 << 20):
        size = min(1 << 20, n - first)
        cell = torch.randint(cells, (size,), generator=draw, device=DEVICE)
        x = centre[cell] + 0.5 * normal(size, LATENT)
        for side, (array, to) in enumerate(((query, to_query), (key, to_key))):
            torch.from_numpy(array[first : first + size]).copy_(x @ to)
            away = torch.linalg.norm((x - centre[cell]) @ to, dim=1)
            radius[side].scatter_reduce_(0, cell, 1.0001 * away, "amax")
        torch.from_numpy(value[first : first + size]).copy_(x @ to_value + 0.15 * normal(size, D))
        torch.from_numpy(cell_of[first : first + size]).copy_(cell)
    users = value[np.random.default_rng(1).integers(n, size=(256, 5))].mean(axis=1)
    one, of_cells = np.ones(1, np.float32), [(centre @ to)[:, None].cpu().numpy() for to in (to_query, to_key)]
    radii = [each[:, None].cpu().numpy() for each in radius]
    partition = Partition(cell_of, np.zeros(cells, np.int32), *of_cells, *radii, one, one)
    for array in (query, key, value):
        array.flags.writeable = False  # a catalogue would copy arrays that can change
    return sw.Catalog(query, key, value), partition, users


def device_ms(work: Callable[[], object], repeats: int = 9) -> list[float]:
    """Times of ``work`` by the clock of the device, or of the host where there is none, after two without."""
    work(), work()
    times = []
    for _ in range(repeats):
        if DEVICE.type == "cpu":
            times.append(host_ms(work))
            continue
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        work()
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after))
    return times


def host_ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def floor_ms(tensor: torch.Tensor, most_bytes: int) -> list[float]:
    """Times of reading the first bytes of a tensor once and adding them up as whole numbers, by a kernel of its own."""
    flat = tensor.reshape(-1).view(torch.int32)[: most_bytes // 4]
    if DEVICE.type == "cpu":
        return device_ms(lambda: flat.sum())
    from read_floor import read_all

    return device_ms(lambda: read_all(flat))


def brute_force(layout: DeviceLayout, users: torch.Tensor) -> torch.Tensor:
    """The ten best scores of all items for each user, (B, 10): matrix product and topk, 2^22 items at a time."""
    best = []
    for first in range(0, len(layout.rows), 1 << 22):
        scores = users @ layout.rows[first : first + (1 << 22)].T
        best.append(scores.topk(min(K, scores.shape[1]), dim=1).values)
    return torch.cat(best, dim=1).topk(K, dim=1).values


def recall(layout: DeviceLayout, users: np.ndarray, scores: np.ndarray) -> float:
    """The share of each cell's true ten best, by score up to rounding, that ``scores`` (B, C, 10) has."""
    found, wanted = 0, 0
    start = (layout.block_start.long() * BLOCK).tolist()
    for first in range(0, len(users), 10):
        some = torch.from_numpy(users[first : first + 10]).to(DEVICE)
        own = torch.from_numpy(scores[first : first + 10]).to(DEVICE)
        every = torch.where(layout.order[:, None] >= 0, layout.rows @ some.T, -torch.inf)
        size = 1e-6 * float(layout.norm.max()) * torch.linalg.norm(some, dim=1)
        for cell in range(layout.cells):
            top = every[start[cell] : start[cell + 1]].topk(min(K, start[cell + 1] - start[cell]), dim=0).values.T
            there = top > -torch.inf
            wanted += int(there.sum())
            found += int(((own[:, cell, : top.shape[1]] >= top - size[:, None]) & there).sum())
    return found / wanted


def row(n: int, cells: int, what: str, users: int, times: list[float], **more: Any) -> Row:
    middle, high = statistics.median(times), sorted(times)[int(0.9 * (len(times) - 1))]
    result = {"n": n, "cells": cells, "what": what, "users": users, "ms": middle, "ms_90": high}
    result["users_per_second"] = 1000 * users / middle
    result |= more
    print(" ".join(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in result.items()), flush=True)  # fmt: skip
    return result


def measure_pass(n: int, cells: int, backend: Any, users: np.ndarray, counts: list[int]) -> list[Row]:
    layout, small = backend._layout, np.stack([scaled(user) for user in users])
    codes = floor_ms(layout.codes, layout.codes.nbytes)
    rows = [
        row(n, cells, "floor", 0, floor_ms(layout.rows, 2 * n * D), note=f"codes {statistics.median(codes):.3f} ms")
    ]
    hits = backend.search(small[:100], K)
    share = recall(layout, small[:100], hits.scores)
    for count in counts:
        asked = quantised_users(small[:count], layout.device)
        times = device_ms(lambda: backend._search(layout, asked, K, None))  # noqa: B023
        rows.append(row(n, cells, "pass", count, times, recall=share))
        backend.search(small[:count], K)
        times = [host_ms(lambda: backend.search(small[:count], K)) for _ in range(9)]  # noqa: B023
        rows.append(row(n, cells, "search", count, times))
        if count <= 64:
            rows.append(row(n, cells, "brute force", count, device_ms(lambda: brute_force(layout, asked.vectors), 3)))  # noqa: B023
    return rows


def measure_scan(n: int, cells: int, index: sw.Index, users: np.ndarray) -> list[Row]:
    scan = BACKENDS["scan"].load().build(index.catalog.value.reshape(n, -1), index.cell_of, cells)
    result = []
    for count in (1, 64):
        some = np.stack([scaled(user) for user in users[:count]])
        scan.search(some, K)
        result.append(row(n, cells, "scan", count, [host_ms(lambda: scan.search(some, K)) for _ in range(5)]))  # noqa: B023
    return result


def measure_requests(n: int, cells: int, index: sw.Index, users: np.ndarray, certify: bool) -> list[Row]:
    rec, what = sw.Recommender(index, certify=certify), f"recommend{' certified' if certify else ''}"
    for user in users[:3]:
        rec.recommend(user, k=K)
    slates, times = [], []
    for user in users[: 20 if certify else 60]:
        start = time.perf_counter()
        slates.append(rec.recommend(user, k=K))
        times.append(1000 * (time.perf_counter() - start))
    phases = {name: statistics.median(slate.timings[name] for slate in slates) for name in slates[0].timings}
    note = " ".join(f"{name} {ms:.2f}" for name, ms in phases.items())
    if certify:
        note += f" gap {statistics.median(slate.gap for slate in slates):.4f}"
    result = [row(n, cells, what, 1, times, note=note)]
    for count in () if certify else (64, 256):
        rec.recommend_many(users[:count], k=K)
        some = [host_ms(lambda: rec.recommend_many(users[:count], k=K)) for _ in range(3)]  # noqa: B023
        result.append(row(n, cells, what, count, some, note=f"{os.cpu_count()} cores"))
    return result


def keeper(path: Path) -> Callable[[list[Row]], None]:
    """A function that adds rows and writes all of them to ``path``, so that an interrupted run has its rows."""
    rows: list[Row] = []

    def keep(some: list[Row]) -> None:
        rows.extend(some)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)

    return keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--users", type=int, nargs="*", default=[1, 8, 64, 256])
    parser.add_argument("--cells", type=int, default=1024)
    parser.add_argument("--certified", type=int, nargs="*", default=[], help="sizes of certified requests")
    parser.add_argument(
        "--requests-after", type=Path, help="wait for this file before requests, such as for compiled code"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "rows" / "gpu.csv")
    options = parser.parse_args()
    keep = keeper(options.out)
    built: dict[int, tuple[sw.Index, np.ndarray]] = {}
    for n in options.sizes:
        start = time.perf_counter()
        catalog, partition, users = made(n, options.cells)
        print(f"{n:,} items made in {time.perf_counter() - start:.1f} s", flush=True)
        start = time.perf_counter()
        built[n] = sw.Index.build(catalog, partition=partition, backend="gpu"), users
        times = [1000 * (time.perf_counter() - start)]
        note = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "no GPU"
        keep([row(n, options.cells, "build", 0, times, note=note)])
        keep(measure_pass(n, options.cells, built[n][0]._state.neighbors, users, options.users))
    while options.requests_after and not options.requests_after.exists():
        time.sleep(0.5)
    for n in reversed(options.sizes):
        keep(measure_requests(n, options.cells, *built[n], certify=False))
    if 1_000_000 in built:
        keep(measure_scan(1_000_000, options.cells, *built[1_000_000]))
    for n in options.certified:
        keep(measure_requests(n, options.cells, *built[n], certify=True))


if __name__ == "__main__":
    main()
