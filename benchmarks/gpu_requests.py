"""Whole requests of the gpu backend, part by part; where ranking is faster; and whether memory grows.

    python benchmarks/gpu_requests.py --sizes 10000000 100000000     one GPU of 80 GB
    python benchmarks/gpu_requests.py --sizes 20000 --cells 64 --requests 50 --reloads 2        a trial without a GPU

Rows of the result, beside those of gpu.py, whose items these are:

``recommend``               k = 10, one user at a time, or ``recommend_many`` of so many
``recommend on processor``  the same with candidates chosen and ranked by the processor's threads, after the same pass
``certified``               one user at a time with an upper bound from the device, from 20 million items on; gap (note)
``part``                    milliseconds of each part of a request (note), by the host's clock; the device is waited for
                            before and after each part, so the parts add up to more than a request
``leaks``                   bytes of the device that are in use after so many requests, and after so many reloads

The value of slates from the device is compared with that of the processor's for the same users (note).
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from gpu import DEVICE, K, Row, host_ms, keeper, made, row

import setwise as sw
from setwise.ranking import device_swap
from setwise.recommend import device_candidates, device_pipeline, pipeline
from setwise.recommend.query import Query
from setwise.retrieval.backends.gpu import GPU
from setwise.retrieval.device_catalog import DeviceCatalog

PARTS = (
    (Query, "parse"),
    (GPU, "rows_on_device"),
    (device_candidates, "_best_and_reserve"),
    (device_candidates, "_distinct"),
    (device_candidates, "chosen"),
    (DeviceCatalog, "scores"),
    (device_candidates, "_by_promise"),
    (DeviceCatalog, "pair_values"),
    (device_pipeline, "instances"),
    (device_swap, "_start_items"),
    (device_swap, "_grown"),
    (device_swap, "_climbed"),
    (device_swap, "_perturbed"),
    (pipeline, "valued_many"),
)


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Milliseconds of every part that is called inside; a part includes those that it calls."""
    spent: dict[str, float] = {}

    def clocked(name: str, work: Any) -> Any:
        def measured(*arguments: Any, **options: Any) -> Any:
            wait()
            start = time.perf_counter()
            result = work(*arguments, **options)
            wait()
            spent[name] = spent.get(name, 0.0) + 1000 * (time.perf_counter() - start)
            return result

        return measured

    with ExitStack() as stack:
        for owner, name in PARTS:
            stack.enter_context(mock.patch.object(owner, name, clocked(name, getattr(owner, name))))
        yield spent


def profile(n: int, cells: int, rec: sw.Recommender, users: np.ndarray, counts: list[int]) -> list[Row]:
    """One row for each number of users: the median time of each part over nine batches."""
    result = []
    for count in counts:
        every = []
        for _ in range(9):
            with timed() as spent:
                start = time.perf_counter()
                rec.recommend(users[0], k=K) if count == 1 else rec.recommend_many(users[:count], k=K)
                every.append(spent | {"all": 1000 * (time.perf_counter() - start)})
        middle = {name: statistics.median(one.get(name, 0.0) for one in every) for name in every[0]}
        note = " ".join(f"{name} {ms:.3f}" for name, ms in middle.items())
        result.append(row(n, cells, "part", count, [one["all"] for one in every], note=note))
    return result


def requests(n: int, cells: int, rec: sw.Recommender, users: np.ndarray, counts: list[int]) -> list[Row]:
    """Requests on the device and on the processor, and the share of the processor's value that the device finds."""
    result, values = [], {}
    on_device = rec._snapshot
    assert on_device.device is not None
    for what, snapshot in (("recommend", on_device), ("recommend on processor", replace(on_device, device=None))):
        rec._snapshot = snapshot
        for user in users[:3]:
            rec.recommend(user, k=K)
        slates, times = [], []
        for user in users[:60]:
            times.append(host_ms(lambda: slates.append(rec.recommend(user, k=K))))  # noqa: B023
        values[what] = np.array([slate.value for slate in slates])
        phases = {name: statistics.median(slate.timings[name] for slate in slates) for name in slates[0].timings}
        note = " ".join(f"{name} {ms:.2f}" for name, ms in phases.items())
        if what != "recommend":
            share = values["recommend"] / values[what]
            note += f"; the device has {share.mean():.5f} of these values, at least {share.min():.5f}"
        result.append(row(n, cells, what, 1, times, note=note))
        for count in counts:
            rec.recommend_many(users[:count], k=K)
            repeats = 7 if what == "recommend" else 2
            some = [host_ms(lambda: rec.recommend_many(users[:count], k=K)) for _ in range(repeats)]  # noqa: B023
            result.append(row(n, cells, what, count, some, note=f"{os.cpu_count()} cores"))
    rec._snapshot = on_device
    return result


