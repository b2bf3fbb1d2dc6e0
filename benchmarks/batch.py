"""The rate of ``setwise batch`` against cores × the rate of ``recommend_many`` on one thread.

    python benchmarks/batch.py --data ../shared/data --users 20000

The catalogue is the trained one of 33,528 songs. Users are histories of ten songs, drawn from those of held-out users.
The rate of a batch includes everything: the start of its processes, reading, writing. Print the machine's load beside it:
other processes lower both rates, but not alike.
"""

from __future__ import annotations

import argparse
import json
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

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
from setwise.recommend.batch.run import recommend_table
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--catalogue", default="playlists_one_head")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--alone", type=int, default=1024, help="users of the measurement on one thread")
    parser.add_argument("--processes", type=int, default=available_cores())
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    options = parser.parse_args()
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
        start = time.perf_counter()
        recommender.recommend_many(histories=some, k=K, threads=1)
        alone = len(some) / (time.perf_counter() - start)
        report = recommend_table(
            folder / "users.parquet", folder / "shop", folder / "slates.parquet", Columns(history="history"),
            processes=options.processes, k=K,
        )  # fmt: skip
        rows = pa.parquet.read_metadata(folder / "slates.parquet").num_rows
    share = report.users_per_second / (options.processes * alone)
    figures = {
        "catalogue": options.catalogue, "users": options.users, "rows": rows, "processes": options.processes,
        "alone_per_second": alone, "batch_per_second": report.users_per_second, "share": share,
        "load": os.getloadavg()[0],
    }  # fmt: skip
    print(json.dumps(figures))
    if options.out:
        options.out.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
