"""The rate of ``setwise batch`` against cores × the rate of ``recommend_many`` on one thread.

    python benchmarks/batch.py --data ../shared/data --users 20000

The catalogue is the trained one of 33,528 songs. Users are histories of ten songs, drawn from those of held-out users.
The rate of a batch includes everything: the start of its processes, reading, writing. ``share`` is the goal's figure, by
the clock: batch rate / (processes x rate of one thread). Other processes on the machine lower both rates, but not
alike, so the load is printed before and after; on a busy machine ``share`` says nothing. ``cpu_share`` is the ratio of
processor time for one user, alone and in the batch: what the batch spends beside computing. It leaves out waiting, such
as that of a process without a part at the end, so it is no substitute for ``share``. ``parts_share`` is the most that
``share`` can be with so few parts.
"""

from __future__ import annotations

import argparse
import json
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from candidates import opened

import setwise as sw
from setwise._validation import available_cores
from setwise.model.encoder import Encoder
from setwise.recommend.batch.run import PART_ROWS, recommend_table
from setwise.recommend.batch.users import Columns

HISTORY, K = 10, 10


def saved(folder: Path, data: Path, catalogue: str) -> np.ndarray:
    """Save a recommender whose users are means of their items' values; the songs of held-out histories."""
    catalog, _, histories = opened(data / "catalogs" / f"{catalogue}.npz")
    heads, width = catalog.value.shape[1:]
    items = catalog.value.reshape(len(catalog), -1)
    weight = np.eye(heads * width).reshape(heads, width, heads * width)
    base = None if catalog.base is None else np.zeros((catalog.base.shape[1], heads * width))
    bias = None if catalog.base is None else np.zeros(catalog.base.shape[1])
    encoder = Encoder(items, weight, np.zeros((heads, width)), base, bias)
    sw.Recommender(sw.Index.build(catalog), encoder=encoder, certify=False).save(folder)
    return np.unique(histories)


def cpu_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def most_share(users: int, part_rows: int, processes: int) -> float:
    """The share of all processes at work, if every user takes as long: rounds of whole parts."""
    parts = -(-users // part_rows)
    return users / (processes * min(users, -(-parts // processes) * part_rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--catalogue", default="playlists_one_head")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--alone", type=int, default=1024, help="users of the measurement on one thread")
    parser.add_argument("--processes", type=int, default=available_cores())
    parser.add_argument("--part-rows", type=int, default=PART_ROWS, help="fewer for a small number of users")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    options, load = parser.parse_args(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        songs = saved(folder / "shop", options.data, options.catalogue)
        rng = np.random.default_rng(0)
        histories = [rng.choice(songs, HISTORY, replace=False).tolist() for _ in range(options.users)]
        table = pa.table({"user": range(options.users), "history": histories})
        pa.parquet.write_table(table, folder / "users.parquet")
        recommender = sw.Recommender.load(folder / "shop")
        some = histories[: options.alone]
        recommender.recommend_many(histories=some[:64], k=K, threads=1)
        start, used = time.perf_counter(), cpu_seconds()
        recommender.recommend_many(histories=some, k=K, threads=1)
        alone, alone_cpu = len(some) / (time.perf_counter() - start), (cpu_seconds() - used) / len(some)
        used = cpu_seconds()
        report = recommend_table(
            folder / "users.parquet", folder / "shop", folder / "slates.parquet", Columns(history="history"),
            processes=options.processes, part_rows=options.part_rows, k=K,
        )  # fmt: skip
        batch_cpu = (cpu_seconds() - used) / options.users
        rows = pa.parquet.read_metadata(folder / "slates.parquet").num_rows
    share = report.users_per_second / (options.processes * alone)
    figures = {
        "catalogue": options.catalogue, "users": options.users, "rows": rows, "processes": options.processes,
        "alone_per_second": alone, "batch_per_second": report.users_per_second, "share": share,
        "parts_share": most_share(options.users, options.part_rows, options.processes),
        "alone_cpu_ms": 1000 * alone_cpu, "batch_cpu_ms": 1000 * batch_cpu, "cpu_share": alone_cpu / batch_cpu,
        "load_before": load, "load_after": os.getloadavg()[0],
    }  # fmt: skip
    print(json.dumps(figures))
    if options.out:
        options.out.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