def certified(n: int, cells: int, rec: sw.Recommender, users: np.ndarray) -> list[Row]:
    """Requests with a bound, where that is computed on the device."""
    device = rec._snapshot.device
    if device is None or not device.bounds:
        return []
    slates, times = [rec.recommend(users[0], k=K, certify=True)], []
    for user in users[:30]:
        times.append(host_ms(lambda: slates.append(rec.recommend(user, k=K, certify=True))))  # noqa: B023
    gaps = sorted(slate.gap for slate in slates[1:])
    note = f"gap {statistics.median(gaps):.5f}, largest {gaps[-1]:.5f}"
    note += f"; the bound {statistics.median(slate.timings['certify'] for slate in slates[1:]):.2f} ms"
    return [row(n, cells, "certified", 1, times, note=note)]


def tensors() -> int:
    """Bytes of the device that tensors use; without a GPU, those of all tensors that are alive."""
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()
    return sum(each.nbytes for each in gc.get_objects() if type(each) is torch.Tensor)


def leaks(n: int, cells: int, count: int, reloads: int) -> list[Row]:
    """Memory after a tenth and after all of ``count`` requests in batches of 1 and 64, and after the reloads."""
    catalog, partition, users = made(n, cells)
    index = sw.Index.build(catalog, partition=partition, backend="gpu")
    rec = sw.Recommender(index, certify=False)
    began, done, held = time.perf_counter(), 0, []
    for least in (count // 10, count):
        while done < least:
            rec.recommend(users[done % 256], k=K, exclude=[done % n])
            rec.recommend_many(users[np.arange(done, done + 63) % 256], k=K)
            done += 64
        held.append(tensors())
    times = [1000 * (time.perf_counter() - began)]
    with tempfile.TemporaryDirectory() as folder:
        index.save(folder)
        del index, rec
        for _ in range(reloads):
            loaded = sw.Recommender(sw.Index.load(folder), certify=False)
            loaded.recommend(users[0], k=K)
            held.append(tensors())
            del loaded
    note = f"after {count // 10} and {count} requests {held[0]} {held[1]}; after each of {reloads} reloads {held[2:]}"
    result = [row(n, cells, "leaks", count, times, note=note)]
    if held[0] != held[1] or len(set(held[3:])) > 1:  # a first load may leave buffers behind
        raise SystemExit(f"memory grows: {note}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000_000, 100_000_000])
    parser.add_argument("--users", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--cells", type=int, default=1024)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--leak-items", type=int, default=200_000)
    parser.add_argument("--bounded-from", type=int, default=device_pipeline.LEAST_BOUNDED, help="items; for a trial")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "rows" / "gpu_requests.csv")
    options = parser.parse_args()
    device_pipeline.LEAST_BOUNDED = options.bounded_from
    keep = keeper(options.out)
    for n in options.sizes:
        start = time.perf_counter()
        catalog, partition, users = made(n, options.cells)
        index = sw.Index.build(catalog, partition=partition, backend="gpu")
        rec = sw.Recommender(index, certify=False)
        print(f"{n:,} items ready after {time.perf_counter() - start:.1f} s", flush=True)
        if rec._snapshot.device is None:
            raise SystemExit("queries and keys do not fit the device beside the index")
        rec.recommend_many(users[:2], k=K)
        keep(profile(n, options.cells, rec, users, [1, *options.users]))
        keep(requests(n, options.cells, rec, users, options.users))
        keep(certified(n, options.cells, rec, users))
        del catalog, index, rec
    if options.requests:
        keep(leaks(min(options.leak_items, max(options.sizes)), options.cells, options.requests, options.reloads))


if __name__ == "__main__":
    main()
